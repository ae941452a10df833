/** R80 to R84 at one process: the lifetime of relay tokens, the calls that they authorize, and their subjects. */

import { decodeProtectedHeader } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createRelayUses } from '../../../src/gatehouse/relay/uses.ts';
import { createUserStore } from '../../../src/gatehouse/users/user-store.ts';
import { sessionCookieName } from '../../../src/shared/sessions/browser-sessions.ts';
import { createOpaqueToken } from '../../../src/shared/storage/opaque-token.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_HTML, ACCEPT_JSON, FORM_BODY, JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { until } from '../../support/until.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import {
  type Administrator,
  assertionOf,
  bearer,
  codeOf,
  createAdministrator,
  exchange,
  inventedToken,
  relayThread,
} from './service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
let cookie: string;
let userId: string;
let token: string;
let tokenId: string;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent } = await signIn(site));
  cookie = agent.cookies.header(site.url);
  ({ userId } = await sessionOf(site, agent));
  ({ token, id: tokenId } = await admin.createRelayToken());
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

/** Reads the counts that the site has stored. */
const storedUses = () =>
  createRelayUses({ store: storage.store, audit: { note: () => undefined }, clock: Date.now, isApp: () => true });

const asUser = async () => ({ 'gatehouse-user-assertion': await assertionOf(site, cookie) });

