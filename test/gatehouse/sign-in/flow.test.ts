/** How a callback ends: session, connection and record in order, forbidden changes meanwhile, and discarded tokens. */
import { describe, expect, test, vi } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import type { ConnectResult } from '../../../src/gatehouse/grants/connections.ts';
import { createSignInFlow } from '../../../src/gatehouse/sign-in/flow.ts';
import { providerSessionIdOf } from '../../../src/gatehouse/sign-in/identity.ts';
import { fingerprintOf } from '../../../src/gatehouse/sign-in/pending-requests.ts';
import type { SignInChanges } from '../../../src/gatehouse/sign-in-record/attempt.ts';
import { createAttemptRecorder } from '../../../src/gatehouse/sign-in-record/attempt-log.ts';
import { STEP_NAMES } from '../../../src/gatehouse/sign-in-record/steps.ts';
import { userIdOf } from '../../../src/gatehouse/users/user-id.ts';
import { AppError } from '../../../src/shared/errors.ts';
import { ProviderError } from '../../../src/shared/provider/provider-error.ts';
import type { SessionUser } from '../../../src/shared/sessions/session.ts';

const HREF = 'https://gatehouse.test';
const NOW = 1_800_000_000_000;
const ORIGIN = { address: '192.0.2.7' };
const APP = {
  ...{ id: 'platform', name: 'Platform', issuer: 'https://provider.test', clientId: 'c1' },
  ...{ scopes: ['openid'], disabled: false },
  ...{ callbackUrls: [`${HREF}/oauth/callback/platform`], signIn: { allow: 'everyone' } },
};
const CLAIMS = { sub: 's1', iat: 1_800_000_000, name: 'Ada', email: 'ada@example.test' };
const PENDING_REQUEST = {
  ...{ purpose: 'sign_in', appId: 'platform', appFingerprint: fingerprintOf(APP) },
  ...{ returnTo: '/', attempt: 'a1', startedAt: NOW },
};
const TOKENS = { accessToken: 'at', claims: CLAIMS, scopes: ['openid'] };
const USER_ID = userIdOf(APP.issuer, CLAIMS.sub);

/** A stub: any other method resolves with undefined. */
const stub = (methods: Record<string, unknown>) =>
  new Proxy(methods, { get: (target, name) => Reflect.get(target, name) ?? (async () => undefined) });

type WritesOfUser = (isFirst: boolean) => Promise<object | 'disabled' | 'gone'>;
const resultAfter = (writes: Awaited<ReturnType<WritesOfUser>>): ConnectResult =>
  typeof writes === 'string' ? `user_${writes}` : 'connected';

interface Changes {
  /** Undefined for an unregistered app. */
  app?: object | undefined;
  /** Methods of the user store. */
  users?: Record<string, unknown>;
  pendingRequest?: object | undefined;
  provider?: Record<string, unknown>;
  connections?: Record<string, unknown>;
  /** Id of the signed-in user. */
  userId?: string;
  callback?: string;
  clock?: () => number;
  admin?: { app: string | undefined; acr?: string } | undefined;
  /** The app that the session began with. */
  signInApp?: string | undefined;
}

