/** The flow of a sign-in: what a start sends and stores, and which session, grant and record a callback writes. */
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
const TEN_MINUTES_MS = 600_000;
const ORIGIN = { address: '192.0.2.7' };
const APP = {
  id: 'platform',
  name: 'Platform',
  issuer: 'https://provider.test',
  clientId: 'c1',
  scopes: ['openid'],
  disabled: false,
  callbackUrls: [`${HREF}/oauth/callback/platform`],
  signIn: { allow: 'everyone' },
};
const CLAIMS = { sub: 's1', iat: 1_800_000_000, name: 'Ada', email: 'ada@example.test' };
const PENDING_REQUEST = {
  purpose: 'sign_in',
  appId: 'platform',
  appFingerprint: fingerprintOf(APP),
  returnTo: '/',
  attempt: 'a1',
  startedAt: NOW,
};
const TOKENS = { accessToken: 'at', claims: CLAIMS, scopes: ['openid'] };
const USER_ID = userIdOf(APP.issuer, CLAIMS.sub);

/** An object with these methods. Every other method of it resolves with undefined. */
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
      return [LIST_WRITE];
    },
  });
  const recorder = createAttemptRecorder({
    records,
    events: { signInEnded: ended },
    clock,
  } as unknown as Parameters<typeof createAttemptRecorder>[0]);
  const connect = vi.fn(
    async ({ writesOfUser }: { writesOfUser: WritesOfUser }): Promise<ConnectResult> =>
      resultAfter(await writesOfUser(true)),
  );
  const discard = vi.fn(async () => undefined);
  const exchangeCode = vi.fn(async () => TOKENS as object);
  const beginning = {
    list: vi.fn(async () => ({ ofUser: LIST_WRITE, live: LIST_WRITE })),
    save: vi.fn(async () => undefined),
    drop: vi.fn(() => undefined),
  };
  const session = { begin: vi.fn(async () => beginning), ...beginning };
  const flow = createSignInFlow({
    apps: { find: (id: string) => (id === APP.id ? app : undefined) },
    provider: stub({ exchangeCode, authorizationUrl, ...changes.provider }),
    connections: stub({ connect, discard, ...changes.connections }),
    users: stub({ conditionFor: async () => LIST_WRITE, ...users }),
    recorder,
    keptReturns: { writesFor: async () => [], find: async () => undefined },
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
      appId,
      callback: new URL(callback),
      signInApp: changes.signInApp,
      user: changes.userId === undefined ? undefined : ({ id: changes.userId } as SessionUser),
      browserSecrets: [{ id: 'b', secret: 'b1', isEarlier: false }],
      info: { reference: 'REF1', browserSecrets: ['b1'], origin: ORIGIN },
      beginSession: session.begin as never,
    });
    return 'url' in end ? end.url : end;
  };
  const readOutcomes = () => ended.mock.calls.map(([{ outcome }]) => outcome);
  /** The names of the recorded steps of the request. Those of failed ones have the prefix `not`. */
  const readStepNames = () => added.at(-1)?.steps.map(({ name, ok }) => (ok ? name : `not ${name}`));
  const start = (request: object = {}) =>
    flow.start({
      purpose: 'sign_in',
      user: undefined,
      stepUp: false,
      app,
      returnTo: '/threads',
      isNewBrowser: true,
      hints: {},
      info: { reference: 'REF1', browserSecrets: ['b1'], origin: ORIGIN },
      browserSecret: 'b1',
      ...request,
    } as Parameters<typeof flow.start>[0]);
  const parts = { flow, ended, connect, discard, exchangeCode, session, put, authorizationUrl, started };
  return { ...parts, start, finish, readOutcomes, added, begun, readStepNames };
}

const USER_WRITES = { writes: [], lists: [] };
const LIST_WRITE = { index: 'sessions', add: 's1', score: 0 };
const ENABLED = { signInWrites: async () => USER_WRITES };

test('R56 a user who is disabled before the sign-in gets no session and no connection', async () => {
  const { finish, connect, session } = flowWith({ signInWrites: async () => 'disabled' });
  await expect(finish()).rejects.toMatchObject({ failure: 'not_permitted', facts: { disabled: true } });
  expect([connect.mock.calls.length, session.begin.mock.calls.length]).toEqual([0, 0]);
});

