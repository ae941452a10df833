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

/** The form that exchanges the assertion of the signed-in user. */
const provenForm = async () => ({
  subject_token: await assertionOf(site, cookie),
  subject_token_type: JWT,
  audience: 'platform',
});
const jsonOf = (response: ReceivedResponse) => JSON.parse(response.body) as Record<string, string>;
const readThreadWith = (accessToken: string) =>
  sendRequest(`${site.sandbox.platformUrl}/1/threads/current`, {
    headers: { ...ACCEPT_JSON, authorization: `Bearer ${accessToken}` },
  });

test('openid-client exchanges a user assertion, authenticated by Basic', async () => {
  const server = { issuer: site.url, token_endpoint: `${site.url}/relay/token` };
  const configuration = new client.Configuration(server, tokenId, token, client.ClientSecretBasic(token));
  client.allowInsecureRequests(configuration);
  const response = await client.genericGrantRequest(configuration, GRANT, await provenForm());
  expect(response.access_token).toBe((await storage.readGrant(userId)).accessToken);
  expect(response.expires_in).toBeGreaterThan(3_000);
  expect(response.expires_in).toBeLessThanOrEqual(3_600);
  expect(response.issued_token_type).toBe(ACCESS_TOKEN);
  expect(response.refresh_token).toBeUndefined();
  expect((await readThreadWith(response.access_token)).status).toBe(200);
});

test('omits expires_in if the provider sent none', async () => {
  const { expiresAt } = await storage.readGrant(userId);
  await storage.changeGrant(userId, () => ({ expiresAt: undefined }));
  const response = await exchange(site, token, await provenForm());
  await storage.changeGrant(userId, () => ({ expiresAt }));
  expect([response.status, Object.keys(jsonOf(response)).sort()]).toEqual([
    200,
    ['access_token', 'issued_token_type', 'scope', 'token_type'],
  ]);
});