function flowWith(users: Record<string, unknown>, changes: Changes = {}) {
  const { callback = `${HREF}/oauth/callback/platform?code=c&state=s`, clock = () => NOW } = changes;
  const app = 'app' in changes ? changes.app : APP;
  const pendingRequest = 'pendingRequest' in changes ? changes.pendingRequest : PENDING_REQUEST;
  const ended = vi.fn((_facts: { outcome: string; steppedUp?: string }) => undefined);
  const added: SignInChanges[] = [];
  const begun: object[] = [];
  const put = vi.fn(async () => undefined);
  const authorizationUrl = vi.fn(async () => 'https://provider.test/authorize');
  const started = vi.fn();
  const records = stub({
    byState: async () => undefined,
    add: async (_state: string, change: SignInChanges) => void added.push(change),
    beginWrites(attempt: object) {
      begun.push(attempt);
      return [LISTED];
    },
  });
  const recorder = createAttemptRecorder({
    ...{ records, events: { signInEnded: ended }, clock },
  } as unknown as Parameters<typeof createAttemptRecorder>[0]);
  const connect = vi.fn(
    async ({ writesOfUser }: { writesOfUser: WritesOfUser }): Promise<ConnectResult> =>
      resultAfter(await writesOfUser(true)),
  );
  const discard = vi.fn(async () => undefined);
  const exchangeCode = vi.fn(async () => TOKENS as object);
  const beginning = {
    list: vi.fn(async () => ({ ofUser: LISTED, live: LISTED })),
    save: vi.fn(async () => undefined),
    drop: vi.fn(() => undefined),
  };
  const session = { begin: vi.fn(async () => beginning), ...beginning };
  const flow = createSignInFlow({
    apps: { find: (id: string) => (id === APP.id ? app : undefined) },
    provider: stub({ exchangeCode, authorizationUrl, ...changes.provider }),
    connections: stub({ connect, discard, ...changes.connections }),
    users: stub({ conditionFor: async () => LISTED, ...users }),
    recorder,
    pendingRequests: {
      take: async () => pendingRequest && { pendingRequest, isSpent: false },
      find: async () => undefined,
      put,
    },
    states: { createdAt: () => NOW, create: () => 'state-1' },
    adminRule: () => ({ app: undefined, claim: 'groups', values: [], ...changes.admin }),
    events: { signInStarted: started },
    clock,
    publicHref: HREF,
    home: '/',
    recordUrl: (attempt: string) => `${HREF}/admin/sign-ins/${attempt}`,
  } as unknown as Parameters<typeof createSignInFlow>[0]);
  const finish = async (appId = 'platform') => {
    const end = await flow.handleCallback({
      ...{ appId, callback: new URL(callback), signInApp: changes.signInApp },
      user: changes.userId === undefined ? undefined : ({ id: changes.userId } as SessionUser),
      browserSecrets: [{ id: 'b', secret: 'b1', isEarlier: false }],
      info: { reference: 'REF1', browserSecrets: ['b1'], origin: ORIGIN },
      beginSession: session.begin as never,
    });
    return 'url' in end ? end.url : end;
  };
  const outcomes = () => ended.mock.calls.map(([{ outcome }]) => outcome);
  /** The recorded steps of the request; a failed one has the prefix `not`. */
  const steps = () => added.at(-1)?.steps.map(({ name, ok }) => (ok ? name : `not ${name}`));
  const start = (request: object = {}) =>
    flow.start({
      ...{
        purpose: 'sign_in',
        user: undefined,
        stepUp: false,
        app,
        returnTo: '/threads',
        isNewBrowser: true,
        hints: {},
      },
      info: { reference: 'REF1', browserSecrets: ['b1'], origin: ORIGIN },
      browserSecret: 'b1',
      ...request,
    } as Parameters<typeof flow.start>[0]);
  const parts = { flow, ended, connect, discard, exchangeCode, session, put, authorizationUrl, started };
  return { ...parts, start, finish, outcomes, added, begun, steps };
}

const STEPS = { writes: [], lists: [] };
const LISTED = { index: 'sessions', add: 's1', score: 0 };
const ENABLED = { signInWrites: async () => STEPS };

test('R56 a user who is disabled before the sign-in gets no session and no connection', async () => {
  const { finish, connect, session } = flowWith({ signInWrites: async () => 'disabled' });
  await expect(finish()).rejects.toMatchObject({ failure: 'not_permitted', facts: { disabled: true } });
  expect([connect.mock.calls.length, session.begin.mock.calls.length]).toEqual([0, 0]);
});

test('R56 a user who is disabled during the sign-in gets no session, and the record says why', async () => {
  let disabled = false;
  const { finish, outcomes, connect, session } = flowWith({
    signInWrites: async () => (disabled ? 'disabled' : STEPS),
  });
  // The first write is refused, since the record of the user has changed.
  connect.mockImplementation(async ({ writesOfUser }) => {
    await writesOfUser(true);
    disabled = true;
    return resultAfter(await writesOfUser(false));
  });
  await expect(finish()).rejects.toMatchObject({ failure: 'not_permitted', facts: { disabled: true } });
  expect([session.save.mock.calls.length, session.drop.mock.calls.length]).toEqual([0, 1]);
  expect(outcomes()).toEqual(['refused']);
});

test('records a successful sign-in once', async () => {
  const { finish, outcomes, session } = flowWith(ENABLED);
  expect(await finish()).toBe('/');
  expect(outcomes()).toEqual(['signed_in']);
  expect([session.save.mock.calls.length, session.drop.mock.calls.length]).toEqual([1, 0]);
});

