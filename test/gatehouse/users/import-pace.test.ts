/** How fast an import calls a provider: few calls at a time, within the budget, and none that cannot succeed. */
import { setImmediate as nextTurn } from 'node:timers/promises';
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
const UNAVAILABLE = { kind: 'unchecked', cause: 'provider_unavailable' } as const;

interface ImportOptions extends Partial<Pick<ImportParts, 'charge' | 'patience'>> {
  entryChanges?: object;
  count?: number;
}

/** Imports many entries. @param check the outcome of each check of a token */
async function importMany(
  check: () => ImportOutcome | Promise<ImportOutcome>,
  { entryChanges, count = COUNT, ...parts }: ImportOptions = {},
) {
  let calls = 0;
  let concurrentCalls = 0;
  let maxConcurrentCalls = 0;
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
      concurrentCalls += 1;
      maxConcurrentCalls = Math.max(maxConcurrentCalls, concurrentCalls);
      await nextTurn();
      concurrentCalls -= 1;
      return check();
    },
  };
  const { report, take } = startImport({
    apps: { find: () => APP, signInApps: () => [APP] },
    users: { find: async () => undefined, conditionsForImport: async () => [] },
    imports,
    charge: async () => undefined,
    audit: async () => undefined,
    clock: Date.now,
    patience: { milliseconds: 20_000, sinceSuccess: false },
    ...parts,
  });
  const entries = Array.from({ length: count }, (_, index) => ({
    line: index + 1,
    entry: { user: { subject: `user-${index}` }, app: 'platform', refreshToken: `token-${index}`, ...entryChanges },
  }));
  await take(entries);
  return { report, calls, maxConcurrentCalls };
}

test('seals all entries first, then checks 8 at a time', async () => {
  const { report, calls, maxConcurrentCalls } = await importMany(() => ({ kind: 'imported' }));
  expect([report.imported, calls, maxConcurrentCalls]).toEqual([COUNT, COUNT, 8]);
});

test.each<[string, ImportOutcome]>([
  ['whose app is refused', { kind: 'unchecked', cause: 'app_refused', retryAt: 0 }],
  ['that is unavailable for longer than the import waits', { ...UNAVAILABLE, retryAt: Date.now() + 3_600_000 }],
])('a provider %s is not called for every token', async (_name, outcome) => {
  const { report, calls } = await importMany(() => outcome);
  expect(calls).toBeLessThanOrEqual(8);
  expect([report.unchecked, report.failures.length]).toEqual([COUNT, COUNT]);
});

test('calls a provider again after a short outage, and reports no failure', async () => {
  let checks = 0;
  const { report } = await importMany(() => {
    checks += 1;
    return checks <= 3 ? { ...UNAVAILABLE, retryAt: Date.now() + 50 } : { kind: 'imported' };
  });
  expect([report.imported, report.failures]).toEqual([COUNT, []]);
});

test('calls a provider that limits its calls (429) only after the time that it names, apart from running calls', async () => {
  let checks = 0;
  let earlyChecks = 0;
  let retryAt = 0;
  const { report, calls } = await importMany(async () => {
    checks += 1;
    if (checks === 12) {
      retryAt = Date.now() + 200;
      return { ...UNAVAILABLE, retryAt, reason: 'status_429' };
    }
    // Calls that run at the same time may end, but no other call may begin.
    if (retryAt > Date.now()) earlyChecks += 1;
    await nextTurn();
    return { kind: 'imported' };
  });
  expect(earlyChecks).toBeLessThanOrEqual(7);
  expect([report.imported, calls, report.failures]).toEqual([COUNT, COUNT + 1, []]);
});

test('does not wait after the last call for a token', async () => {
  const startedAt = Date.now();
  let checks = 0;
  const { report, calls } = await importMany(
    () => {
      checks += 1;
      return { ...UNAVAILABLE, retryAt: Date.now() + (checks === 5 ? 1_500 : 10) };
    },
    { count: 1 },
  );
  expect([calls, report.unchecked]).toEqual([5, 1]);
  expect(Date.now() - startedAt).toBeLessThan(1_500);
});

test('R132 a provider that hangs delays only the tokens of its own app', async () => {
  const { promise: response, resolve: respond } = Promise.withResolvers<void>();
  const checkedApps: string[] = [];
  const otherApp = { ...APP, id: 'other' } as ConnectedApp;
  const { report, take } = startImport({
    apps: { find: (id) => (id === otherApp.id ? otherApp : APP), signInApps: () => [APP] },
    users: { find: async () => undefined, conditionsForImport: async () => [] },
    imports: {
      seal: async () => undefined,
      async check({ app }) {
        if (app.id === APP.id) await response;
        checkedApps.push(app.id);
        return { kind: 'imported' };
      },
    },
    charge: async () => undefined,
    audit: async () => undefined,
    clock: Date.now,
    patience: { milliseconds: 20_000, sinceSuccess: false },
  });
  const entriesOf = (app: string, firstLine: number) =>
    Array.from({ length: COUNT }, (_, index) => ({
      line: firstLine + index,
      entry: { user: { subject: `user-${index}` }, app, refreshToken: `token-${app}-${index}` },
    }));

  const importRun = take([...entriesOf(APP.id, 1), ...entriesOf(otherApp.id, COUNT + 1)]);
  await until(() => checkedApps.length === COUNT);
  expect(new Set(checkedApps)).toEqual(new Set([otherApp.id]));

  respond();
  await importRun;
  expect(report.imported).toBe(2 * COUNT);
});

test('a token that the provider refuses without a reason delays no other', async () => {
  let checks = 0;
  const { report, calls } = await importMany(() => {
    checks += 1;
    if (checks > 1) return { kind: 'imported' };
    return { kind: 'unchecked', cause: 'unclear_refusal', retryAt: Date.now() + 600_000 };
  });
  expect([calls, report.imported, report.unchecked]).toEqual([COUNT, COUNT - 1, 1]);
});

test('charges each check to the budget of the app, and waits while the budget is spent', async () => {
  let remainingCalls = 10;
  const charge = async () => {
    if (remainingCalls === 0) return 3_600;
    remainingCalls -= 1;
    return undefined;
  };
  const { report, calls } = await importMany(() => ({ kind: 'imported' }), { charge });
  expect([calls, report.imported, report.unchecked]).toEqual([10, 10, COUNT - 10]);
  expect(report.failures[0]).toMatchObject({ result: 'unchecked', cause: 'not_checked' });
});

test('checks a refresh token that several entries have only for the first one', async () => {
  const { report, calls } = await importMany(() => ({ kind: 'imported' }), {
    entryChanges: { refreshToken: 'same-token' },
  });
  expect([calls, report.imported, report.invalid]).toEqual([1, 1, COUNT - 1]);
  expect(report.failures[0]).toMatchObject({ result: 'invalid', cause: 'same_token' });
});