describe('the user of a call', () => {
  test('R81 a service reads the thread of the user whose assertion it sends', async () => {
    const direct = await sendRequest(`${site.url}/threads/current`, { headers: { ...ACCEPT_JSON, cookie } });
    const relayed = await relayThread(site, token, await asUser());
    expect([relayed.status, relayed.body]).toEqual([200, direct.body]);
    expect(relayed.headers).toMatchObject({
      'cache-control': 'no-store',
      'ratelimit-policy': '"relay-token";q=6000;w=60',
    });
    expect(relayed.headers['set-cookie']).toBeUndefined();
  });

  test('an assertion has a type of its own, is valid for a minute, and is verified by the public keys', async () => {
    const assertion = await assertionOf(site, cookie, 'reports');
    const { typ, alg, kid } = decodeProtectedHeader(assertion);
    const keySet = await sendRequest(`${site.url}/.well-known/jwks.json`, { headers: ACCEPT_JSON });
    const { keys } = JSON.parse(keySet.body);
    expect([typ, alg, keys.map((key: { kid: string }) => key.kid)]).toEqual(['gatehouse-user+jwt', 'ES256', [kid]]);
    expect(keySet.body).not.toContain('"d"');
    const { iss, sub, aud, iat, exp, jti } = JSON.parse(
      Buffer.from(assertion.split('.')[1] ?? '', 'base64url').toString(),
    );
    expect([iss, sub, aud, exp - iat, typeof jti]).toEqual([site.url, userId, 'reports', 60, 'string']);
  });

  test('accepts one audience of 1 to 200 printable ASCII characters without a space', async () => {
    const verified = (query: string) =>
      sendRequest(`${site.url}/session/verify?${query}`, { headers: { ...ACCEPT_JSON, cookie } });
    for (const audience of ['x', '~!', 'a'.repeat(200), 'https://reports.example/?a=b']) {
      expect((await verified(`audience=${encodeURIComponent(audience)}`)).status).toBe(200);
    }
    for (const audience of ['', 'a b', ' a', 'a ', 'a\n', 'é', 'a'.repeat(201)]) {
      const response = await verified(`audience=${encodeURIComponent(audience)}`);
      expect([audience, response.status, JSON.parse(response.body).detail]).toEqual([
        audience,
        400,
        'Send the id of the relay token, or the URL of the service, as audience.',
      ]);
      expect(response.headers['gatehouse-user-assertion']).toBeUndefined();
    }
    expect((await verified('audience=a&audience=b')).status).toBe(400);
  });

  test('issues no assertion without a session', async () => {
    const response = await sendRequest(`${site.url}/session/verify`, { headers: ACCEPT_JSON });
    expect([response.status, codeOf(response), response.headers['gatehouse-user-assertion']]).toEqual([
      401,
      'sign_in_required',
      undefined,
    ]);
  });

  test('refuses an assertion for the name of a token, a changed one, and an access token as proof', async () => {
    const { accessToken } = await storage.readGrant(userId);
    const good = await assertionOf(site, cookie);
    for (const assertion of [await assertionOf(site, cookie, 'reports'), `${good.slice(0, -4)}AAAA`, accessToken, '']) {
      const response = await relayThread(site, token, { 'gatehouse-user-assertion': assertion });
      expect([response.status, codeOf(response), JSON.parse(response.body).detail]).toMatchObject([
        403,
        'not_allowed',
        expect.stringContaining('userAssertion'),
      ]);
    }
    for (const audience of [tokenId, site.url]) {
      const assertion = await assertionOf(site, cookie, audience);
      expect((await relayThread(site, token, { 'gatehouse-user-assertion': assertion })).status).toBe(200);
    }
  });

  test('requires exactly one of the three headers that name the subject', async () => {
    const assertion = await assertionOf(site, cookie);
    const exactlyOne = /^Name the subject: send exactly one of /;
    const wrong: [Record<string, string | string[]>, RegExp][] = [
      [{}, exactlyOne],
      [{ 'gatehouse-user-assertion': assertion, 'gatehouse-user': userId }, exactlyOne],
      [{ 'gatehouse-user-assertion': [assertion, assertion] }, exactlyOne],
      [{ 'gatehouse-user': 'no}body' }, /^Gatehouse-User is not a user id\. /],
      [
        { 'gatehouse-service-account': 'no}account' },
        /^Gatehouse-Service-Account is not the id of a service account\. /,
      ],
    ];
    for (const [headers, detail] of wrong) {
      const response = await relayThread(site, token, headers);
      expect([response.status, codeOf(response), JSON.parse(response.body).detail]).toEqual([
        400,
        'invalid_request',
        expect.stringMatching(detail),
      ]);
    }
  });

  test('naming a user without proof needs assertUser', async () => {
    const refused = await relayThread(site, token, { 'gatehouse-user': userId });
    expect([refused.status, codeOf(refused), refused.body]).toMatchObject([403, 'not_allowed', /assertUser/]);
    const { token: trusted } = await admin.createRelayToken({ assertUser: true });
    expect((await relayThread(site, trusted, { 'gatehouse-user': userId })).status).toBe(200);
    const unknownUser = await relayThread(site, trusted, { 'gatehouse-user': 'uAAAAAAAAAAAAAAAAAAAAAA' });
    expect([unknownUser.status, JSON.parse(unknownUser.body)]).toMatchObject([
      404,
      { code: 'not_found', detail: expect.stringContaining('there is no user with this id') },
    ]);
    const address = await relayThread(site, trusted, { 'gatehouse-user': 'user@example.test' });
    expect([address.status, JSON.parse(address.body)]).toMatchObject([
      400,
      { code: 'invalid_request', detail: expect.stringContaining('Gatehouse-User is not a user id') },
    ]);
    const question = { relayToken: tokenId, scope: 'threads:read', app: 'platform', address: '127.0.0.1' };
    const explain = async (user: string) => (await admin.call('POST', '/policy/explain', { ...question, user })).json;
    const unknown = { rule: 'users', detail: expect.stringContaining('there is no user with this id') };
    expect(await explain('uAAAAAAAAAAAAAAAAAAAAAA')).toMatchObject(unknown);
    // An administrator may name the user by e-mail address, and gets the id that the service must send.
    expect(await explain('user@example.test')).toMatchObject({ allowed: true, user: userId });
  });
});

