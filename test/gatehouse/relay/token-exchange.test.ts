/** Token exchange (RFC 8693) with another OAuth client: subjects, issued tokens, and every refusal. */
import * as client from 'openid-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createRelayUses } from '../../../src/gatehouse/relay/uses.ts';
import { makeDpopKey } from '../../../src/shared/provider/dpop.ts';
import { CLIENT_SECRET, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_JSON, FORM_BODY, type ReceivedResponse, sendRequest } from '../../support/send-request.ts';
import { advanceClock, resetClock } from '../../support/test-clock.ts';
import { until } from '../../support/until.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, assertionOf, createAdministrator, exchange } from './service.ts';

const JWT = 'urn:ietf:params:oauth:token-type:jwt';
const USER = 'urn:gatehouse:token-type:user';
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';
const GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let cookie: string;
let userId: string;
let token: string;
let tokenId: string;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  const { agent } = await signIn(site);
  cookie = agent.cookies.header(site.url);
  ({ userId } = await sessionOf(site, agent));
  ({ token, id: tokenId } = await admin.createRelayToken());
});
afterAll(async () => {
  resetClock();
  await storage.close();
  await site.close();
});

const proven = async () => ({
  subject_token: await assertionOf(site, cookie),
  subject_token_type: JWT,
  audience: 'platform',
});
const json = (response: ReceivedResponse) => JSON.parse(response.body) as Record<string, string>;
const platform = (accessToken: string) =>
  sendRequest(`${site.sandbox.platformUrl}/1/threads/current`, {
    headers: { ...ACCEPT_JSON, authorization: `Bearer ${accessToken}` },
  });

test('openid-client exchanges a user assertion, authenticated by Basic', async () => {
  const server = { issuer: site.url, token_endpoint: `${site.url}/relay/token` };
  const configuration = new client.Configuration(server, tokenId, token, client.ClientSecretBasic(token));
  client.allowInsecureRequests(configuration);
  const response = await client.genericGrantRequest(configuration, GRANT, await proven());
  expect(response.access_token).toBe((await storage.readGrant(userId)).accessToken);
  expect(response.expires_in).toBeGreaterThan(3_000);
  expect(response.expires_in).toBeLessThanOrEqual(3_600);
  expect(response.issued_token_type).toBe(ACCESS_TOKEN);
  expect(response.refresh_token).toBeUndefined();
  expect((await platform(response.access_token)).status).toBe(200);
});

test('omits expires_in if the provider sent none', async () => {
  const { expiresAt } = await storage.readGrant(userId);
  await storage.changeGrant(userId, () => ({ expiresAt: undefined }));
  const response = await exchange(site, token, await proven());
  await storage.changeGrant(userId, () => ({ expiresAt }));
  expect([response.status, Object.keys(json(response)).sort()]).toEqual([
    200,
    ['access_token', 'issued_token_type', 'scope', 'token_type'],
  ]);
});

test('R84 the response must not be cached, and holds neither a refresh token nor the app’s secret', async () => {
  const response = await exchange(site, token, await proven());
  const { refreshToken = '', accessToken } = await storage.readGrant(userId);
  expect([response.status, response.headers['cache-control']]).toEqual([200, 'no-store']);
  expect(json(response)).toEqual({
    access_token: accessToken,
    issued_token_type: ACCESS_TOKEN,
    token_type: 'Bearer',
    expires_in: expect.any(Number),
    scope: expect.stringContaining('platform_read_only'),
  });
  expect(refreshToken).not.toBe('');
  expect(response.body).not.toContain(refreshToken);
  expect(response.body).not.toContain(CLIENT_SECRET);
  expect(site.logs().filter((line) => line.includes(accessToken))).toEqual([]);
});