test('the record of a sign-in has every step of the callback, and names the user', async () => {
  const { finish, added, steps } = flowWith(ENABLED);
  await finish();
  expect(steps()).toEqual(STEP_NAMES.slice(STEP_NAMES.indexOf('came_back')));
  const redirected = { name: 'redirect_uri', detail: `${HREF}/oauth/callback/platform` };
  expect(added[0]?.steps).toContainEqual(expect.objectContaining(redirected));
  expect(added).toMatchObject([{ app: 'platform', purpose: 'sign_in', userId: USER_ID, email: 'ada@example.test' }]);
});

test('sends the code with the registered callback URL, whatever the host and path of the callback', async () => {
  const { finish, exchangeCode } = flowWith(ENABLED, { callback: 'https://other.test/elsewhere?code=c&state=s' });
  await finish();
  const [, callback, { scopes }] = exchangeCode.mock.calls[0] as unknown as [unknown, URL, { scopes: string[] }];
  expect([callback.href, scopes]).toEqual([`${HREF}/oauth/callback/platform?code=c&state=s`, APP.scopes]);
});

test('a user whom the app’s rule refuses gets no session, and is named in the record', async () => {
  const app = { ...APP, signIn: { allow: { claim: 'groups', values: ['staff'] } } };
  const provider = { userinfo: async () => ({ groups: ['guests'] }) };
  const { finish, added, steps, session } = flowWith(ENABLED, { app, provider });
  await expect(finish()).rejects.toMatchObject({ failure: 'not_permitted', facts: {} });
  expect(steps()?.slice(-2)).toEqual(['claims', 'not permitted']);
  expect(added).toMatchObject([{ outcome: 'refused', userId: USER_ID, email: 'ada@example.test' }]);
  expect(session.begin).not.toHaveBeenCalled();
});

test('tokens without an ID token sign nobody in', async () => {
  const { finish, exchangeCode, session, steps } = flowWith(ENABLED);
  exchangeCode.mockResolvedValue({ accessToken: 'at', scopes: ['openid'] });
  await expect(finish()).rejects.toMatchObject({
    failure: 'token_response_refused',
    action: { url: `${HREF}/sign-in?app=platform` },
  });
  expect([session.begin.mock.calls.length, steps()?.at(-1)]).toEqual([0, 'not id_token_form']);
});

test('session and grant belong to the verified user, and the record contains claims from userinfo', async () => {
  const { email: _, ...claims } = { ...CLAIMS, sid: 'at-provider', acr: 'pwd', auth_time: 1_799_999_000 };
  const tokens = { ...TOKENS, claims, idToken: 'ey.id.token' };
  const provider = { userinfo: async () => ({ email: 'ada@userinfo.test' }) };
  const { finish, exchangeCode, session, connect, added } = flowWith(ENABLED, { provider });
  exchangeCode.mockResolvedValue(tokens);
  await finish();
  const user = {
    id: USER_ID,
    issuer: APP.issuer,
    subject: 's1',
    name: 'Ada',
    email: 'ada@userinfo.test',
    admin: false,
  };
  const providerSession = { id: providerSessionIdOf(APP.issuer, 'at-provider'), issuedAt: CLAIMS.iat };
  const idToken = { token: 'ey.id.token', registration: registrationOf(APP) };
  const begun = { user, app: 'platform', providerSession, acr: 'pwd', authTime: 1_799_999_000, idToken };
  expect(session.begin.mock.calls).toEqual([[begun, { id: 'b', secret: 'b1', isEarlier: false }]]);
  const grant = { userId: USER_ID, app: APP, response: tokens, scopes: ['openid'], account: user, origin: ORIGIN };
  expect(connect.mock.calls).toEqual([[expect.objectContaining(grant)]]);
  expect(added).toMatchObject([{ outcome: 'signed_in', name: 'Ada', email: 'ada@userinfo.test' }]);
});

test('R103 discards the tokens of a user who is not the signed-in one', async () => {
  const { finish, session, discard } = flowWith(ENABLED, { userId: 'u-other' });
  await expect(finish()).rejects.toMatchObject({
    ...{
      failure: 'other_user_signed_in',
      action: { label: 'Sign out', alternative: { label: 'Use another account' } },
    },
  });
  expect(discard.mock.calls).toEqual([[USER_ID, APP, TOKENS]]);
  expect(session.begin).not.toHaveBeenCalled();
  expect(await flowWith(ENABLED, { userId: USER_ID }).finish()).toBe('/');
});

