/** How fast an import calls a provider: few calls at a time, within the budget, and none that cannot succeed. */
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { GrantImports, ImportOutcome } from '../../../src/gatehouse/grants/imported-grant.ts';
import { type ImportParts, startImport } from '../../../src/gatehouse/users/connection-import.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import { until } from '../../support/until.ts';

const ISSUER = 'https://login.example';
const APP = {
  id: 'platform',
  issuer: ISSUER,
  scopes: ['openid'],
  signIn: { allow: 'everyone' },
} as unknown as ConnectedApp;
const COUNT = 50;
const AWAY = { kind: 'unchecked', cause: 'provider_unavailable' } as const;

async function importMany(
  check: () => ImportOutcome | Promise<ImportOutcome>,
  {
    entryOf,
    count = COUNT,
    ...parts
  }: Partial<Pick<ImportParts, 'charge' | 'patience'>> & { entryOf?: () => object; count?: number } = {},
) {
  let calls = 0;
  let atOnce = 0;
  let most = 0;
  let isSealing = true;
  const imports: GrantImports = {
    async seal(_imported, onNew) {
      expect(isSealing).toBe(true);
      await onNew('c1');
      return undefined;
    },
    async check() {
      isSealing = false;
      calls += 1;
      atOnce += 1;
      most = Math.max(most, atOnce);
      await turn();
      atOnce -= 1;
      return check();
    },
  };
  const { report, take } = startImport({
    apps: { find: () => APP, signInApps: () => [APP] },
    users: { find: async () => undefined, conditionsForImport: async () => [] },
    ...{ imports, charge: async () => undefined, audit: async () => undefined, clock: Date.now },
    patience: { milliseconds: 20_000, sinceSuccess: false },
    ...parts,
  });
  const entries = Array.from({ length: count }, (_none, at) => ({
    line: at + 1,
    entry: { user: { subject: `user-${at}` }, app: 'platform', refreshToken: `token-${at}`, ...entryOf?.() },
  }));
  await take(entries);
  return { report, calls, most };
}

test('seals all entries first, then checks 8 at a time', async () => {
  const { report, calls, most } = await importMany(() => ({ kind: 'imported' }));
  expect([report.imported, calls, most]).toEqual([COUNT, COUNT, 8]);
});

test.each<[string, ImportOutcome]>([
  ['whose app is refused', { kind: 'unchecked', cause: 'app_refused', retryAt: 0 }],
  ['that is away for longer than the import waits', { ...AWAY, retryAt: Date.now() + 3_600_000 }],
])('a provider %s is not called for every token', async (_name, outcome) => {
  const { report, calls } = await importMany(() => outcome);
  expect(calls).toBeLessThanOrEqual(8);
  expect([report.unchecked, report.failures.length]).toEqual([COUNT, COUNT]);
});

test('calls a provider again after a short outage, and reports no failure', async () => {
  let failures = 3;
  const { report } = await importMany(() =>
    failures-- > 0 ? { ...AWAY, retryAt: Date.now() + 50 } : { kind: 'imported' },
  );
  expect([report.imported, report.failures]).toEqual([COUNT, []]);
});

test('calls a provider that limits its calls (429) only after the time that it names, apart from running calls', async () => {
  let at = 0;
  let early = 0;
  let retryAt = 0;
  const { report, calls } = await importMany(async () => {
    at += 1;
    if (at === 12) {
      retryAt = Date.now() + 200;
      return { ...AWAY, retryAt, reason: 'status_429' };
    }
    // Calls that run at the same time may end, but no other call may begin.
    if (retryAt > Date.now()) early += 1;
    await turn();
    return { kind: 'imported' };
  });
  expect(early).toBeLessThanOrEqual(7);
  expect([report.imported, calls, report.failures]).toEqual([COUNT, COUNT + 1, []]);
});

test('does not wait after the last call for a token', async () => {
  const startedAt = Date.now();
  let at = 0;
  const { report, calls } = await importMany(
    () => {
      at += 1;
      return { ...AWAY, retryAt: Date.now() + (at === 5 ? 1_500 : 10) };
    },
    { count: 1 },
  );
  expect([calls, report.unchecked]).toEqual([5, 1]);
  expect(Date.now() - startedAt).toBeLessThan(1_500);
});

test('R132 a provider that hangs delays only the tokens of its own app', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const tried: string[] = [];
  const other = { ...APP, id: 'other' } as ConnectedApp;
  const { report, take } = startImport({
    apps: { find: (id) => (id === other.id ? other : APP), signInApps: () => [APP] },
    users: { find: async () => undefined, conditionsForImport: async () => [] },
    imports: {
      seal: async () => undefined,
      async check({ app }) {
        if (app.id === APP.id) await promise;
        tried.push(app.id);
        return { kind: 'imported' };
      },
    },
    ...{ charge: async () => undefined, audit: async () => undefined, clock: Date.now },
    patience: { milliseconds: 20_000, sinceSuccess: false },
  });
  const entries = [APP, other].flatMap(({ id }, of) =>
    Array.from({ length: COUNT }, (_none, at) => ({
      line: of * COUNT + at + 1,
      entry: { user: { subject: `user-${at}` }, app: id, refreshToken: `token-${id}-${at}` },
    })),
  );
  const importing = take(entries);
  await until(() => tried.length === COUNT);
  expect(new Set(tried)).toEqual(new Set([other.id]));
  resolve();
  await importing;
  expect(report.imported).toBe(2 * COUNT);
});

test('a token that the provider refuses without a reason delays no other', async () => {
  let at = 0;
  const { report, calls } = await importMany(() =>
    at++ === 0 ? { kind: 'unchecked', cause: 'unclear_refusal', retryAt: Date.now() + 600_000 } : { kind: 'imported' },
  );
  expect([calls, report.imported, report.unchecked]).toEqual([COUNT, COUNT - 1, 1]);
});

test('charges each check to the budget of the app, and waits while the budget is spent', async () => {
  let left = 10;
  const charge = async () => (left-- > 0 ? undefined : 3_600);
  const { report, calls } = await importMany(() => ({ kind: 'imported' }), { charge });
  expect([calls, report.imported, report.unchecked]).toEqual([10, 10, COUNT - 10]);
  expect(report.failures[0]).toMatchObject({ result: 'unchecked', cause: 'not_checked' });
});

test('tries a refresh token of two entries only for the first one', async () => {
  const { report, calls } = await importMany(() => ({ kind: 'imported' }), {
    entryOf: () => ({ refreshToken: 'one' }),
  });
  expect([calls, report.imported, report.invalid]).toEqual([1, 1, COUNT - 1]);
  expect(report.failures[0]).toMatchObject({ result: 'invalid', cause: 'same_token' });
});
