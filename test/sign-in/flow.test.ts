/** The order in which a sign-in ends: session, connection, record; and that a user who is disabled meanwhile gets none (R56). */
import { expect, test, vi } from 'vitest';
import type { ConnectedApp } from '../../src/connected-apps/connected-app.ts';
import { createSignInFlow } from '../../src/sign-in/flow.ts';
import { fingerprintOf } from '../../src/sign-in/transaction.ts';
import { createAttemptRecorder } from '../../src/sign-in-record/attempt-log.ts';

const HREF = 'https://gatehouse.test';
const APP = {
  ...{ id: 'platform', name: 'Platform', issuer: 'https://provider.test', scopes: ['openid'], disabled: false },
  ...{ callbackUrls: [`${HREF}/oauth/callback/platform`], signIn: { allow: 'everyone' } },
};
const CLAIMS = { sub: 's1', iat: 1_800_000_000, name: 'Ada', email: 'ada@example.test' };
const TRANSACTION = {
  ...{ purpose: 'sign_in', appId: 'platform', registration: fingerprintOf(APP as unknown as ConnectedApp) },
  ...{ returnTo: '/', attempt: 'a1', startedAt: 1_800_000_000_000 },
};

/** Whatever else is asked of it answers nothing. */
const quiet = (known: Record<string, unknown>) =>
  new Proxy(known, { get: (target, name) => Reflect.get(target, name) ?? (async () => undefined) });

function flowWith(users: Record<string, unknown>) {
  const ended = vi.fn((_facts: { outcome: string }) => undefined);
  const records = quiet({ byState: async () => undefined });
  const recorder = createAttemptRecorder({
    ...{ records, events: { signInEnded: ended }, clock: () => 1_800_000_000_000 },
  } as unknown as Parameters<typeof createAttemptRecorder>[0]);
  const make = vi.fn(async () => undefined);
  const session = { begin: vi.fn(async () => undefined), end: vi.fn(async () => undefined) };
  const flow = createSignInFlow({
    apps: { find: () => APP },
    provider: quiet({ exchangeCode: async () => ({ accessToken: 'at', claims: CLAIMS, scopes: ['openid'] }) }),
    connections: quiet({ make }),
    users: quiet(users),
    recorder,
    transactions: { take: async () => TRANSACTION },
    states: { madeAt: () => 1_800_000_000_000 },
    admin: { app: undefined, claim: 'groups', values: [] },
    events: quiet({}),
    clock: () => 1_800_000_000_000,
    publicHref: HREF,
  } as unknown as Parameters<typeof createSignInFlow>[0]);
  const finish = () =>
    flow.finish({
      ...{
        appId: 'platform',
        callback: new URL(`${HREF}/oauth/callback/platform?code=c&state=s`),
        userId: undefined,
        signInApp: undefined,
      },
      info: { reference: 'REF1', browserSecret: 'b1' },
      session,
    });
  const outcomes = () => ended.mock.calls.map(([{ outcome }]) => outcome);
  return { finish, outcomes, make, session };
}

test('R56 disabled before the sign-in: nothing is made', async () => {
  const { finish, make, session } = flowWith({
    noteSignIn: async () => ({ disabledAt: 1 }),
    isDisabled: async () => true,
  });
  await expect(finish()).rejects.toMatchObject({ failure: 'not_permitted', facts: { disabled: true } });
  expect([make.mock.calls.length, session.begin.mock.calls.length]).toEqual([0, 0]);
});

test('R56 disabled while the session is made: it is ended, no grant is replaced, and the record says why', async () => {
  let disabled = false;
  const { finish, outcomes, make, session } = flowWith({
    noteSignIn: async () => ({}),
    isDisabled: async () => disabled,
  });
  session.begin.mockImplementation(async () => {
    disabled = true;
    return undefined;
  });
  await expect(finish()).rejects.toMatchObject({ failure: 'not_permitted', facts: { disabled: true } });
  expect([session.end.mock.calls.length, make.mock.calls.length]).toEqual([1, 0]);
  expect(outcomes()).toEqual(['refused']);
});

test('a session that cannot be ended hides no failure', async () => {
  const { finish, make, session } = flowWith({ noteSignIn: async () => ({}), isDisabled: async () => false });
  make.mockRejectedValue(new TypeError('a bug of ours'));
  session.end.mockRejectedValue(new Error('store away'));
  await expect(finish()).rejects.toThrow('a bug of ours');
});

test('a user who is not disabled signs in, and that is recorded once', async () => {
  const { finish, outcomes, session } = flowWith({ noteSignIn: async () => ({}), isDisabled: async () => false });
  expect(await finish()).toBe('/');
  expect(outcomes()).toEqual(['signed_in']);
  expect([session.begin.mock.calls.length, session.end.mock.calls.length]).toEqual([1, 0]);
});