describe('R18 a stronger sign-in', () => {
  const admin = { app: 'platform', acr: 'mfa' };
  const now = NOW / 1000;
  const stepUp = (claims: object, changes: Changes = {}) => {
    const parts = flowWith(ENABLED, { pendingRequest: { ...PENDING_REQUEST, stepUp: true }, admin, ...changes });
    parts.exchangeCode.mockResolvedValue({ ...TOKENS, claims: { ...CLAIMS, groups: [], ...claims } });
    return parts;
  };

  test.each([
    ['another acr', { acr: 'pwd', auth_time: now }, 'step_up_refused'],
    ['no acr', { auth_time: now }, 'step_up_refused'],
    ['no time', { acr: 'mfa' }, 'auth_time_missing'],
    ['a time long ago', { acr: 'mfa', auth_time: now - 3_600 }, 'step_up_refused'],
  ])('with %s is refused', async (_what, claims, failure) => {
    const { finish, session, steps } = stepUp(claims);
    const action = { label: 'Try again', url: `${HREF}/sign-in?app=platform&step_up=1` };
    await expect(finish()).rejects.toMatchObject({ failure, action });
    expect([session.begin.mock.calls.length, steps()?.at(-1)]).toEqual([0, 'not permitted']);
  });

  test('with the right acr and a recent time signs in, and its event names the acr', async () => {
    const { finish, ended } = stepUp({ acr: 'mfa', auth_time: now - 10 });
    expect(await finish()).toBe('/');
    expect(ended).toHaveBeenCalledWith(expect.objectContaining({ outcome: 'signed_in', steppedUp: 'mfa' }));
  });

  test('is not checked if none was requested, or the administration no longer requires one', async () => {
    for (const changes of [{ pendingRequest: PENDING_REQUEST }, { admin: { app: 'platform' } }]) {
      const { finish, ended } = stepUp({ acr: 'pwd' }, changes);
      expect(await finish()).toBe('/');
      expect(ended.mock.calls.map(([facts]) => facts)).toMatchObject([{ outcome: 'signed_in', steppedUp: undefined }]);
    }
  });
});

describe('a change while the user is at the provider', () => {
  const change = (changes: object) => ({ app: { ...APP, ...changes } });

  test.each([
    ['the app was deleted', { app: undefined }, 'registration_changed', 'unknown'],
    ['the app has another issuer', change({ issuer: 'https://other.test' }), 'registration_changed', 'platform'],
    ['the app has another client ID', change({ clientId: 'other' }), 'registration_changed', 'platform'],
    ['the app has another API', change({ apiBaseUrl: 'https://api.test' }), 'registration_changed', 'platform'],
    ['the app has other scopes', change({ scopes: ['openid', 'email'] }), 'registration_changed', 'platform'],
    ['the app was disabled', change({ disabled: true }), 'disabled_app', 'platform'],
  ])('%s: the code is not used', async (_what, changes, failure, app) => {
    const { finish, exchangeCode, added } = flowWith(ENABLED, changes);
    await expect(finish()).rejects.toMatchObject({ failure });
    expect([exchangeCode.mock.calls.length, added.map((change) => [change.app, change.failure])]).toEqual([
      0,
      [[app, failure]],
    ]);
  });

  test('the app was renamed: the sign-in succeeds', async () => {
    expect(await flowWith(ENABLED, change({ name: 'Renamed' })).finish()).toBe('/');
  });

  test('the record does not name an app that does not exist', async () => {
    const { finish, added } = flowWith(ENABLED);
    await expect(finish('made-up')).rejects.toMatchObject({ failure: 'other_app' });
    expect(added).toMatchObject([{ app: 'unknown' }]);
  });
});

describe('a callback that is no longer pending', () => {
  const late = (milliseconds: number, userId?: string) =>
    flowWith(ENABLED, {
      pendingRequest: undefined,
      clock: () => NOW + milliseconds,
      ...(userId && { userId }),
    }).finish();

  test('R10 counts as dropped within ten minutes of the start, and as expired after that', async () => {
    for (const userId of [undefined, USER_ID]) {
      expect(await late(600_000, userId)).toBe('/?ended=no_longer_pending');
      expect(await late(600_001, userId)).toBe('/?ended=state_expired');
    }
  });
});