describe('the calls that a relay token authorizes', () => {
  test('R80 shows the token once, and later only its prefix and its last use', async () => {
    const created = await admin.createRelayToken({ name: 'shown once' });
    expect(created.token).toMatch(/^gthr_[0-9A-Za-z]{60}$/);
    await relayThread(site, created.token, await asUser());
    await until(async () => (await admin.call('GET', `/relay-tokens/${created.id}`)).json.lastUsedAt !== null);
    const secret = created.token.slice('gthr_'.length + created.id.length);
    const administrator = (await signIn(site, 'admin@example.test')).agent;
    const pages = ['/admin/relay-tokens', `/admin/relay-tokens/${created.id}`, '/admin/audit', '/admin/policy'];
    const shown = [
      ...(await Promise.all(pages.map(async (path) => (await administrator.get(site.url + path)).body))),
      ...(await Promise.all(
        ['/relay-tokens', `/relay-tokens/${created.id}`, '/audit'].map(async (path) =>
          JSON.stringify((await admin.call('GET', path)).json),
        ),
      )),
      ...site.logs(),
    ];
    expect(shown.filter((text) => text.includes(secret))).toEqual([]);
    const { json } = await admin.call('GET', `/relay-tokens/${created.id}`);
    expect(json).toMatchObject({ prefix: `gthr_${created.id}`, lastUsedFrom: '127.0.0.1' });
  });

  test('R81 responds to the wrong scope and the wrong app with 403 insufficient_scope and the rule', async () => {
    const { token: forBins } = await admin.createRelayToken({ scopes: ['bin:read'] });
    const { token: forNoApp } = await admin.createRelayToken({ apps: [] });
    for (const [wrong, rule, challenge] of [
      [forBins, 'scopes', 'Bearer error="insufficient_scope", scope="threads:read"'],
      [forNoApp, 'apps', 'Bearer error="insufficient_scope"'],
    ] as const) {
      const response = await relayThread(site, wrong, await asUser());
      expect([response.status, codeOf(response), JSON.parse(response.body).detail]).toMatchObject([
        403,
        'insufficient_scope',
        expect.stringContaining(`Rule ${rule}`),
      ]);
      // Both rules share one title, which fits scopes and apps.
      expect(JSON.parse(response.body).title).toBe('The token does not cover this');
      expect(response.headers['www-authenticate']).toBe(challenge);
      expect(response.headers['proxy-status']).toBe('gatehouse; error=http_request_denied');
    }
  });

  test('R81 BIN look-ups need their scope, one by one, in bulk and through Express', async () => {
    const { token: forThreads } = await admin.createRelayToken({ scopes: ['threads:read'] });
    const url = `${site.url}/relay/bin/45717360`;
    const responses = [
      await sendRequest(url, { headers: bearer(forThreads) }),
      await sendRequest(url, { headers: { ...bearer(forThreads), 'content-length': '0' } }),
      await sendRequest(`${site.url}/relay/bin`, {
        method: 'POST',
        headers: { ...bearer(forThreads), ...JSON_BODY },
        body: JSON.stringify({ bins: ['45717360'] }),
      }),
    ];
    for (const response of responses) {
      expect([response.status, codeOf(response), response.headers['www-authenticate']]).toEqual([
        403,
        'insufficient_scope',
        'Bearer error="insufficient_scope", scope="bin:read"',
      ]);
    }
  });

  test('the metrics count calls by app and outcome', async () => {
    const counted = async () => {
      const { body } = await sendRequest(`${site.managementUrl}/metrics`);
      return ['answered', 'failed', 'refused'].map((outcome) => {
        const line = new RegExp(`^gatehouse_relay_calls_total\\{app="platform",outcome="${outcome}"\\} (\\d+)`, 'm');
        const [, count] = line.exec(body) ?? [];
        if (count === undefined) throw new Error(`The metrics have no count of ${outcome} calls.`);
        return Number(count);
      });
    };
    const before = await counted();
    const { token: forNobody } = await admin.createRelayToken({ users: 'none' });
    const subject = await asUser();
    const answered = await relayThread(site, token, subject);
    const refused = await relayThread(site, forNobody, subject);
    const heal = site.sandbox.faults.set({ listener: 'platform', kind: 'reset' });
    const failed = await relayThread(site, token, subject);
    heal();
    expect([answered.status, refused.status, failed.status]).toEqual([200, 403, 502]);
    expect(await counted()).toEqual(before.map((count) => count + 1));
  });

  test('R81 responds to the wrong user and the wrong network with 403 not_allowed', async () => {
    const { token: forNobody } = await admin.createRelayToken({ users: 'none' });
    const { token: forOthers } = await admin.createRelayToken({ users: ['uAAAAAAAAAAAAAAAAAAAAAA'] });
    const { token: fromAfar } = await admin.createRelayToken({ networks: ['10.0.0.0/8'] });
    for (const [wrong, rule] of [
      [forNobody, 'users'],
      [forOthers, 'users'],
      [fromAfar, 'networks'],
    ] as const) {
      const response = await relayThread(site, wrong, await asUser());
      expect([response.status, codeOf(response), response.body]).toMatchObject([
        403,
        'not_allowed',
        expect.stringContaining(rule),
      ]);
    }
  });

  test('R73 ignores X-Forwarded-For of a client that is not a trusted proxy', async () => {
    const { token: fromAfar } = await admin.createRelayToken({ networks: ['10.0.0.0/8'] });
    const response = await relayThread(site, fromAfar, { ...(await asUser()), 'x-forwarded-for': '10.1.2.3' });
    expect(response.status).toBe(403);
  });

  test('R81 accepts both secrets during the overlap of a rotation, then only the new one', async () => {
    const created = await admin.createRelayToken();
    const status = async (text: string) => (await relayThread(site, text, await asUser())).status;
    const first = await admin.call('POST', `/relay-tokens/${created.id}/rotate`, { overlapSeconds: 3600 });
    const second = String(first.json.token);
    expect([await status(created.token), await status(second)]).toEqual([200, 200]);
    const next = await admin.call('POST', `/relay-tokens/${created.id}/rotate`, { overlapSeconds: 0 });
    expect([await status(created.token), await status(second), await status(String(next.json.token))]).toEqual([
      401, 401, 200,
    ]);
  });

  test('looks up BINs one by one and in bulk, like the routes for browsers', async () => {
    const single = await sendRequest(`${site.url}/relay/bin/45717360`, { headers: bearer(token) });
    expect([single.status, JSON.parse(single.body).scheme]).toEqual([200, 'visa']);
    expect(single.headers['gatehouse-source']).toBeDefined();
    const body = JSON.stringify({ bins: ['45717360', '4571736012345678'] });
    const many = await sendRequest(`${site.url}/relay/bin`, {
      method: 'POST',
      headers: { ...bearer(token), ...JSON_BODY },
      body,
    });
    expect([many.status, JSON.parse(many.body).results]).toMatchObject([
      200,
      [{ bin: '45717360' }, { problem: { code: 'invalid_bin' } }],
    ]);
    const form = await sendRequest(`${site.url}/relay/bin`, {
      method: 'POST',
      headers: { ...bearer(token), ...FORM_BODY },
      body: 'bin=45717360',
    });
    expect([form.status, codeOf(form)]).toEqual([400, 'invalid_request']);
  });
});