test('R56 a user who is disabled during the sign-in gets no session, and the sign-in is recorded as refused', async () => {
  let isDisabled = false;
  const { finish, readOutcomes, connect, session } = flowWith({
    signInWrites: async () => (isDisabled ? 'disabled' : USER_WRITES),
  });
  // The connection is written twice, since the user changes in between.
  connect.mockImplementation(async ({ writesOfUser }) => {
    await writesOfUser(true);
    isDisabled = true;
    return resultAfter(await writesOfUser(false));
  });
  await expect(finish()).rejects.toMatchObject({ failure: 'not_permitted', facts: { disabled: true } });
  expect([session.save.mock.calls.length, session.drop.mock.calls.length]).toEqual([0, 1]);
  expect(readOutcomes()).toEqual(['refused']);
});

test('records a successful sign-in once', async () => {
  const { finish, readOutcomes, session } = flowWith(ENABLED);
  expect(await finish()).toBe('/');
  expect(readOutcomes()).toEqual(['signed_in']);
  expect([session.save.mock.calls.length, session.drop.mock.calls.length]).toEqual([1, 0]);
});

test('the record of a sign-in has every step of the callback, and names the user', async () => {
  const { finish, added, readStepNames } = flowWith(ENABLED);
  await finish();
  expect(readStepNames()).toEqual(STEP_NAMES.slice(STEP_NAMES.indexOf('came_back')));
  const redirected = { name: 'redirect_uri', detail: `${HREF}/oauth/callback/platform` };
  expect(added[0]?.steps).toContainEqual(expect.objectContaining(redirected));
  expect(added).toMatchObject([{ app: 'platform', purpose: 'sign_in', userId: USER_ID, email: 'ada@example.test' }]);
});

test('sends the code with the registered callback URL, whatever the host and path of the callback', async () => {
  const { finish, exchangeCode } = flowWith(ENABLED, { callback: 'https://other.test/elsewhere?code=c&state=s' });
  await finish();

  const [_app, callback, options] = exchangeCode.mock.calls[0] as unknown as [unknown, URL, { scopes: string[] }];
  expect([callback.href, options.scopes]).toEqual([`${HREF}/oauth/callback/platform?code=c&state=s`, APP.scopes]);
});

test('a user whom the app’s rule refuses gets no session, and is named in the record', async () => {
  const app = { ...APP, signIn: { allow: { claim: 'groups', values: ['staff'] } } };
  const provider = { userinfo: async () => ({ groups: ['guests'] }) };
  const { finish, added, readStepNames, session } = flowWith(ENABLED, { app, provider });
  await expect(finish()).rejects.toMatchObject({ failure: 'not_permitted', facts: {} });
  expect(readStepNames()?.slice(-2)).toEqual(['claims', 'not permitted']);
  expect(added).toMatchObject([{ outcome: 'refused', userId: USER_ID, email: 'ada@example.test' }]);
  expect(session.begin).not.toHaveBeenCalled();
});

test('tokens without an ID token begin no session', async () => {
  const { finish, exchangeCode, session, readStepNames } = flowWith(ENABLED);
  exchangeCode.mockResolvedValue({ accessToken: 'at', scopes: ['openid'] });
  await expect(finish()).rejects.toMatchObject({
    failure: 'token_response_refused',
    action: { url: `${HREF}/sign-in?app=platform` },
  });
  expect([session.begin.mock.calls.length, readStepNames()?.at(-1)]).toEqual([0, 'not id_token_form']);
});

test('session and grant belong to the verified user, whose e-mail address can come from userinfo', async () => {
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
  const newSession = { user, app: 'platform', providerSession, acr: 'pwd', authTime: 1_799_999_000, idToken };
  expect(session.begin.mock.calls).toEqual([[newSession, { id: 'b', secret: 'b1', isEarlier: false }]]);
  const grant = { userId: USER_ID, app: APP, response: tokens, scopes: ['openid'], account: user, origin: ORIGIN };
  expect(connect.mock.calls).toEqual([[expect.objectContaining(grant)]]);
  expect(added).toMatchObject([{ outcome: 'signed_in', name: 'Ada', email: 'ada@userinfo.test' }]);
});