describe('a failed write', () => {
  const unavailable = new AppError('storage_unavailable', { logDetail: 'disk full', retryAfterSeconds: 7 });
  const unsaved = { retryAfterSeconds: 7, cause: unavailable };

  test('of the session names the storage or the sign-out by the provider', async () => {
    const { finish, session, steps } = flowWith(ENABLED);
    session.save.mockRejectedValueOnce(unavailable);
    await expect(finish()).rejects.toMatchObject({
      ...{ failure: 'session_not_saved', logDetail: 'session_not_saved: disk full', ...unsaved },
    });
    expect(steps()?.at(-1)).toBe('not session');
    for (const step of [session.list, session.save]) {
      step.mockRejectedValueOnce(new AppError('sign_in_required', { logDetail: 'signed out' }));
      await expect(finish()).rejects.toMatchObject({
        ...{ failure: 'ended_by_provider', logDetail: 'ended_by_provider: signed out' },
      });
    }
    session.begin.mockRejectedValueOnce(new TypeError('a bug of ours'));
    await expect(finish()).rejects.toThrow('a bug of ours');
    expect(session.drop).toHaveBeenCalledTimes(3);
  });

  test('of the connection leaves no session', async () => {
    const { finish, session, connect, steps } = flowWith(ENABLED);
    connect.mockRejectedValue(unavailable);
    await expect(finish()).rejects.toMatchObject({ failure: 'connection_not_saved', ...unsaved });
    expect([session.save.mock.calls.length, session.drop.mock.calls.length, steps()?.at(-1)]).toEqual([
      0,
      1,
      'not connection',
    ]);
  });
});