test('R68 R69 a BIN look-up has the same response with and without Express, and a failed one is counted as failed', async () => {
  const { token: counted, id } = await admin.createRelayToken({ name: 'both ways' });
  const get = (bin: string, more: Record<string, string> = {}) =>
    sendRequest(`${site.url}/relay/bin/${bin}`, { headers: { ...bearer(counted), ...more } });
  // A length is unusual for a GET: with it the request goes through Express.
  for (const bin of ['45717360', '999999', '4571']) {
    const responses = [await get(bin), await get(bin, { 'content-length': '0' })];
    const [short, long] = responses.map(({ status, headers, body }) => {
      const { date: _date, 'x-request-id': reference, ratelimit: _left, ...rest } = headers;
      return { status, body: body.replaceAll(String(reference), 'ID'), rest };
    });
    expect(short).toEqual(long);
    expect(short?.rest['ratelimit-policy']).toBe('"relay-token";q=6000;w=60');
  }
  const uses = storedUses();
  const useCounts = async () => (await uses.hoursOf('token', id)).flatMap(({ counts }) => counts);
  const sumOf = async (kind: string) =>
    (await useCounts()).reduce((sum, { scope, result, count }) => sum + (`${scope} ${result}` === kind ? count : 0), 0);
  await expect.poll(async () => [await sumOf('bin:read answered'), await sumOf('bin:read failed')]).toEqual([2, 4]);
  await uses.close();
});