test('R84 the response must not be cached, and holds neither a refresh token nor the app’s secret', async () => {
  const response = await exchange(site, token, await provenForm());
  const { refreshToken = '', accessToken } = await storage.readGrant(userId);
  expect([response.status, response.headers['cache-control']]).toEqual([200, 'no-store']);
  expect(jsonOf(response)).toEqual({
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
  test('have the requested scopes, and change only the refresh token of the grant', async () => {
    const grantBefore = await storage.readGrant(userId);

    const response = jsonOf(await exchange(site, token, { ...(await provenForm()), scope: 'openid profile' }));
    expect(response.scope).toBe('openid profile');
    expect(response.access_token).not.toBe(grantBefore.accessToken);
    expect((await readThreadWith(response.access_token ?? '')).status).toBe(403);

    const grantAfter = await storage.readGrant(userId);
    expect(grantAfter.accessToken).toBe(grantBefore.accessToken);
    expect(grantAfter.scopes).toEqual(grantBefore.scopes);
    expect(grantAfter.refresh).toBeUndefined();
    expect(grantAfter.refreshToken).not.toBe(grantBefore.refreshToken);
    const thread = await sendRequest(`${site.url}/threads/current`, { headers: { ...ACCEPT_JSON, cookie } });
    expect(thread.status).toBe(200);
  });

  test('R31 need one refresh for concurrent requests, and none for later ones', async () => {
    const tokenCallsBefore = site.sandbox.requests.count('POST /token');
    const subject = await provenForm();
    const responses = await Promise.all(
      Array.from({ length: 5 }, () => exchange(site, token, { ...subject, scope: 'openid email' })),
    );
    await exchange(site, token, { ...subject, scope: 'email openid' });
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(site.sandbox.requests.count('POST /token') - tokenCallsBefore).toBe(1);
    expect((await storage.readGrant(userId)).failure).toBeUndefined();
  });

  test('are not issued for all granted scopes, in any order and with any spaces', async () => {
    const { accessToken, scopes } = await storage.readGrant(userId);
    const tokenCallsBefore = site.sandbox.requests.count('POST /token');
    for (const scope of [scopes.toReversed().join('  '), ` ${scopes.join(' ')} ${scopes[0]} `, ' ']) {
      const response = await exchange(site, token, { ...(await provenForm()), scope });
      expect([scope, response.status, jsonOf(response).access_token]).toEqual([scope, 200, accessToken]);
    }
    expect(site.sandbox.requests.count('POST /token')).toBe(tokenCallsBefore);
  });

  test('are refused for scopes that were not granted, without a call to the provider', async () => {
    const tokenCallsBefore = site.sandbox.requests.count('POST /token');
    const response = await exchange(site, token, { ...(await provenForm()), scope: 'openid platform_full_access' });
    expect([response.status, jsonOf(response).error]).toEqual([400, 'invalid_scope']);
    expect(site.sandbox.requests.count('POST /token')).toBe(tokenCallsBefore);
  });

  test('R137 that the provider refuses cost one call and one audit entry, however often they are requested', async () => {
    const { token: trustedToken } = await admin.createRelayToken({ assertUser: true });
    const form = { subject_token: userId, subject_token_type: USER, audience: 'platform', scope: 'email' };
    site.sandbox.faults.set({
      listener: 'identity-provider',
      path: '/token',
      kind: 'response',
      status: 400,
      body: { error: 'invalid_scope' },
    });
    const tokenCallsBefore = site.sandbox.requests.count('POST /token');

    for (let calls = 0; calls < 40; calls += 1) {
      const response = await exchange(site, trustedToken, form);
      expect([response.status, jsonOf(response).error]).toEqual([400, 'invalid_scope']);
    }

    expect(site.sandbox.requests.count('POST /token') - tokenCallsBefore).toBe(1);
    const readEntries = async () =>
      (await admin.call('GET', `/audit?event=refresh.failed&target=${userId}`)).json.items;
    await expect.poll(readEntries).toMatchObject([{ facts: { reason: 'invalid_scope' } }]);
    site.sandbox.faults.clear();
  });

  test('are replaced by the whole token only with fullScope if the provider issues none', async () => {
    /** Lets the provider refuse the next refresh. */
    const refuseNextRefresh = () =>
      site.sandbox.faults.set({
        listener: 'identity-provider',
        path: '/token',
        kind: 'response',
        status: 400,
        body: { error: 'invalid_scope' },
        times: 1,
      });
    refuseNextRefresh();
    const refused = await exchange(site, token, { ...(await provenForm()), scope: 'openid' });
    expect([refused.status, jsonOf(refused).error, jsonOf(refused).error_description]).toEqual([
      400,
      'invalid_scope',
      expect.stringContaining('fullScope'),
    ]);
    const { failure, refresh } = await storage.readGrant(userId);
    expect([failure, refresh]).toEqual([undefined, undefined]);

    const { token: trustedToken } = await admin.createRelayToken({ fullScope: true });
    refuseNextRefresh();
    const whole = await exchange(site, trustedToken, { ...(await provenForm()), scope: 'openid' });
    expect([whole.status, jsonOf(whole).scope]).toEqual([200, expect.stringContaining('platform_read_only')]);
    site.sandbox.faults.clear();
  });
});

describe('a connection that cannot be exchanged', () => {
  /** The refusals of an exchange for the stored token, and for a narrower one. */
  const refusalsOfBoth = async () => {
    const form = await provenForm();
    const responses = [await exchange(site, token, form), await exchange(site, token, { ...form, scope: 'email' })];
    expect(responses.map(({ status }) => status)).toEqual([400, 400]);
    return responses.map(jsonOf);
  };

  test('because it has ended gives the reason and the URL to reconnect', async () => {
    const failure = { kind: 'reconnect_needed', cause: 'grant_refused', since: 0, failures: 1, retryAt: 0 } as const;
    await storage.changeGrant(userId, () => ({ failure }));
    const connectUrl = `${site.url}/connections/platform`;
    const description = `The provider has ended this connection. The user can reconnect at ${connectUrl}`;
    for (const refusal of await refusalsOfBoth()) {
      expect(refusal).toEqual({ error: 'invalid_target', error_description: description, connectUrl });
    }
    await storage.changeGrant(userId, () => ({ failure: undefined }));
  });

  test('because its access token is bound to our key (RFC 9449) says so', async () => {
    const dpopKey = await makeDpopKey();
    await storage.changeGrant(userId, () => ({ dpopKey }));
    for (const refusal of await refusalsOfBoth()) {
      expect(refusal).toEqual({ error: 'invalid_target', error_description: expect.stringContaining('binds') });
    }
    await storage.changeGrant(userId, () => ({ dpopKey: undefined }));
  });
});

describe('a user id as the subject', () => {
  const formOf = (subject: string) => ({ subject_token: subject, subject_token_type: USER, audience: 'platform' });

  test('needs assertUser', async () => {
    const refused = await exchange(site, token, formOf(userId));
    expect([refused.status, jsonOf(refused).error]).toEqual([400, 'invalid_request']);
    const { token: trustedToken } = await admin.createRelayToken({ assertUser: true });
    expect((await exchange(site, trustedToken, formOf(userId))).status).toBe(200);
  });

  test('that is an assertion by mistake is in neither the audit trail nor the log', async () => {
    const assertion = await assertionOf(site, cookie);
    for (const [assertUser, rule] of [
      [false, 'assertUser'],
      [true, 'users'],
    ] as const) {
      const { token: relayToken, id } = await admin.createRelayToken({ assertUser });
      expect((await exchange(site, relayToken, formOf(assertion))).status).toBe(400);
      const readEntries = async () => (await admin.call('GET', `/audit?event=relay.refused&actor=${id}`)).json.items;
      await expect.poll(readEntries).toMatchObject([{ outcome: 'refused', facts: { rule } }]);
      expect(JSON.stringify(await readEntries())).not.toContain(assertion);
    }
    expect(site.logs().filter((line) => line.includes(assertion))).toEqual([]);
  });

  test('is invalid_request if it is unknown, and invalid_target with the URL to connect if the user has no connection', async () => {
    const { token: trustedToken } = await admin.createRelayToken({ assertUser: true });
    const { agent } = await signIn(site, 'second@example.test');
    const { userId: unconnectedUserId, csrfToken } = await sessionOf(site, agent);
    const body = new URLSearchParams({ _csrf: csrfToken });
    await agent.request(`${site.url}/connections/platform/disconnect`, { method: 'POST', body });

    for (const unknown of ['uAAAAAAAAAAAAAAAAAAAAAA', 'second@example.test']) {
      expect(jsonOf(await exchange(site, trustedToken, formOf(unknown)))).toMatchObject({
        error: 'invalid_request',
        error_description: expect.stringContaining('there is no user with this id'),
      });
    }

    const response = await exchange(site, trustedToken, formOf(unconnectedUserId));
    const connectUrl = `${site.url}/connections/platform`;
    const description = `The user has not connected this app. The user can connect it at ${connectUrl}`;
    expect(response.status).toBe(400);
    expect(jsonOf(response)).toEqual({ error: 'invalid_target', error_description: description, connectUrl });
  });
});

describe('refusals', () => {
  /** Expects the exchange to be refused, and returns the error code. */
  const refusalOf = async (form: Record<string, string>) => {
    const response = await exchange(site, token, form);
    // RFC 6749 section 5.1.
    expect(response.headers).toMatchObject({ 'cache-control': 'no-store', pragma: 'no-cache' });
    expect(response.status).toBe(400);
    return jsonOf(response).error;
  };

  test('have the error codes of RFC 6749 section 5.2 and RFC 8693', async () => {
    const validForm = await provenForm();
    const { audience: _, ...formWithoutApp } = validForm;
    expect(await refusalOf({ ...validForm, grant_type: 'client_credentials' })).toBe('unsupported_grant_type');
    expect(await refusalOf({ ...validForm, grant_type: '' })).toBe('invalid_request');
    expect(await refusalOf({ ...validForm, subject_token: '' })).toBe('invalid_request');
    expect(await refusalOf({ ...validForm, subject_token_type: ACCESS_TOKEN })).toBe('invalid_request');
    expect(
      jsonOf(await exchange(site, token, { ...validForm, subject_token_type: ACCESS_TOKEN })).error_description,
    ).toBe(`Send one of these as subject_token_type: ${JWT}, urn:ietf:params:oauth:token-type:id_token, ${USER}.`);
    expect(await refusalOf({ ...validForm, actor_token: 'x', actor_token_type: JWT })).toBe('invalid_request');
    expect(await refusalOf({ ...validForm, requested_token_type: JWT })).toBe('invalid_request');
    expect(await refusalOf({ ...validForm, audience: 'nowhere' })).toBe('invalid_target');
    expect(await refusalOf({ ...formWithoutApp, resource: 'https://elsewhere.example/' })).toBe('invalid_target');
    expect(await refusalOf({ ...formWithoutApp, resource: 'no URL' })).toBe('invalid_target');
    expect(await refusalOf({ ...validForm, resource: 'https://elsewhere.example/' })).toBe('invalid_target');
    // RFC 8707 section 2: a resource has no fragment.
    expect(await refusalOf({ ...validForm, resource: `${site.sandbox.platformUrl}/1#part` })).toBe('invalid_target');
    expect((await exchange(site, token, { ...formWithoutApp, resource: `${site.sandbox.platformUrl}/1` })).status).toBe(
      200,
    );
    expect((await exchange(site, token, formWithoutApp)).status).toBe(200);
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
      const response = await exchange(site, token, { ...(await provenForm()), ...form });
      expect([form, response.status, jsonOf(response).error_description]).toEqual([form, 400, description]);
    }

    const unauthenticated = await exchange(site, 'gthr_unknown', await provenForm());
    expect(jsonOf(unauthenticated)).toEqual({
      error: 'invalid_client',
      error_description: 'Send a relay token that is valid: as Bearer, or as Basic with its id.',
    });
  });

  test('by the policy name the rule', async () => {
    for (const [policyChanges, error] of [
      [{ scopes: ['threads:read'] }, 'unauthorized_client'],
      [{ networks: ['10.0.0.0/8'] }, 'unauthorized_client'],
      [{ apps: [] }, 'invalid_target'],
      [{ users: 'none' }, 'invalid_request'],
    ] as const) {
      const { token: relayToken } = await admin.createRelayToken(policyChanges);
      const form = await provenForm();
      const { audience: _audience, ...formWithoutApp } = form;
      for (const sentForm of [form, formWithoutApp]) {
        const response = await exchange(site, relayToken, sentForm);
        expect([response.status, jsonOf(response)]).toMatchObject([
          400,
          { error, error_description: expect.stringMatching(/^Rule/) },
        ]);
      }
    }
  });

  test('R83 of an invalid relay token are 401 invalid_client with the scheme that was used', async () => {
    const body = new URLSearchParams({ grant_type: GRANT, ...(await provenForm()) }).toString();
    const basicAuthentication = (id: string, secret: string) =>
      `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`;
    for (const [authorization, challenge] of [
      ['Bearer gthr_x', 'Bearer error="invalid_token"'],
      [basicAuthentication(tokenId, 'gthr_x'), 'Basic realm="relay"'],
      [basicAuthentication('another', token), 'Basic realm="relay"'],
      [basicAuthentication(tokenId, `${token}:junk`), 'Basic realm="relay"'],
      ['Basic %E0%A4', 'Basic realm="relay"'],
      [undefined, 'Bearer'],
    ]) {
      const headers = { ...ACCEPT_JSON, ...FORM_BODY, ...(authorization === undefined ? {} : { authorization }) };
      const response = await sendRequest(`${site.url}/relay/token`, { method: 'POST', headers, body });
      expect([response.status, jsonOf(response).error, response.headers['www-authenticate']]).toEqual([
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
      expect([response.status, jsonOf(response)]).toEqual([
        400,
        { error: 'invalid_request', error_description: description },
      ]);
    }
  });

  test('while the provider is unavailable are 503 with Retry-After', async () => {
    const { expiresAt } = await storage.readGrant(userId);
    const endFault = site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', kind: 'unavailable' });
    const exchangeForNarrower = async () =>
      exchange(site, token, { ...(await provenForm()), scope: 'platform_read_only' });
    const narrower = await exchangeForNarrower();
    // From now on the access token has expired, so a failed refresh makes the connection unverified.
    await storage.changeGrant(userId, () => ({ expiresAt: Date.now() - 1_000 }));
    const whole = await exchange(site, token, await provenForm());
    const narrowerUnverified = await exchangeForNarrower();
    endFault();
    await storage.changeGrant(userId, () => ({ expiresAt, failure: undefined }));
    for (const response of [narrower, whole, narrowerUnverified]) {
      expect([response.status, jsonOf(response).error]).toEqual([503, 'temporarily_unavailable']);
      expect([response.headers['cache-control'], Number(response.headers['retry-after'])]).toEqual([
        'no-store',
        expect.toSatisfy((seconds) => seconds > 0),
      ]);
    }
    // It would be one second if only the connection had changed in the meantime.
    expect(Number(narrower.headers['retry-after'])).toBeGreaterThanOrEqual(5);
    const connectUrl = `${site.url}/connections/platform`;
    expect(jsonOf(narrower)).toEqual({
      error: 'temporarily_unavailable',
      error_description: 'The provider is unavailable. Try again later.',
    });
    // A user can reconnect an unverified connection.
    for (const response of [whole, narrowerUnverified]) {
      expect(jsonOf(response)).toMatchObject({ connectUrl, error_description: expect.stringContaining(connectUrl) });
    }
  });

  test('an exchange counts as a use of the connection', async () => {
    const lastUseBefore = (await storage.grants.lastUse(userId, 'platform')) ?? 0;
    // A process records the use of a connection once in five minutes.
    advanceClock(360);
    expect((await exchange(site, token, await provenForm())).status).toBe(200);
    await until(async () => ((await storage.grants.lastUse(userId, 'platform')) ?? 0) > lastUseBefore + 60_000);
    resetClock();
  });

  test('audits every issued token with its user', async () => {
    await exchange(site, token, await provenForm());
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

  test('an exchange counts as succeeded if it issues an access token, and as failed otherwise', async () => {
    const { token: countedToken, id } = await admin.createRelayToken();
    const failure = { kind: 'reconnect_needed', cause: 'grant_refused', since: 0, failures: 1, retryAt: 0 } as const;
    await exchange(site, countedToken, await provenForm());
    await storage.changeGrant(userId, () => ({ failure }));
    await exchange(site, countedToken, await provenForm());
    await storage.changeGrant(userId, () => ({ failure: undefined }));
    await exchange(site, countedToken, await provenForm());
    const audit = { note: () => undefined };
    const uses = createRelayUses({ store: storage.store, audit, clock: Date.now, isApp: () => true });
    // Summed, since a new hour may begin between the calls.
    const readSums = async () => {
      const sums: Record<string, number> = {};
      for (const { counts } of await uses.hoursOf('token', id)) {
        for (const { scope, result, other, count } of counts) {
          const kind = `${scope} ${result} ${other}`;
          sums[kind] = (sums[kind] ?? 0) + count;
        }
      }
      return sums;
    };
    await expect
      .poll(readSums)
      .toEqual({ 'token:exchange succeeded platform': 2, 'token:exchange failed platform': 1 });
    await uses.close();
  });
});