describe('narrower tokens', () => {
  test('have the requested scopes, and leave the grant unchanged', async () => {
    const before = await storage.readGrant(userId);
    const response = json(await exchange(site, token, { ...(await proven()), scope: 'openid profile' }));
    expect(response.scope).toBe('openid profile');
    expect(response.access_token).not.toBe(before.accessToken);
    expect((await platform(response.access_token ?? '')).status).toBe(403);
    const after = await storage.readGrant(userId);
    expect([after.accessToken, after.scopes, after.refresh]).toEqual([before.accessToken, before.scopes, undefined]);
    expect(after.refreshToken).not.toBe(before.refreshToken);
    const thread = await sendRequest(`${site.url}/threads/current`, { headers: { ...ACCEPT_JSON, cookie } });
    expect(thread.status).toBe(200);
  });

  test('R31 need one refresh for concurrent requests, and none for later ones', async () => {
    const before = site.sandbox.requests.count('POST /token');
    const subject = await proven();
    const responses = await Promise.all(
      Array.from({ length: 5 }, () => exchange(site, token, { ...subject, scope: 'openid email' })),
    );
    await exchange(site, token, { ...subject, scope: 'email openid' });
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(site.sandbox.requests.count('POST /token') - before).toBe(1);
    expect((await storage.readGrant(userId)).failure).toBeUndefined();
  });

  test('are not issued for all granted scopes, in any order and with any spaces', async () => {
    const { accessToken, scopes } = await storage.readGrant(userId);
    const before = site.sandbox.requests.count('POST /token');
    for (const scope of [scopes.toReversed().join('  '), ` ${scopes.join(' ')} ${scopes[0]} `, ' ']) {
      const response = await exchange(site, token, { ...(await proven()), scope });
      expect([scope, response.status, json(response).access_token]).toEqual([scope, 200, accessToken]);
    }
    expect(site.sandbox.requests.count('POST /token')).toBe(before);
  });

  test('are refused for scopes that were not granted, without a call to the provider', async () => {
    const before = site.sandbox.requests.count('POST /token');
    const response = await exchange(site, token, { ...(await proven()), scope: 'openid platform_full_access' });
    expect([response.status, json(response).error]).toEqual([400, 'invalid_scope']);
    expect(site.sandbox.requests.count('POST /token')).toBe(before);
  });

  test('R137 that the provider refuses cost one call and one audit entry, however often they are requested', async () => {
    const { token: trusted } = await admin.createRelayToken({ assertUser: true });
    const form = { subject_token: userId, subject_token_type: USER, audience: 'platform', scope: 'email' };
    site.sandbox.faults.set({
      ...{ listener: 'identity-provider', path: '/token', kind: 'response' },
      ...{ status: 400, body: { error: 'invalid_scope' } },
    });
    const before = site.sandbox.requests.count('POST /token');
    for (let count = 0; count < 40; count += 1) {
      const response = await exchange(site, trusted, form);
      expect([response.status, json(response).error]).toEqual([400, 'invalid_scope']);
    }
    expect(site.sandbox.requests.count('POST /token') - before).toBe(1);
    const entries = async () => (await admin.call('GET', `/audit?event=refresh.failed&target=${userId}`)).json.items;
    await expect.poll(entries).toMatchObject([{ facts: { reason: 'invalid_scope' } }]);
    site.sandbox.faults.clear();
  });

  test('are replaced by the whole token only with fullScope if the provider issues none', async () => {
    const refusing = () =>
      site.sandbox.faults.set({
        listener: 'identity-provider',
        path: '/token',
        kind: 'response',
        status: 400,
        body: { error: 'invalid_scope' },
        times: 1,
      });
    refusing();
    const refused = await exchange(site, token, { ...(await proven()), scope: 'openid' });
    expect([refused.status, json(refused).error, json(refused).error_description]).toEqual([
      400,
      'invalid_scope',
      expect.stringContaining('fullScope'),
    ]);
    const { failure, refresh } = await storage.readGrant(userId);
    expect([failure, refresh]).toEqual([undefined, undefined]);
    const { token: trusted } = await admin.createRelayToken({ fullScope: true });
    refusing();
    const whole = await exchange(site, trusted, { ...(await proven()), scope: 'openid' });
    expect([whole.status, json(whole).scope]).toEqual([200, expect.stringContaining('platform_read_only')]);
    site.sandbox.faults.clear();
  });
});

describe('a connection that cannot be exchanged', () => {
  const bothOf = async () => {
    const subject = await proven();
    const responses = [
      await exchange(site, token, subject),
      await exchange(site, token, { ...subject, scope: 'email' }),
    ];
    expect(responses.map(({ status }) => status)).toEqual([400, 400]);
    return responses.map((response) => json(response));
  };

  test('because it has ended gives the reason and the URL to reconnect', async () => {
    const failure = { kind: 'reconnect_needed', cause: 'grant_refused', since: 0, failures: 1, retryAt: 0 } as const;
    await storage.changeGrant(userId, () => ({ failure }));
    const connectUrl = `${site.url}/connections/platform`;
    for (const response of await bothOf()) {
      const words = `The provider has ended this connection. The user can reconnect at ${connectUrl}`;
      expect(response).toEqual({ error: 'invalid_target', error_description: words, connectUrl });
    }
    await storage.changeGrant(userId, () => ({ failure: undefined }));
  });

  test('because its access token is bound to our key (RFC 9449) says so', async () => {
    const dpopKey = await makeDpopKey();
    await storage.changeGrant(userId, () => ({ dpopKey }));
    for (const response of await bothOf()) {
      expect(response).toEqual({ error: 'invalid_target', error_description: expect.stringContaining('binds') });
    }
    await storage.changeGrant(userId, () => ({ dpopKey: undefined }));
  });
});