describe('the place of the token in a request', () => {
  const challenge = (response: { status: number; headers: Record<string, unknown> }) => [
    response.status,
    response.headers['www-authenticate'],
  ];

  test('R82 responds without a token with a challenge that has no error, and ignores cookies', async () => {
    const response = await sendRequest(`${site.url}/relay/threads/current`, {
      headers: { ...ACCEPT_JSON, cookie, ...(await asUser()) },
    });
    expect([codeOf(response), ...challenge(response)]).toEqual(['relay_token_invalid', 401, 'Bearer']);
    expect(JSON.parse(response.body).detail).toBe('Send a relay token as "Authorization: Bearer gthr_…".');
  });

  test('R82 refuses a token in the query, the body or a cookie, and does not log it', async () => {
    const { token: planted } = await admin.createRelayToken({ assertUser: true });
    const thread = `${site.url}/relay/threads/current?app=platform`;
    const subject = { ...ACCEPT_JSON, 'gatehouse-user': userId };
    const responses = await Promise.all([
      sendRequest(`${site.url}/relay/bin/45717360?access_token=${planted}`, { headers: ACCEPT_JSON }),
      sendRequest(`${site.url}/relay/bin/45717360?x=${planted}`, { headers: bearer(planted) }),
      ...[planted.replace('_', '%5F'), planted.replace('_', '%5f'), `%%e9${planted.replace('gthr', '%67%74h%72')}`].map(
        (x) => sendRequest(`${site.url}/relay/bin/45717360?x=${x}`, { headers: bearer(planted) }),
      ),
      sendRequest(`${site.url}/relay/bin/45717360`, {
        headers: { ...ACCEPT_JSON, cookie: `${sessionCookieName(site.url)}=${planted}` },
      }),
      sendRequest(`${site.url}/relay/bin`, {
        method: 'POST',
        headers: { ...ACCEPT_JSON, ...FORM_BODY },
        body: `access_token=${planted}`,
      }),
      sendRequest(`${thread}&access_token=${planted}`, { headers: subject }),
      sendRequest(thread, { headers: { ...subject, cookie: `${sessionCookieName(site.url)}=${planted}` } }),
      sendRequest(`${site.url}/relay/token`, {
        method: 'POST',
        headers: { ...ACCEPT_JSON, ...FORM_BODY },
        body: `client_secret=${planted}`,
      }),
    ]);
    expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 401));
    expect(site.logs().filter((line) => line.includes(planted))).toEqual([]);
  });

  test('R82 refuses a relay token on browser and admin routes, and an admin token on relay routes', async () => {
    for (const path of [
      '/threads/current',
      '/bin/45717360',
      '/connections',
      '/admin/api/relay-tokens',
      '/session/verify',
    ]) {
      expect([path, (await sendRequest(site.url + path, { headers: bearer(token) })).status]).toEqual([path, 401]);
    }
    const { text } = createOpaqueToken('gtha_');
    expect((await relayThread(site, text, await asUser())).status).toBe(401);
  });

  test('R83 responds to malformed, repeated and oversized headers with 401, never 500', async () => {
    const subject = await asUser();
    const headers: (string | string[])[] = [
      ...[
        'Bearer %E0%A4',
        'Bearer',
        'Bearer ',
        'Bearer gthr_',
        `Bearer ${'a'.repeat(15_000)}`,
        'Basic Og==',
        `${token}`,
        'Bearer \xff\xfe',
        'Bearer \xe9\xff',
      ],
      ...[`Bearer ${token} ${token}`, `Bearer ${token.slice(0, -1)}`, `Bearer "${token}"`, `bearer\t${token}`],
      [`Bearer ${token}`, `Bearer ${token}`],
    ];
    for (const authorization of headers) {
      const response = await sendRequest(`${site.url}/relay/threads/current`, {
        headers: { ...ACCEPT_JSON, ...subject, authorization },
      });
      expect([authorization, codeOf(response), ...challenge(response)]).toEqual([
        authorization,
        'relay_token_invalid',
        401,
        'Bearer error="invalid_token"',
      ]);
    }
  });

  test('R84 responds the same to unknown, wrong, revoked and expired tokens', async () => {
    const revoked = await admin.createRelayToken();
    expect((await relayThread(site, revoked.token, await asUser())).status).toBe(200);
    expect((await admin.call('DELETE', `/relay-tokens/${revoked.id}`)).status).toBe(204);
    const expired = await admin.createRelayToken({ expiresAt: new Date(Date.now() + 1_000).toISOString() });
    await until(async () => (await admin.call('GET', `/relay-tokens/${expired.id}`)).json.expired === true);
    const wrongSecret = createOpaqueToken('gthr_', tokenId).text;
    const subject = await asUser();
    const distinct = new Set<string>();
    for (const text of [revoked.token, expired.token, wrongSecret, createOpaqueToken('gthr_').text, inventedToken()]) {
      const response = await relayThread(site, text, subject);
      const { instance: _, ...problem } = JSON.parse(response.body);
      const exchanged = await exchange(site, text, {});
      const headerNames = [response, exchanged].map(({ headers }) => Object.keys(headers).sort());
      distinct.add(
        JSON.stringify([...challenge(response), problem, ...challenge(exchanged), exchanged.body, headerNames]),
      );
    }
    expect([...distinct]).toHaveLength(1);
  });

  test('refuses a request for a page with an HTML page', async () => {
    const response = await sendRequest(`${site.url}/relay/bin/45717360`, {
      headers: { ...ACCEPT_HTML, authorization: `Bearer ${inventedToken()}` },
    });
    expect([response.status, response.headers['content-type']]).toEqual([401, 'text/html; charset=utf-8']);
  });
});