test('R103 discards the tokens of a user who is not the signed-in one', async () => {
  const { finish, session, discard } = flowWith(ENABLED, { userId: 'u-other' });
  await expect(finish()).rejects.toMatchObject({
    failure: 'other_user_signed_in',
    action: { label: 'Sign out', alternative: { label: 'Use another account' } },
  });
  expect(discard.mock.calls).toEqual([[USER_ID, APP, TOKENS]]);
  expect(session.begin).not.toHaveBeenCalled();

  const sameUser = flowWith(ENABLED, { userId: USER_ID });
  expect(await sameUser.finish()).toBe('/');
});

describe('R18 a stronger sign-in', () => {
  const admin = { app: 'platform', acr: 'mfa' };
  const nowSeconds = NOW / 1000;
  const flowOfStepUp = (claims: object, changes: Changes = {}) => {
    const parts = flowWith(ENABLED, { pendingRequest: { ...PENDING_REQUEST, stepUp: true }, admin, ...changes });
    parts.exchangeCode.mockResolvedValue({ ...TOKENS, claims: { ...CLAIMS, groups: [], ...claims } });
    return parts;
  };

  test.each([
    ['another acr', { acr: 'pwd', auth_time: nowSeconds }, 'step_up_refused'],
    ['no acr', { auth_time: nowSeconds }, 'step_up_refused'],
    ['no time of authentication', { acr: 'mfa' }, 'auth_time_missing'],
    ['an authentication an hour ago', { acr: 'mfa', auth_time: nowSeconds - 3_600 }, 'step_up_refused'],
  ])('with %s is refused', async (_case, claims, failure) => {
    const { finish, session, readStepNames } = flowOfStepUp(claims);
    const action = { label: 'Try again', url: `${HREF}/sign-in?app=platform&step_up=1` };
    await expect(finish()).rejects.toMatchObject({ failure, action });
    expect([session.begin.mock.calls.length, readStepNames()?.at(-1)]).toEqual([0, 'not permitted']);
  });

  test('with the right acr and a recent authentication begins a session, and its event names the acr', async () => {
    const { finish, ended } = flowOfStepUp({ acr: 'mfa', auth_time: nowSeconds - 10 });
    expect(await finish()).toBe('/');
    expect(ended).toHaveBeenCalledWith(expect.objectContaining({ outcome: 'signed_in', steppedUp: 'mfa' }));
  });

  test('is not checked if none was requested, or the administration no longer requires one', async () => {
    const notRequested = { pendingRequest: PENDING_REQUEST };
    const notRequired = { admin: { app: 'platform' } };
    for (const changes of [notRequested, notRequired]) {
      const { finish, ended } = flowOfStepUp({ acr: 'pwd' }, changes);
      expect(await finish()).toBe('/');
      expect(ended.mock.calls.map(([facts]) => facts)).toMatchObject([{ outcome: 'signed_in', steppedUp: undefined }]);
    }
  });
});

describe('a change while the user is at the provider', () => {
  const withApp = (changes: object) => ({ app: { ...APP, ...changes } });

  test.each([
    ['the app was deleted', { app: undefined }, 'registration_changed', 'unknown'],
    ['the app has another issuer', withApp({ issuer: 'https://other.test' }), 'registration_changed', 'platform'],
    ['the app has another client ID', withApp({ clientId: 'other' }), 'registration_changed', 'platform'],
    ['the app has another API', withApp({ apiBaseUrl: 'https://api.test' }), 'registration_changed', 'platform'],
    ['the app has other scopes', withApp({ scopes: ['openid', 'email'] }), 'registration_changed', 'platform'],
    ['the app was disabled', withApp({ disabled: true }), 'disabled_app', 'platform'],
  ])('%s: the code is not used', async (_change, changes, failure, recordedApp) => {
    const { finish, exchangeCode, added } = flowWith(ENABLED, changes);
    await expect(finish()).rejects.toMatchObject({ failure });
    const records = added.map((record) => [record.app, record.failure]);
    expect([exchangeCode.mock.calls.length, records]).toEqual([0, [[recordedApp, failure]]]);
  });

  test('the app was renamed: the code is used', async () => {
    expect(await flowWith(ENABLED, withApp({ name: 'Renamed' })).finish()).toBe('/');
  });

  test('the app does not exist: the record does not name it', async () => {
    const { finish, added } = flowWith(ENABLED);
    await expect(finish('not-registered')).rejects.toMatchObject({ failure: 'other_app' });
    expect(added).toMatchObject([{ app: 'unknown' }]);
  });
});