describe('the subject', () => {
  test('a user id needs assertUser', async () => {
    const named = { subject_token: userId, subject_token_type: USER, audience: 'platform' };
    const refused = await exchange(site, token, named);
    expect([refused.status, json(refused).error]).toEqual([400, 'invalid_request']);
    const { token: trusted } = await admin.createRelayToken({ assertUser: true });
    expect((await exchange(site, trusted, named)).status).toBe(200);
  });

  test('a token that is sent as a user id by mistake is in neither the audit trail nor the log', async () => {
    const { token: plain, id } = await admin.createRelayToken();
    const { token: trusted, id: trustedId } = await admin.createRelayToken({ assertUser: true });
    const secret = await assertionOf(site, cookie);
    for (const relayToken of [plain, trusted]) {
      const named = { subject_token: secret, subject_token_type: USER, audience: 'platform' };
      expect((await exchange(site, relayToken, named)).status).toBe(400);
    }
    for (const [tokenId, rule] of [
      [id, 'rule: assertUser'],
      [trustedId, 'rule: users'],
    ]) {
      const entries = async () => (await admin.call('GET', `/audit?event=relay.refused&actor=${tokenId}`)).json.items;
      await expect.poll(entries).toMatchObject([{ outcome: rule }]);
      expect(JSON.stringify(await entries())).not.toContain(secret);
    }
    expect(site.logs().filter((line) => line.includes(secret))).toEqual([]);
  });

  test('that is unknown is invalid_request, and one without a connection is invalid_target with the URL to connect', async () => {
    const { token: trusted } = await admin.createRelayToken({ assertUser: true });
    const { agent } = await signIn(site, 'second@example.test');
    const { userId: other, csrfToken } = await sessionOf(site, agent);
    const body = new URLSearchParams({ _csrf: csrfToken });
    await agent.request(`${site.url}/connections/platform/disconnect`, { method: 'POST', body });
    const form = (subject: string) => ({ subject_token: subject, subject_token_type: USER, audience: 'platform' });
    for (const unknown of ['uAAAAAAAAAAAAAAAAAAAAAA', 'second@example.test']) {
      expect(json(await exchange(site, trusted, form(unknown)))).toMatchObject({
        error: 'invalid_request',
        error_description: expect.stringContaining('there is no user with this id'),
      });
    }
    const response = await exchange(site, trusted, form(other));
    const connectUrl = `${site.url}/connections/platform`;
    const words = `The user has not connected this app. The user can connect it at ${connectUrl}`;
    expect([response.status, json(response)]).toEqual([
      400,
      { error: 'invalid_target', error_description: words, connectUrl },
    ]);
  });
});