test('R56 refuses services’ calls for a disabled user', async () => {
  const users = createUserStore({ store: storage.store, clock: Date.now });
  const { agent: second } = await signIn(site, 'second@example.test');
  const { userId: id } = await sessionOf(site, second);
  const subject = { 'gatehouse-user-assertion': await assertionOf(site, second.cookies.header(site.url)) };
  expect((await relayThread(site, token, subject)).status).toBe(200);
  await users.noteSignIn({ id, issuer: site.sandbox.issuer, subject: 'sbx-00u2', name: undefined, email: undefined });
  await users.setDisabled(id, true);
  const response = await relayThread(site, token, subject);
  expect([response.status, JSON.parse(response.body).detail]).toEqual([
    403,
    expect.stringContaining('disabled this user'),
  ]);
});

test('audits the use of a grant once an hour, and counts it by the hour', async () => {
  const { token: audited, id } = await admin.createRelayToken({ name: 'audited' });
  await relayThread(site, audited, await asUser());
  await relayThread(site, audited, await asUser());
  const entries = async () => {
    const { json } = await admin.call('GET', '/audit?limit=200');
    const items = json.items as { event: string; actor: { id?: string } }[];
    return items.filter(({ event, actor }) => event === 'relay.used' && actor.id === id);
  };
  await until(async () => (await entries()).length > 0);
  expect(await entries()).toMatchObject([{ userId, actor: { kind: 'relay_token', name: 'audited' } }]);
  const uses = storedUses();
  // Counts are written every two seconds, so the first call may be written before the second.
  const counts = async () => (await uses.hoursOf('token', id))[0]?.counts ?? [];
  await until(async () => (await counts())[0]?.count === 2);
  expect(await counts()).toEqual([{ scope: 'threads:read', result: 'answered', other: 'platform', count: 2 }]);
  const service = async () => (await uses.servicesOf(userId, 'platform')).find((entry) => entry.id === id);
  await until(async () => (await service())?.count === 2);
  expect(await service()).toMatchObject({ name: 'audited', count: 2 });
  await uses.close();
});