describe('a callback that is no longer pending', () => {
  const finishAfter = (milliseconds: number, userId?: string) =>
    flowWith(ENABLED, {
      pendingRequest: undefined,
      clock: () => NOW + milliseconds,
      ...(userId && { userId }),
    }).finish();

  test('R10 counts as dropped within ten minutes of the start, and as expired after that', async () => {
    for (const userId of [undefined, USER_ID]) {
      expect(await finishAfter(TEN_MINUTES_MS, userId)).toBe('/?ended=no_longer_pending');
      expect(await finishAfter(TEN_MINUTES_MS + 1, userId)).toBe('/?ended=state_expired');
    }
  });
});

describe('a failed write', () => {
  const unavailable = new AppError('storage_unavailable', { logDetail: 'disk full', retryAfterSeconds: 7 });
  const errorOfStorage = { retryAfterSeconds: 7, cause: unavailable };

  test('of the session is reported as a fault of the storage, or as a sign-out by the provider', async () => {
    const { finish, session, readStepNames } = flowWith(ENABLED);
    session.save.mockRejectedValueOnce(unavailable);
    await expect(finish()).rejects.toMatchObject({
      failure: 'session_not_saved',
      logDetail: 'session_not_saved: disk full',
      ...errorOfStorage,
    });
    expect(readStepNames()?.at(-1)).toBe('not session');

    for (const method of [session.list, session.save]) {
      method.mockRejectedValueOnce(new AppError('sign_in_required', { logDetail: 'signed out' }));
      await expect(finish()).rejects.toMatchObject({
        failure: 'ended_by_provider',
        logDetail: 'ended_by_provider: signed out',
      });
    }

    session.begin.mockRejectedValueOnce(new TypeError('a bug of ours'));
    await expect(finish()).rejects.toThrow('a bug of ours');
    expect(session.drop).toHaveBeenCalledTimes(3);
  });

  test('of the connection leaves no session', async () => {
    const { finish, session, connect, readStepNames } = flowWith(ENABLED);
    connect.mockRejectedValue(unavailable);
    await expect(finish()).rejects.toMatchObject({ failure: 'connection_not_saved', ...errorOfStorage });
    expect([session.save.mock.calls.length, session.drop.mock.calls.length]).toEqual([0, 1]);
    expect(readStepNames()?.at(-1)).toBe('not connection');
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
    const withAccountId = flowOf({}, { provider: { accountId: async () => 'account-7' } });
    expect(await withAccountId.finish()).toBe('/connections/platform');
    expect(withAccountId.connect).toHaveBeenCalledWith({
      userId: 'u1',
      app,
      response: tokens,
      scopes: APP.scopes,
      chosen: true,
      link: undefined,
      origin: ORIGIN,
      account: { accountId: 'account-7' },
      writesOfUser: expect.any(Function),
    });
    expect(withAccountId.readStepNames()?.slice(-3)).toEqual(['token_endpoint', 'claims', 'connection']);
    expect(withAccountId.readOutcomes()).toEqual(['connected']);

    const withoutAccountId = flowOf({});
    await withoutAccountId.finish();
    expect(withoutAccountId.connect).toHaveBeenCalledWith(
      expect.objectContaining({ account: { accountId: undefined } }),
    );
    expect(withoutAccountId.readStepNames()?.slice(-2)).toEqual(['token_endpoint', 'connection']);
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
    const { finish, connect, discard, readStepNames } = flowOf({}, { provider: { accountId } });
    discard.mockRejectedValue(new Error('the provider is away'));
    await expect(finish()).rejects.toMatchObject({
      failure: 'account_unreadable',
      logDetail: 'account_unreadable: account_unreadable 404',
      action: { label: 'Try again', url: `${HREF}/connections/platform` },
    });
    expect(discard.mock.calls).toEqual([['u1', app, tokens]]);
    expect([connect.mock.calls.length, readStepNames()?.at(-1)]).toEqual([0, 'not claims']);
  });

  test('that cannot be saved fails at the step "connection"', async () => {
    const { finish, connect, readStepNames } = flowOf({});
    connect.mockRejectedValue(new AppError('storage_unavailable'));
    await expect(finish()).rejects.toMatchObject({ failure: 'connection_not_saved' });
    expect(readStepNames()?.at(-1)).toBe('not connection');
  });

  const byLink = { link: 'l1', linkPath: '/connect/gthl_x' };
  const userOfSameProvider = { issuer: APP.issuer };
  const userOfOtherProvider = { issuer: 'https://other.test' };
  const isPublic = async () => true;
  const isPairwise = async () => false;
  const failsToSay = async () => {
    throw new ProviderError('unavailable', 'timeout');
  };
  test.each<[string, string, object | undefined, string | undefined, () => Promise<boolean>]>([
    ['refused', 'at a provider that names each user alike to all clients', userOfSameProvider, undefined, isPublic],
    ['refused', 'with the app that the user signed in with', userOfSameProvider, 'platform', isPairwise],
    [
      'connected',
      'at a provider that names users differently to each client',
      userOfSameProvider,
      undefined,
      isPairwise,
    ],
    ['connected', 'if the session began with another client', userOfSameProvider, 'second', isPairwise],
    ['connected', 'if the provider’s metadata cannot be read', userOfSameProvider, undefined, failsToSay],
    ['connected', 'if the user is of another provider', userOfOtherProvider, 'platform', isPublic],
    ['connected', 'if the user is not stored', undefined, 'platform', isPublic],
  ])(
    'R114 by a link with another account is %s %s',
    async (outcome, _condition, user, signInApp, hasPublicSubjects) => {
      const { finish, exchangeCode, connect, discard } = flowOf(byLink, {
        provider: { hasPublicSubjects },
        signInApp,
        users: { find: async () => user },
      });
      exchangeCode.mockResolvedValue(TOKENS);
      if (outcome === 'connected') return expect(await finish()).toBe(connecting.returnTo);
      const action = { label: 'Use another account', url: `${HREF}/connect/gthl_x?prompt=select_account` };
      await expect(finish()).rejects.toMatchObject({ failure: 'link_other_account', action });
      expect(discard.mock.calls).toEqual([['u1', app, TOKENS, expect.objectContaining({ id: USER_ID })]]);
      expect(connect).not.toHaveBeenCalled();
    },
  );

  test('R114 is stored by a link with the same account or without an ID token, and without a link with another account', async () => {
    const provider = { hasPublicSubjects: isPublic };
    const users = { find: async () => userOfSameProvider };
    const sameAccount = flowOf({ ...byLink, userId: USER_ID }, { provider, users, userId: USER_ID });
    sameAccount.exchangeCode.mockResolvedValue(TOKENS);
    expect(await sameAccount.finish()).toBe(connecting.returnTo);
    expect(sameAccount.connect).toHaveBeenCalledWith(expect.objectContaining({ link: 'l1' }));

    const withoutLink = flowOf({}, { provider, users });
    withoutLink.exchangeCode.mockResolvedValue(TOKENS);
    expect(await withoutLink.finish()).toBe(connecting.returnTo);

    const withoutIdToken = flowOf(byLink, { provider, users });
    expect(await withoutIdToken.finish()).toBe(connecting.returnTo);
  });

  test.each<[string, ConnectResult, object]>([
    ['link has ended', 'link_ended', { failure: 'link_ended', action: { url: `${HREF}/` } }],
    ['user is gone', 'user_gone', { failure: 'user_gone' }],
    ['app was deleted', 'app_gone', { failure: 'registration_changed' }],
  ])('whose %s meanwhile is not stored, and its tokens are discarded', async (_case, result, refusal) => {
    const { finish, connect, discard } = flowOf(byLink);
    connect.mockResolvedValue(result);
    await expect(finish()).rejects.toMatchObject(refusal);
    const options = { isErased: result === 'user_gone' };
    expect(discard.mock.calls).toEqual([['u1', app, tokens, { accountId: undefined }, options]]);
  });

  test('that another user started offers to sign out, if a user is signed in', async () => {
    for (const [userId, url] of [
      ['u2', `${HREF}/sign-out`],
      [undefined, `${HREF}/connections/platform`],
    ]) {
      const { finish, exchangeCode } = flowOf({}, { userId } as Changes);
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
    const appForBen = { ...APP, signIn: { allow: { claim: 'name', values: ['Ben'] } } };
    for (const [claims, isAllowed] of [
      [{ ...CLAIMS, name: 'Ben' }, true],
      [CLAIMS, false],
      [undefined, false],
    ] as const) {
      const { finish, exchangeCode, connect, discard, readStepNames } = flowOf({ trial: true }, { app: appForBen });
      exchangeCode.mockResolvedValue({ ...tokens, claims });
      expect(await finish()).toBe(isAllowed ? connecting.returnTo : `${HREF}/admin/sign-ins/a1`);
      expect([connect.mock.calls.length, discard.mock.calls.length]).toEqual(isAllowed ? [1, 0] : [0, 1]);
      expect(readStepNames()).toContain(isAllowed ? 'permitted' : 'not permitted');
    }

    // A connection that is not a trial need not be allowed to sign in.
    const { finish, exchangeCode } = flowOf({}, { app: appForBen });
    exchangeCode.mockResolvedValue(TOKENS);
    expect(await finish()).toBe(connecting.returnTo);
  });
});

test('the end-session URL is that of the app’s provider, if the app still exists', async () => {
  const endSessionUrl = vi.fn(async () => 'https://provider.test/end');
  const { flow } = flowWith({}, { provider: { endSessionUrl } });
  const idToken = { token: 'id-token', registration: registrationOf(APP) };
  expect(await flow.endSessionUrl('platform', idToken)).toBe('https://provider.test/end');
  expect(endSessionUrl.mock.calls).toEqual([[APP, { idToken: 'id-token', returnTo: `${HREF}/` }]]);
  expect(await flow.endSessionUrl('deleted', idToken)).toBeUndefined();
});

describe('a start', () => {
  const user = { id: 'u1', name: 'Ada', email: 'ada@example.test' };
  const connecting = { purpose: 'connect', user };
  const connectingByLink = { ...connecting, link: 'l1', linkPath: '/connect/gthl_x' };
  const storedRequest = {
    appId: 'platform',
    appFingerprint: fingerprintOf(APP),
    returnTo: '/threads',
    attempt: 'ref1',
    startedAt: NOW,
    scopes: undefined,
    stepUp: undefined,
  };

  test.each<[string, object, object]>([
    ['a sign-in', {}, { purpose: 'sign_in' }],
    ['a connection', connecting, { purpose: 'connect', userId: 'u1' }],
    [
      'a connection with the scopes that the user chose',
      { ...connecting, scopes: ['openid'] },
      { purpose: 'connect', userId: 'u1', scopes: ['openid'] },
    ],
    [
      'a connection by a link',
      connectingByLink,
      { purpose: 'connect', userId: 'u1', link: 'l1', linkPath: '/connect/gthl_x' },
    ],
    [
      'a trial, which leads to its record',
      { ...connecting, trial: true },
      { purpose: 'connect', userId: 'u1', trial: true, returnTo: `${HREF}/admin/sign-ins/ref1` },
    ],
  ])('of %s is pending under the secret of its browser', async (_case, request, pendingRequest) => {
    const { start, put } = flowWith({});
    expect(await start(request)).toBe('https://provider.test/authorize');
    const options = { isNewBrowser: true, record: [LIST_WRITE] };
    expect(put.mock.calls).toEqual([['b1', 'state-1', { ...storedRequest, ...pendingRequest }, options]]);
  });

  test('is recorded with its steps, and its event names the app, the purpose and the user', async () => {
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
    ['that was not requested', {}, { app: 'platform', acr }, { prompt: 'login' }, false],
    ['of another app', { stepUp: true }, { app: 'second', acr }, { prompt: 'login' }, false],
    ['that the administration does not require', { stepUp: true }, { app: 'platform' }, { prompt: 'login' }, false],
    ['of a connection', connecting, { app: 'platform', acr }, { prompt: 'login' }, false],
  ])('with a stronger sign-in %s', async (_case, request, admin, expected, isStepUp) => {
    const { start, put, authorizationUrl } = flowWith({}, { admin });
    await start({ ...request, hints: { prompt: 'login', ui_locales: 'de' } });
    const [_app, parameters] = authorizationUrl.mock.calls[0] as unknown as [unknown, Record<string, unknown>];
    const { prompt, acrValues, maxAgeSeconds, hints, scopes } = parameters;
    expect({ acrValues, prompt }).toEqual({ prompt: '', acrValues: undefined, ...expected });
    expect([maxAgeSeconds, hints, scopes]).toEqual([isStepUp ? 900 : undefined, { ui_locales: 'de' }, APP.scopes]);
    expect(put.mock.calls[0]?.at(2)).toMatchObject({ stepUp: isStepUp || undefined });
  });

  test('requests consent if its user needs it, or if another account may be chosen and needs it', async () => {
    /** Starts while these users need consent. @returns the prompt, and the calls that checked users */
    const promptFor = async (request: object, usersInNeed: (string | undefined)[]) => {
      const needsConsent = vi.fn(async (userId: string | undefined) => usersInNeed.includes(userId));
      const { start, authorizationUrl } = flowWith({}, { connections: { needsConsent } });
      await start(request);
      const [_app, parameters] = authorizationUrl.mock.calls[0] as unknown as [unknown, { prompt: string }];
      return [parameters.prompt, ...needsConsent.mock.calls];
    };
    const otherAccount = { ...connecting, hints: { prompt: 'select_account' } };
    const checkOf = (userId: string | undefined, isConnection: boolean) => [userId, APP, APP.scopes, isConnection];

    expect(await promptFor({}, [undefined])).toEqual(['consent', checkOf(undefined, false)]);
    expect(await promptFor({}, [])).toEqual(['', checkOf(undefined, false)]);
    expect(await promptFor(connecting, ['u1'])).toEqual(['consent', checkOf('u1', true)]);
    expect(await promptFor(connecting, [undefined])).toEqual(['', checkOf('u1', true)]);
    expect(await promptFor(otherAccount, [undefined])).toEqual([
      'select_account consent',
      checkOf('u1', true),
      checkOf(undefined, true),
    ]);
    expect(await promptFor(otherAccount, ['u1'])).toEqual(['select_account consent', checkOf('u1', true)]);
  });

  test.each<[string, object, object, object]>([
    ['a sign-in', {}, { url: `${HREF}/sign-in?app=platform&return_to=%2Fthreads` }, { purpose: 'sign_in' }],
    [
      'a connection',
      connecting,
      { url: `${HREF}/connections/platform?return_to=%2Fthreads` },
      { purpose: 'connect', userId: 'u1' },
    ],
    [
      'a connection by a link',
      connectingByLink,
      { url: `${HREF}/connect/gthl_x` },
      { purpose: 'connect', userId: 'u1' },
    ],
  ])('of %s that fails is recorded, and its page offers a retry', async (_start, request, action, record) => {
    const authorizationUrl = async () => {
      throw new ProviderError('unavailable', 'timeout');
    };
    const failures = [
      { app: APP, failure: 'provider_unavailable', failedStep: 'not sent' },
      { app: { ...APP, disabled: true }, failure: 'disabled_app', failedStep: 'not started' },
      { app: { ...APP, callbackUrls: [] }, failure: 'unusable_app', failedStep: 'not redirect_uri' },
    ];
    for (const { app, failure, failedStep } of failures) {
      const { start, put, begun, added, readStepNames } = flowWith({}, { app, provider: { authorizationUrl } });
      await expect(start(request)).rejects.toMatchObject({ failure, action });
      expect(added).toMatchObject([{ failure, ...record }]);
      expect(readStepNames()).toEqual(['started', failedStep]);
      expect([put.mock.calls, begun]).toEqual([[], []]);
    }
  });

  test('of a trial that fails leads to its record', async () => {
    const { start, added } = flowWith({}, { app: { ...APP, disabled: true } });
    expect(await start({ ...connecting, trial: true })).toBe(`${HREF}/admin/sign-ins/ref1`);
    expect(added).toMatchObject([{ trial: true, failure: 'disabled_app' }]);
  });
});
