/**
 * A call with the user's access token: one forced refresh after a 401, and nothing is sent before `beforeSending`
 * resolves.
 */
import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { AccessTokens, TokenResult } from '../../../src/gatehouse/grants/access-tokens.ts';
import { type AuthorizedRequest, createAuthorizedFetch } from '../../../src/gatehouse/grants/authorized-fetch.ts';
import type { GrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import type { Outbound, StreamRequest } from '../../../src/shared/outbound/outbound.ts';
import { createStop, stopError } from '../../../src/shared/outbound/stop.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';

const TOKEN = {
  kind: 'token',
  accessToken: 'at1',
  dpopKey: undefined,
  scopes: [],
  consentedAt: 0,
  wasRefused: false,
} as const;
const APP = { id: 'platform' } as ConnectedApp;

type Result = Awaited<ReturnType<AccessTokens['getAnother']>>;
/** What the next requests for a token return. */
let tokens: (Result | Promise<TokenResult>)[];
/** The statuses of the next responses of the platform. */
let statuses: number[];
let sentHeaders: (readonly string[])[];
let targets: string[];
/** The errors that calls were destroyed with. */
let stopErrors: Error[];
const accessTokens = { get: vi.fn(), getAnother: vi.fn(), clearRefusal: vi.fn() };
const grants = { noteUse: vi.fn() };
const body = { destroy: vi.fn() };
beforeEach(() => {
  vi.resetAllMocks();
  tokens = [TOKEN];
  statuses = [200];
  sentHeaders = [];
  targets = [];
  stopErrors = [];
  accessTokens.get.mockImplementation(async () => tokens.shift());
  accessTokens.getAnother.mockImplementation(async () => tokens.shift());
});

const outbound = {
  target: (url: string) => {
    if (url.includes('refused')) throw new Error('the address is refused');
    const { origin, pathname } = new URL(url);
    return { origin, path: pathname };
  },
  stream: (
    target: { origin: string; path: string },
    headers: readonly string[],
    { method, body: sentBody }: StreamRequest,
  ) => {
    sentHeaders.push(headers);
    targets.push(`${method} ${target.origin}${target.path}${sentBody ?? ''}`);
    const response = Promise.resolve({ statusCode: statuses.shift(), headers: {}, body });
    return { response, destroy: (error: Error) => void stopErrors.push(error) };
  },
} as unknown as Outbound;
const fetch = createAuthorizedFetch({
  accessTokens: accessTokens as unknown as AccessTokens,
  grants: grants as unknown as GrantStore,
  outbound,
});

const CALL = { method: 'GET', path: '/threads/current', headers: ['accept', 'text/plain'], neededScopes: [] };
const get = (changes: Partial<AuthorizedRequest> = {}) =>
  fetch.send({
    ownerId: 'u1',
    app: APP,
    call: CALL,
    baseUrlFor: () => 'https://platform.test',
    stop: { endStepWith: () => undefined },
    ...changes,
  } as AuthorizedRequest);

test('sends the token with the headers of the request, and records the use', async () => {
  expect(await get()).toMatchObject({ kind: 'response', response: { statusCode: 200 } });
  expect(sentHeaders).toEqual([['accept', 'text/plain', 'authorization', 'Bearer at1']]);
  expect(grants.noteUse.mock.calls).toEqual([['u1', 'platform']]);
  expect(accessTokens.clearRefusal).not.toHaveBeenCalled();
});

test('clears the recorded refusal after a response that is not a refusal', async () => {
  tokens = [{ ...TOKEN, wasRefused: true }];
  statuses = [503];
  await get();

  expect(accessTokens.clearRefusal.mock.calls).toEqual([['u1', 'platform', 'at1']]);
});

test('sends nothing before beforeSending resolves, or if it rejects', async () => {
  const permission = Promise.withResolvers<void>();
  const result = get({ beforeSending: () => permission.promise });
  await new Promise((resolve) => setImmediate(resolve));

  expect(sentHeaders).toEqual([]);

  permission.resolve();
  await result;
  expect(sentHeaders).toHaveLength(1);

  tokens = [TOKEN];
  const refusal = new Error('over the limit');

  await expect(get({ beforeSending: () => Promise.reject(refusal) })).rejects.toBe(refusal);
  expect(sentHeaders).toHaveLength(1);
});

test('R42: refreshes a refused token once and repeats the call, with beforeSending before each call', async () => {
  tokens = [TOKEN, { ...TOKEN, accessToken: 'at2' }];
  statuses = [401, 200];
  const beforeSending = vi.fn(() => undefined);

  expect(await get({ beforeSending })).toMatchObject({ response: { statusCode: 200 } });
  expect(sentHeaders.map((headers) => headers.at(-1))).toEqual(['Bearer at1', 'Bearer at2']);
  expect(accessTokens.getAnother.mock.calls.map(([, , rejected]) => rejected)).toEqual(['at1']);
  expect(beforeSending).toHaveBeenCalledTimes(2);
  expect(body.destroy).toHaveBeenCalledTimes(1);
  expect(grants.noteUse).toHaveBeenCalledTimes(1);
});

test.each([
  [200, 1],
  [404, 1],
  [499, 1],
  [500, 0],
  [503, 0],
])('a response with status %i counts as %i uses of the connection', async (status, uses) => {
  statuses = [status];
  await get();
  expect(grants.noteUse).toHaveBeenCalledTimes(uses);
});

test('uses the API base URL of the grant instead of that of the app, and checks its address', async () => {
  const baseUrlFor = (granted = 'https://platform.test/api') => granted;
  tokens = [{ ...TOKEN, apiBaseUrl: 'https://eu.platform.test' }];
  await get({ baseUrlFor });
  tokens = [TOKEN];
  statuses = [200];
  await get({ baseUrlFor });

  const expectedUrls = ['https://eu.platform.test/threads/current', 'https://platform.test/api/threads/current'];
  expect(targets).toEqual(expectedUrls.map((url) => `GET ${url}`));

  tokens = [{ ...TOKEN, apiBaseUrl: 'https://refused.test' }];
  await expect(get({ baseUrlFor })).rejects.toThrow('refused');
  expect(sentHeaders).toHaveLength(2);
});

test('sends another method with its body, and once more with the same body after a 401', async () => {
  tokens = [TOKEN, { ...TOKEN, accessToken: 'at2' }];
  statuses = [401, 201];

  expect(
    await get({ call: { ...CALL, method: 'PATCH', path: '/threads/1?a=b', body: Buffer.from('{}') } }),
  ).toMatchObject({ response: { statusCode: 201 } });
  expect(targets).toEqual(Array(2).fill('PATCH https://platform.test/threads/1?a=b{}'));
});

describe('R143 scopes that a call needs', () => {
  const app = { id: 'platform', scopes: ['read', 'write', 'later'] } as ConnectedApp;
  const call = { ...CALL, neededScopes: ['read', 'write'] };

  test.each<[string, object, string[]]>([
    ['a user who declined one', { scopes: ['read'], requestedScopes: ['read'] }, ['write']],
    [
      'a user who granted them before the app got another',
      { scopes: ['read', 'write'], requestedScopes: ['read', 'write'] },
      [],
    ],
    ['a provider that names scopes in its own way', { scopes: ['all'], requestedScopes: ['read', 'write'] }, []],
    ['an import whose scopes the provider does not name', { scopes: [] }, []],
    ['an import with fewer scopes', { scopes: ['later'] }, ['read', 'write']],
  ])('are looked up before it is sent: %s', async (_words, granted, missing) => {
    tokens = [{ ...TOKEN, ...granted }];
    const result = await get({ app, call });
    expect(result).toMatchObject(
      missing.length > 0 ? { kind: 'scopes_missing', scopes: missing } : { kind: 'response' },
    );
    expect(targets).toHaveLength(missing.length > 0 ? 0 : 1);
  });
});

test('ends the call with the reason when the caller stops', async () => {
  const stop = createStop();
  await get({ stop });
  expect(stopErrors).toEqual([]);

  stop.stopLate();
  expect(stopErrors).toEqual([stopError(true)]);
});

test('R42: returns a second refusal, and does not record a use', async () => {
  tokens = [TOKEN, { ...TOKEN, accessToken: 'at2', wasRefused: true }];
  statuses = [401, 401];

  expect(await get()).toMatchObject({ kind: 'response', response: { statusCode: 401 } });
  expect(sentHeaders).toHaveLength(2);
  expect(grants.noteUse).not.toHaveBeenCalled();
  expect(accessTokens.clearRefusal).not.toHaveBeenCalled();
});

test('sends nothing without a token, and returns the reason', async () => {
  tokens = [{ kind: 'not_connected' }];
  expect(await get()).toEqual({ kind: 'not_connected' });

  tokens = [TOKEN, { kind: 'not_connected' }];
  statuses = [401];

  expect(await get()).toEqual({ kind: 'not_connected' });
  expect(sentHeaders).toHaveLength(1);
});

test('returns the refusal of a token that was just refreshed', async () => {
  tokens = [TOKEN, { kind: 'still_refused' }];
  statuses = [401];

  expect(await get()).toMatchObject({ kind: 'response', response: { statusCode: 401 } });
  expect(sentHeaders).toHaveLength(1);
  expect(grants.noteUse).not.toHaveBeenCalled();
});

test('requests no token for a refused address', async () => {
  await expect(get({ baseUrlFor: () => 'https://refused.test' })).rejects.toThrow('refused');
  expect(accessTokens.get).not.toHaveBeenCalled();
});

test('returns at once when the caller stops while waiting for the token', async () => {
  tokens = [new Promise(() => undefined)];
  const endStepWith = vi.fn();
  const result = get({ stop: { endStepWith } as unknown as AuthorizedRequest['stop'] });
  const [stop] = endStepWith.mock.calls[0] ?? [];
  stop();
  const unavailable = { kind: 'unavailable', cause: 'provider_unavailable', isUnverified: false, retryAfterSeconds: 5 };

  expect(await result).toEqual(unavailable);
  expect(sentHeaders).toEqual([]);
});

test('uses a prefetched grant only for the first token', async () => {
  tokens = [TOKEN, { ...TOKEN, accessToken: 'at2' }];
  statuses = [401, 200];
  const prefetched = {} as NonNullable<AuthorizedRequest['prefetched']>;
  await get({ prefetched });

  expect(accessTokens.get.mock.calls.map(([, , options]) => options)).toEqual([
    { prefetched, relayTokenId: undefined },
  ]);
  expect(accessTokens.getAnother.mock.calls).toEqual([['u1', APP, 'at1', { relayTokenId: undefined }]]);
});