describe('refusals', () => {
  const refusal = async (form: Record<string, string>) => {
    const response = await exchange(site, token, form);
    const { 'cache-control': cache, pragma } = response.headers;
    // RFC 6749 section 5.1.
    expect([response.status, cache, pragma]).toEqual([400, 'no-store', 'no-cache']);
    return json(response).error;
  };

  test('have the error codes of RFC 6749 section 5.2 and RFC 8693', async () => {
    const good = await proven();
    const { audience: _, ...anyApp } = good;
    expect(await refusal({ ...good, grant_type: 'client_credentials' })).toBe('unsupported_grant_type');
    expect(await refusal({ ...good, grant_type: '' })).toBe('invalid_request');
    expect(await refusal({ ...good, subject_token: '' })).toBe('invalid_request');
    expect(await refusal({ ...good, subject_token_type: ACCESS_TOKEN })).toBe('invalid_request');
    expect(json(await exchange(site, token, { ...good, subject_token_type: ACCESS_TOKEN })).error_description).toBe(
      `Send one of these as subject_token_type: ${JWT}, urn:ietf:params:oauth:token-type:id_token, ${USER}.`,
    );
    expect(await refusal({ ...good, actor_token: 'x', actor_token_type: JWT })).toBe('invalid_request');
    expect(await refusal({ ...good, requested_token_type: JWT })).toBe('invalid_request');
    expect(await refusal({ ...good, audience: 'nowhere' })).toBe('invalid_target');
    expect(await refusal({ ...anyApp, resource: 'https://elsewhere.example/' })).toBe('invalid_target');
    expect(await refusal({ ...anyApp, resource: 'no URL' })).toBe('invalid_target');
    expect(await refusal({ ...good, resource: 'https://elsewhere.example/' })).toBe('invalid_target');
    // RFC 8707 section 2: a resource has no fragment.
    expect(await refusal({ ...good, resource: `${site.sandbox.platformUrl}/1#part` })).toBe('invalid_target');
    expect((await exchange(site, token, { ...anyApp, resource: `${site.sandbox.platformUrl}/1` })).status).toBe(200);
    expect((await exchange(site, token, anyApp)).status).toBe(200);
  });

  test('describe what to send', async () => {
    // RFC 6749 section 3.2: a parameter without a value counts as omitted.
    for (const [form, description] of [
      [{ grant_type: '' }, 'Send the grant_type.'],
      [{ grant_type: 'password' }, `The grant_type must be ${GRANT}.`],
      [{ subject_token: '' }, 'Send subject_token and subject_token_type.'],
      [{ requested_token_type: JWT }, `The requested_token_type must be ${ACCESS_TOKEN}.`],
      [{ actor_token: 'x' }, 'Leave actor_token out: the relay token identifies the actor.'],
      [{ actor_token_type: JWT }, 'Leave actor_token out: the relay token identifies the actor.'],
      [{ subject_token: 'x' }, 'The subject_token is not valid, has expired, or has another audience.'],
      [
        { audience: 'nowhere' },
        'Name one connected app: send its id as audience, or one of its resources as resource. If the app declares no resources, send its API base URL as resource.',
      ],
      [{ scope: 'everything' }, 'Request only scopes that the user has granted.'],
    ] as const) {
      const response = await exchange(site, token, { ...(await proven()), ...form });
      expect([form, response.status, json(response).error_description]).toEqual([form, 400, description]);
    }
    const unauthenticated = await exchange(site, 'gthr_unknown', await proven());
    expect(json(unauthenticated)).toEqual({
      error: 'invalid_client',
      error_description: 'Send a relay token that is valid: as Bearer, or as Basic with its id.',
    });
  });

  test('by policy name the rule', async () => {
    for (const [changes, error] of [
      [{ scopes: ['threads:read'] }, 'unauthorized_client'],
      [{ networks: ['10.0.0.0/8'] }, 'unauthorized_client'],
      [{ apps: [] }, 'invalid_target'],
      [{ users: 'none' }, 'invalid_request'],
    ] as const) {
      const { token: bound } = await admin.createRelayToken(changes);
      const { audience, ...anyApp } = await proven();
      for (const form of [{ ...anyApp, audience }, anyApp]) {
        const response = await exchange(site, bound, form);
        expect([response.status, json(response)]).toMatchObject([
          400,
          { error, error_description: expect.stringMatching(/^Rule/) },
        ]);
      }
    }
  });

  test('R83 of an invalid relay token are 401 invalid_client with the scheme that was used', async () => {
    const body = new URLSearchParams({ grant_type: GRANT, ...(await proven()) }).toString();
    const basic = (id: string, secret: string) => `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`;
    for (const [authorization, challenge] of [
      ['Bearer gthr_x', 'Bearer error="invalid_token"'],
      [basic(tokenId, 'gthr_x'), 'Basic realm="relay"'],
      [basic('another', token), 'Basic realm="relay"'],
      [basic(tokenId, `${token}:junk`), 'Basic realm="relay"'],
      ['Basic %E0%A4', 'Basic realm="relay"'],
      [undefined, 'Bearer'],
    ]) {
      const headers = { ...ACCEPT_JSON, ...FORM_BODY, ...(authorization === undefined ? {} : { authorization }) };
      const response = await sendRequest(`${site.url}/relay/token`, { method: 'POST', headers, body });
      expect([response.status, json(response).error, response.headers['www-authenticate']]).toEqual([
        401,
        'invalid_client',
        challenge,
      ]);
    }
  });

  test('of a repeated parameter and of a body that is not a form are invalid_request', async () => {
    const headers = { ...ACCEPT_JSON, authorization: `Bearer ${token}` };
    const twice = `grant_type=${GRANT}&audience=platform&audience=platform&subject_token=x&subject_token_type=${JWT}`;
    for (const [type, body, description] of [
      [FORM_BODY['content-type'], twice, 'Send each parameter once.'],
      ['application/json', '{}', 'Send the parameters as a form (application/x-www-form-urlencoded).'],
    ] as const) {
      const response = await sendRequest(`${site.url}/relay/token`, {
        method: 'POST',
        headers: { ...headers, 'content-type': type },
        body,
      });
      expect([response.status, json(response)]).toEqual([
        400,
        { error: 'invalid_request', error_description: description },
      ]);
    }
  });

  test('while the provider is unavailable are 503 with Retry-After', async () => {
    const { expiresAt } = await storage.readGrant(userId);
    const heal = site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', kind: 'unavailable' });
    const narrower = await exchange(site, token, { ...(await proven()), scope: 'platform_read_only' });
    await storage.changeGrant(userId, () => ({ expiresAt: Date.now() - 1_000 }));
    const whole = await exchange(site, token, await proven());
    const narrowerUnverified = await exchange(site, token, { ...(await proven()), scope: 'platform_read_only' });
    heal();
    await storage.changeGrant(userId, () => ({ expiresAt, failure: undefined }));
    for (const response of [narrower, whole, narrowerUnverified]) {
      expect([response.status, json(response).error]).toEqual([503, 'temporarily_unavailable']);
      expect([response.headers['cache-control'], Number(response.headers['retry-after'])]).toEqual([
        'no-store',
        expect.toSatisfy((seconds) => seconds > 0),
      ]);
    }
    // It would be one second if only the connection had changed in the meantime.
    expect(Number(narrower.headers['retry-after'])).toBeGreaterThanOrEqual(5);
    const connectUrl = `${site.url}/connections/platform`;
    expect(json(narrower)).toEqual({
      error: 'temporarily_unavailable',
      error_description: 'The provider is unavailable. Try again later.',
    });
    // The access token has expired, so the connection is unverified.
    for (const response of [whole, narrowerUnverified]) {
      expect(json(response)).toMatchObject({ connectUrl, error_description: expect.stringContaining(connectUrl) });
    }
  });

  test('an exchange counts as a use of the connection', async () => {
    const before = (await storage.grants.lastUse(userId, 'platform')) ?? 0;
    // A process records the use of a connection once in five minutes.
    advanceClock(360);
    expect((await exchange(site, token, await proven())).status).toBe(200);
    await until(async () => ((await storage.grants.lastUse(userId, 'platform')) ?? 0) > before + 60_000);
    resetClock();
  });

  test('audits every issued token with its user', async () => {
    await exchange(site, token, await proven());
    // Entries are written after the responses, and other tests exchange tokens as well.
    await expect
      .poll(async () => (await admin.call('GET', `/audit?event=relay_token.exchanged&actor=${tokenId}`)).json.items)
      .toContainEqual(
        expect.objectContaining({
          userId,
          target: expect.objectContaining({ kind: 'connected_app', id: 'platform' }),
        }),
      );
  });

  test('an exchange counts as answered if it issues an access token, and as failed otherwise', async () => {
    const { token: counted, id } = await admin.createRelayToken();
    const failure = { kind: 'reconnect_needed', cause: 'grant_refused', since: 0, failures: 1, retryAt: 0 } as const;
    await exchange(site, counted, await proven());
    await storage.changeGrant(userId, () => ({ failure }));
    await exchange(site, counted, await proven());
    await storage.changeGrant(userId, () => ({ failure: undefined }));
    await exchange(site, counted, await proven());
    const audit = { note: () => undefined };
    const uses = createRelayUses({ store: storage.store, audit, clock: Date.now, isApp: () => true });
    // A new hour may begin between the calls.
    const sums = async () => {
      const counts = (await uses.hoursOf('token', id)).flatMap((hour) => hour.counts);
      const byKind = Map.groupBy(counts, ({ scope, result, other }) => `${scope} ${result} ${other}`);
      return Object.fromEntries(
        [...byKind].map(([kind, ofKind]) => [kind, ofKind.reduce((sum, { count }) => sum + count, 0)]),
      );
    };
    await expect.poll(sums).toEqual({ 'token:exchange answered platform': 2, 'token:exchange failed platform': 1 });
    await uses.close();
  });
});