test('stores the counts of calls right before the process stops', async () => {
  const { token: lastCall, id } = await admin.createRelayToken({ name: 'last call' });
  expect((await relayThread(site, lastCall, await asUser())).status).toBe(200);
  await site.restart();
  const uses = storedUses();
  expect(await uses.hoursOf('token', id)).toMatchObject([{ counts: [{ result: 'answered', count: 1 }] }]);
  await uses.close();
});

test('R88 audits an invalid proof as a refusal that names the proof', async () => {
  const { token: guesser, id } = await admin.createRelayToken({ name: 'guesser', acceptIdTokens: true });
  const invented = `${(await asUser())['gatehouse-user-assertion'].slice(0, -8)}AAAAAAAA`;
  expect((await relayThread(site, guesser, { 'gatehouse-user-assertion': invented })).status).toBe(403);
  for (const type of ['jwt', 'id_token']) {
    const proof = { subject_token: invented, subject_token_type: `urn:ietf:params:oauth:token-type:${type}` };
    expect((await exchange(site, guesser, { ...proof, audience: 'platform' })).status).toBe(400);
  }
  const refusals = async () => {
    const { json } = await admin.call('GET', `/audit?event=relay.refused&actor=${id}`);
    const items = json.items as { outcome: string; facts: { scope: string } }[];
    return items.map(({ outcome, facts }) => `${facts.scope} ${outcome}`).sort();
  };
  await until(async () => (await refusals()).length >= 3);
  expect(await refusals()).toEqual([
    'threads:read rule: userAssertion',
    'token:exchange rule: idToken',
    'token:exchange rule: userAssertion',
  ]);
});

test('R88 the pages show the connections that a service used, and the services of a connection', async () => {
  const { token: watched, id } = await admin.createRelayToken({ name: 'watched' });
  expect((await relayThread(site, watched, await asUser())).status).toBe(200);
  const { agent: administrator } = await signIn(site, 'admin@example.test');
  const service = await administrator.get(`${site.url}/admin/relay-tokens/${id}`);
  expect(service.body).toContain(`href="/admin/audit?actor=${id}"`);
  const rows = async (query: string) => (await administrator.get(`${site.url}/admin/audit?${query}`)).body;
  await until(async () => (await rows(`actor=${id}`)).includes('Relay used by a service'));
  expect(await rows(`actor=${id}`)).toContain(`href="?target=${userId}"`);
  expect(await rows(`target=${userId}`)).toMatch(new RegExp(`href="\\?actor=${id}"[^>]*><bdi>watched</bdi>`));
});

test('R84 limits guesses, and still accepts a valid token', async () => {
  // A new minute may begin during the loop.
  let guesses = 0;
  while ((await relayThread(site, inventedToken(), {})).status !== 429 && guesses < 250) guesses += 1;
  const limited = await relayThread(site, inventedToken(), {});
  expect([codeOf(limited), limited.headers['ratelimit-policy']]).toEqual(['rate_limited', '"guess";q=100;w=60']);
  expect(Number(limited.headers['retry-after'])).toBeGreaterThan(0);
  expect((await relayThread(site, token, await asUser())).status).toBe(200);
});