describe('a connection', () => {
  const app = { ...APP, signIn: undefined };
  const connecting = { ...PENDING_REQUEST, purpose: 'connect', userId: 'u1', returnTo: '/connections/platform' };
  const tokens = { accessToken: 'at', scopes: ['openid'] };
  const flowOf = (pendingRequest: object, changes: Changes = {}) => {
    const parts = flowWith(changes.users ?? {}, {
      app,
      pendingRequest: { ...connecting, ...pendingRequest },
      userId: 'u1',
      ...changes,
    });
    parts.exchangeCode.mockResolvedValue(tokens);
    return parts;
  };

  test('without an ID token uses the account of the app’s setting', async () => {
    const named = flowOf({}, { provider: { accountId: async () => 'account-7' } });
    expect(await named.finish()).toBe('/connections/platform');
    expect(named.connect).toHaveBeenCalledWith({
      ...{ userId: 'u1', app, response: tokens, scopes: APP.scopes, chosen: true, link: undefined, origin: ORIGIN },
      ...{ account: { accountId: 'account-7' }, writesOfUser: expect.any(Function) },
    });
    expect(named.steps()?.slice(-3)).toEqual(['token_endpoint', 'claims', 'connection']);
    expect(named.outcomes()).toEqual(['connected']);
    const unnamed = flowOf({});
    await unnamed.finish();
    expect(unnamed.connect).toHaveBeenCalledWith(expect.objectContaining({ account: { accountId: undefined } }));
    expect(unnamed.steps()?.slice(-2)).toEqual(['token_endpoint', 'connection']);
  });

  test('with an ID token uses its subject, and the scopes that the user chose', async () => {
    const { finish, exchangeCode, connect, added } = flowOf(
      { scopes: ['openid'] },
      { app: { ...app, scopes: APP.scopes } },
    );
    exchangeCode.mockResolvedValue(TOKENS);
    await finish();
    expect(exchangeCode.mock.calls[0]?.at(-1)).toMatchObject({ scopes: ['openid'] });
    expect(connect).toHaveBeenCalledWith(
      expect.objectContaining({ scopes: ['openid'], account: expect.objectContaining({ subject: 's1' }) }),
    );
    // The record names the user who connects, not the account at the provider.
    expect(added).toMatchObject([{ purpose: 'connect', userId: 'u1' }]);
    expect(added[0]?.email).toBeUndefined();
  });

  test('whose account cannot be read is not stored, and its tokens are discarded', async () => {
    const accountId = async () => {
      throw new ProviderError('invalid', 'account_unreadable', { status: 404 });
    };
    const { finish, connect, discard, steps } = flowOf({}, { provider: { accountId } });
    discard.mockRejectedValue(new Error('the provider is away'));
    await expect(finish()).rejects.toMatchObject({
      ...{ failure: 'account_unreadable', logDetail: 'account_unreadable: account_unreadable 404' },
      action: { label: 'Try again', url: `${HREF}/connections/platform` },
    });
    expect(discard.mock.calls).toEqual([['u1', app, tokens]]);
    expect([connect.mock.calls.length, steps()?.at(-1)]).toEqual([0, 'not claims']);
  });

  test('that cannot be saved fails at that step', async () => {
    const { finish, connect, steps } = flowOf({});
    connect.mockRejectedValue(new AppError('storage_unavailable'));
    await expect(finish()).rejects.toMatchObject({ failure: 'connection_not_saved' });
    expect(steps()?.at(-1)).toBe('not connection');
  });

  const byLink = { link: 'l1', linkPath: '/connect/gthl_x' };
  const own = { issuer: APP.issuer };
  const isPublic = async () => true;
  const isPairwise = async () => false;
  const unknown = async () => {
    throw new ProviderError('unavailable', 'timeout');
  };
  test.each<[string, string, object | undefined, string | undefined, () => Promise<boolean>]>([
    ['refused', 'at a provider that names each user alike to all clients', own, undefined, isPublic],
    ['refused', 'with the app that the user signed in with', own, 'platform', isPairwise],
    ['connected', 'at a provider that names users differently to each client', own, undefined, isPairwise],
    ['connected', 'where the session began with another client', own, 'second', isPairwise],
    ['connected', 'where the provider cannot be asked', own, undefined, unknown],
    ['connected', 'of another provider', { issuer: 'https://other.test' }, 'platform', isPublic],
    ['connected', 'of a user who is not known', undefined, 'platform', isPublic],
  ])('R114 by a link with another account is %s %s', async (outcome, _where, user, signInApp, hasPublicSubjects) => {
    const { finish, exchangeCode, connect, discard } = flowOf(byLink, {
      ...{ provider: { hasPublicSubjects }, signInApp },
      users: { find: async () => user },
    });
    exchangeCode.mockResolvedValue(TOKENS);
    if (outcome === 'connected') return expect(await finish()).toBe(connecting.returnTo);
    const action = { label: 'Use another account', url: `${HREF}/connect/gthl_x?prompt=select_account` };
    await expect(finish()).rejects.toMatchObject({ failure: 'link_other_account', action });
    expect(discard.mock.calls).toEqual([['u1', app, TOKENS, expect.objectContaining({ id: USER_ID })]]);
    expect(connect).not.toHaveBeenCalled();
  });

  test('R114 by a link with the same account, or without a link with another account, is stored', async () => {
    const provider = { hasPublicSubjects: isPublic };
    const users = { find: async () => own };
    const mine = flowOf({ ...byLink, userId: USER_ID }, { provider, users, userId: USER_ID });
    mine.exchangeCode.mockResolvedValue(TOKENS);
    expect(await mine.finish()).toBe(connecting.returnTo);
    expect(mine.connect).toHaveBeenCalledWith(expect.objectContaining({ link: 'l1' }));
    const other = flowOf({}, { provider, users });
    other.exchangeCode.mockResolvedValue(TOKENS);
    expect(await other.finish()).toBe(connecting.returnTo);
    const withoutIdToken = flowOf(byLink, { provider, users });
    expect(await withoutIdToken.finish()).toBe(connecting.returnTo);
  });

  test.each<[string, ConnectResult, object]>([
    ['link has ended', 'link_ended', { failure: 'link_ended', action: { url: `${HREF}/` } }],
    ['user is gone', 'user_gone', { failure: 'user_gone' }],
    ['app was deleted', 'app_gone', { failure: 'registration_changed' }],
  ])('whose %s meanwhile is not stored, and its tokens are discarded', async (_what, result, refusal) => {
    const { finish, connect, discard } = flowOf(byLink);
    connect.mockResolvedValue(result);
    await expect(finish()).rejects.toMatchObject(refusal);
    const options = { isErased: result === 'user_gone' };
    expect(discard.mock.calls).toEqual([['u1', app, tokens, { accountId: undefined }, options]]);
  });

  test('that another user started offers to sign out, if a user is signed in', async () => {
    for (const userId of ['u2', undefined]) {
      const { finish, exchangeCode } = flowOf({}, { userId } as Changes);
      const url = userId === undefined ? `${HREF}/connections/platform` : `${HREF}/sign-out`;
      await expect(finish()).rejects.toMatchObject({ failure: 'other_user', action: { url } });
      expect(exchangeCode).not.toHaveBeenCalled();
    }
  });

  test('as a trial that fails leads to its record, but a bug is thrown', async () => {
    const provider = {
      accountId: async () => {
        throw new ProviderError('invalid', 'account_unreadable');
      },
    };
    expect(await flowOf({ trial: true }, { provider }).finish()).toBe(`${HREF}/admin/sign-ins/a1`);
    const { finish, connect } = flowOf({ trial: true });
    connect.mockRejectedValue(new TypeError('a bug of ours'));
    await expect(finish()).rejects.toThrow('a bug of ours');
  });

  test('as a trial of a sign-in app obeys its rule for who may sign in', async () => {
    const staff = { ...APP, signIn: { allow: { claim: 'name', values: ['Ben'] } } };
    for (const [claims, allowed] of [
      [{ ...CLAIMS, name: 'Ben' }, true],
      [CLAIMS, false],
      [undefined, false],
    ] as const) {
      const { finish, exchangeCode, connect, discard, steps } = flowOf({ trial: true }, { app: staff });
      exchangeCode.mockResolvedValue({ ...tokens, claims });
      expect(await finish()).toBe(allowed ? connecting.returnTo : `${HREF}/admin/sign-ins/a1`);
      expect([connect.mock.calls.length, discard.mock.calls.length]).toEqual(allowed ? [1, 0] : [0, 1]);
      expect(steps()).toContain(allowed ? 'permitted' : 'not permitted');
    }
    // An ordinary connection does not sign in.
    const { finish, exchangeCode } = flowOf({}, { app: staff });
    exchangeCode.mockResolvedValue(TOKENS);
    expect(await finish()).toBe(connecting.returnTo);
  });
});

