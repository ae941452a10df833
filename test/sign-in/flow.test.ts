/** R56: who is disabled while a sign-in is under way has no session at its end. Around the flow there is nothing but what it asks. */
import { expect, test, vi } from 'vitest';
import { createSignInFlow } from '../../src/sign-in/flow.ts';

const HREF = 'https://gatehouse.test';
const APP = {
  ...{ id: 'platform', name: 'Platform', issuer: 'https://provider.test', scopes: ['openid'], disabled: false },
  ...{ callbackUrls: [`${HREF}/oauth/callback/platform`], signIn: { allow: 'everyone' } },
};
const CLAIMS = { sub: 's1', iat: 1_800_000_000, name: 'Ada', email: 'ada@example.test' };
const TRANSACTION = {
  ...{
    purpose: 'sign_in',
    appId: 'platform',
    issuer: APP.issuer,
    redirectUri: APP.callbackUrls[0],
    scopes: ['openid'],
  },
  ...{ returnTo: '/', userId: undefined },
};

/** Whatever else is asked of it answers nothing. */
const quiet = (known: Record<string, unknown>) =>
  new Proxy(known, { get: (target, name) => Reflect.get(target, name) ?? (async () => undefined) });

function flowWith(users: Record<string, unknown>) {
  const recorder = { failed: vi.fn(async () => undefined), succeeded: vi.fn(async () => undefined) };
  const make = vi.fn(async () => undefined);
  const flow = createSignInFlow({
    apps: { find: () => APP },
    provider: quiet({ exchangeCode: async () => ({ accessToken: 'at', claims: CLAIMS, scopes: ['openid'] }) }),
    connections: quiet({ make }),
    users: quiet(users),
    recorder: quiet(recorder),
    transactions: { take: async () => TRANSACTION },
    states: { madeAt: () => 1_800_000_000_000 },
    admin: { app: undefined, claim: 'groups', values: [] },
    events: quiet({}),
    clock: () => 1_800_000_000_000,
    publicHref: HREF,
  } as unknown as Parameters<typeof createSignInFlow>[0]);
  const finish = () =>
    flow.finish({
      ...{ appId: 'platform', callback: new URL(`${HREF}/oauth/callback/platform?code=c&state=s`), userId: undefined },
      visit: { reference: 'REF1', browserId: 'b1' },
    });
  return { finish, recorder, make };
}

test('R56 disabled before the sign-in: nothing is made', async () => {
  const { finish, make } = flowWith({ noteSignIn: async () => ({ disabledAt: 1 }), isDisabled: async () => true });
  await expect(finish()).rejects.toMatchObject({ failure: 'not_permitted', facts: { disabled: true } });
  expect(make).not.toHaveBeenCalled();
});

test('R56 disabled while the session is made: it has to be ended, and the record says why', async () => {
  let disabled = false;
  const { finish, recorder } = flowWith({ noteSignIn: async () => ({}), isDisabled: async () => disabled });
  const finished = await finish();
  if (finished.kind !== 'signed_in') throw new Error(finished.kind);
  disabled = true;
  await expect(finished.complete()).rejects.toMatchObject({ failure: 'not_permitted', facts: { disabled: true } });
  expect([recorder.failed.mock.calls.length, recorder.succeeded.mock.calls.length]).toEqual([1, 0]);
});

test('whoever is not ends well, and is told once', async () => {
  const { finish, recorder } = flowWith({ noteSignIn: async () => ({}), isDisabled: async () => false });
  const finished = await finish();
  if (finished.kind !== 'signed_in') throw new Error(finished.kind);
  await finished.complete();
  expect([recorder.failed.mock.calls.length, recorder.succeeded.mock.calls.length]).toEqual([0, 1]);
});