test('the end-session URL is that of the app, if the app still exists', async () => {
  const endSessionUrl = vi.fn(async () => 'https://provider.test/end');
  const { flow } = flowWith({}, { provider: { endSessionUrl } });
  const issued = { token: 'id-token', registration: registrationOf(APP) };
  expect(await flow.endSessionUrl('platform', issued)).toBe('https://provider.test/end');
  expect(endSessionUrl.mock.calls).toEqual([[APP, { idToken: 'id-token', returnTo: `${HREF}/` }]]);
  expect(await flow.endSessionUrl('deleted', issued)).toBeUndefined();
});

describe('a start', () => {
  const user = { id: 'u1', name: 'Ada', email: 'ada@example.test' };
  const connecting = { purpose: 'connect', user };
  const linked = { ...connecting, link: 'l1', linkPath: '/connect/gthl_x' };
  const pending = {
    ...{ appId: 'platform', appFingerprint: fingerprintOf(APP) },
    ...{ returnTo: '/threads', attempt: 'ref1', startedAt: NOW, scopes: undefined, stepUp: undefined },
  };

  test.each<[string, object, object]>([
    ['a sign-in', {}, { purpose: 'sign_in' }],
    ['a connection', connecting, { purpose: 'connect', userId: 'u1' }],
    [
      'a connection with the scopes that the user chose',
      { ...connecting, scopes: ['openid'] },
      { purpose: 'connect', userId: 'u1', scopes: ['openid'] },
    ],
    ['a connection by a link', linked, { purpose: 'connect', userId: 'u1', link: 'l1', linkPath: '/connect/gthl_x' }],
    [
      'a trial, which leads to its record',
      { ...connecting, trial: true },
      { purpose: 'connect', userId: 'u1', trial: true, returnTo: `${HREF}/admin/sign-ins/ref1` },
    ],
  ])('of %s is pending under the secret of its browser', async (_what, request, pendingRequest) => {
    const { start, put } = flowWith({});
    expect(await start(request)).toBe('https://provider.test/authorize');
    const options = { isNewBrowser: true, record: [LISTED] };
    expect(put.mock.calls).toEqual([['b1', 'state-1', { ...pending, ...pendingRequest }, options]]);
  });

  test('is recorded with its two steps, and its event names the app, the purpose and the user', async () => {
    const { start, begun, started } = flowWith({});
    await start();
    await start(connecting);
    const redirectUri = `${HREF}/oauth/callback/platform`;
    expect(begun).toMatchObject([
      { app: 'platform', purpose: 'sign_in', state: 'state-1', startedAt: NOW, facts: { redirectUri } },
      { purpose: 'connect', userId: 'u1', name: 'Ada', email: 'ada@example.test' },
    ]);
    expect((begun[0] as SignInChanges).steps).toMatchObject([
      { name: 'started', ok: true, detail: 'platform' },
      { name: 'sent', ok: true, detail: `${redirectUri} is in the app’s list, character by character` },
    ]);
    expect(started.mock.calls).toEqual([
      [{ app: 'platform', purpose: 'sign_in', userId: undefined }],
      [{ app: 'platform', purpose: 'connect', userId: 'u1' }],
    ]);
  });

  const acr = 'mfa';
  test.each<[string, object, Changes['admin'], object, boolean]>([
    ['of the administration’s app', { stepUp: true }, { app: 'platform', acr }, { acrValues: acr }, true],
    ['that was not asked for', {}, { app: 'platform', acr }, { prompt: 'login' }, false],
    ['of another app', { stepUp: true }, { app: 'second', acr }, { prompt: 'login' }, false],
    ['that is not demanded', { stepUp: true }, { app: 'platform' }, { prompt: 'login' }, false],
    ['of a connection', connecting, { app: 'platform', acr }, { prompt: 'login' }, false],
  ])('with a stronger sign-in %s', async (_what, request, admin, asked, steppedUp) => {
    const { start, put, authorizationUrl } = flowWith({}, { admin });
    await start({ ...request, hints: { prompt: 'login', ui_locales: 'de' } });
    const [, parameters] = authorizationUrl.mock.calls[0] as unknown as [unknown, Record<string, unknown>];
    const { prompt, acrValues, maxAgeSeconds, hints, scopes } = parameters;
    expect({ acrValues, prompt }).toEqual({ prompt: '', acrValues: undefined, ...asked });
    expect([maxAgeSeconds, hints, scopes]).toEqual([steppedUp ? 900 : undefined, { ui_locales: 'de' }, APP.scopes]);
    expect(put.mock.calls[0]?.at(2)).toMatchObject({ stepUp: steppedUp || undefined });
  });

  test('requests consent if this user needs it, or if the hint allows another account', async () => {
    const promptFor = async (request: object, owners: (string | undefined)[]) => {
      const needsConsent = vi.fn(async (owner: string | undefined) => owners.includes(owner));
      const { start, authorizationUrl } = flowWith({}, { connections: { needsConsent } });
      await start(request);
      const [, { prompt }] = authorizationUrl.mock.calls[0] as unknown as [unknown, { prompt: string }];
      return [prompt, ...needsConsent.mock.calls];
    };
    const otherAccount = { ...connecting, hints: { prompt: 'select_account' } };
    const asked = (owner: string | undefined, isConnection: boolean) => [owner, APP, APP.scopes, isConnection];
    expect(await promptFor({}, [undefined])).toEqual(['consent', asked(undefined, false)]);
    expect(await promptFor({}, [])).toEqual(['', asked(undefined, false)]);
    expect(await promptFor(connecting, ['u1'])).toEqual(['consent', asked('u1', true)]);
    expect(await promptFor(connecting, [undefined])).toEqual(['', asked('u1', true)]);
    expect(await promptFor(otherAccount, [undefined])).toEqual([
      'select_account consent',
      ...[asked('u1', true), asked(undefined, true)],
    ]);
    expect(await promptFor(otherAccount, ['u1'])).toEqual(['select_account consent', asked('u1', true)]);
  });

  test.each<[string, object, object, object]>([
    ['a sign-in', {}, { url: `${HREF}/sign-in?app=platform&return_to=%2Fthreads` }, { purpose: 'sign_in' }],
    [
      'a connection',
      connecting,
      { url: `${HREF}/connections/platform?return_to=%2Fthreads` },
      { purpose: 'connect', userId: 'u1' },
    ],
    ['a connection by a link', linked, { url: `${HREF}/connect/gthl_x` }, { purpose: 'connect', userId: 'u1' }],
  ])('of %s that fails is recorded, and its page offers a retry', async (_what, request, action, record) => {
    for (const [app, failure, failedStep] of [
      [APP, 'provider_unavailable', 'not sent'],
      [{ ...APP, disabled: true }, 'disabled_app', 'not started'],
      [{ ...APP, callbackUrls: [] }, 'unusable_app', 'not redirect_uri'],
    ] as const) {
      const authorizationUrl = async () => {
        throw new ProviderError('unavailable', 'timeout');
      };
      const { start, put, begun, added, steps } = flowWith({}, { app, provider: { authorizationUrl } });
      await expect(start(request)).rejects.toMatchObject({ failure, action });
      expect(added).toMatchObject([{ failure, ...record }]);
      expect(steps()).toEqual(['started', failedStep]);
      expect([put.mock.calls, begun]).toEqual([[], []]);
    }
  });

  test('of a trial that fails leads to its record', async () => {
    const { start, added } = flowWith({}, { app: { ...APP, disabled: true } });
    expect(await start({ ...connecting, trial: true })).toBe(`${HREF}/admin/sign-ins/ref1`);
    expect(added).toMatchObject([{ trial: true, failure: 'disabled_app' }]);
  });
});
