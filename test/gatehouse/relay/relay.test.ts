/** R80 to R84 at one process: the lifetime of relay tokens, the calls that they authorize, and their subjects. */

import { decodeJwt, decodeProtectedHeader } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createRelayUses } from '../../../src/gatehouse/relay/uses.ts';
import { createUserStore } from '../../../src/gatehouse/users/user-store.ts';
import { sessionCookieName } from '../../../src/shared/sessions/browser-sessions.ts';
import { createOpaqueToken } from '../../../src/shared/storage/opaque-token.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import {
  ACCEPT_HTML,
  ACCEPT_JSON,
  FORM_BODY,
  JSON_BODY,
  type ReceivedResponse,
  sendRequest,
} from '../../support/send-request.ts';
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

const UNKNOWN_USER = 'uAAAAAAAAAAAAAAAAAAAAAA';

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

/** The header with which a service proves the signed-in user. */
const assertionHeader = async () => ({ 'gatehouse-user-assertion': await assertionOf(site, cookie) });

describe('the user of a call', () => {
  test('R81 a service reads the thread of the user whose assertion it sends', async () => {
    const direct = await sendRequest(`${site.url}/threads/current`, { headers: { ...ACCEPT_JSON, cookie } });
    const relayed = await relayThread(site, token, await assertionHeader());
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
    const publishedKids = JSON.parse(keySet.body).keys.map((key: { kid: string }) => key.kid);
    expect([typ, alg]).toEqual(['gatehouse-user+jwt', 'ES256']);
    expect(publishedKids).toEqual([kid]);
    // "d" would be the private part of a key.
    expect(keySet.body).not.toContain('"d"');

    const { iat = 0, exp, ...claims } = decodeJwt(assertion);
    expect(claims).toEqual({ iss: site.url, sub: userId, aud: 'reports', jti: expect.any(String) });
    expect(exp).toBe(iat + 60);
  });

  test('accepts one audience of 1 to 200 printable ASCII characters without a space', async () => {
    const verify = (query: string) =>
      sendRequest(`${site.url}/session/verify?${query}`, { headers: { ...ACCEPT_JSON, cookie } });
    for (const audience of ['x', '~!', 'a'.repeat(200), 'https://reports.example/?a=b']) {
      expect((await verify(`audience=${encodeURIComponent(audience)}`)).status).toBe(200);
    }
    for (const audience of ['', 'a b', ' a', 'a ', 'a\n', 'é', 'a'.repeat(201)]) {
      const response = await verify(`audience=${encodeURIComponent(audience)}`);
      expect([audience, response.status, JSON.parse(response.body).detail]).toEqual([
        audience,
        400,
        'Send the id of the relay token, or the URL of the service, as audience.',
      ]);
      expect(response.headers['gatehouse-user-assertion']).toBeUndefined();
    }
    expect((await verify('audience=a&audience=b')).status).toBe(400);
  });

  test('issues no assertion without a session', async () => {
    const response = await sendRequest(`${site.url}/session/verify`, { headers: ACCEPT_JSON });
    expect([response.status, codeOf(response), response.headers['gatehouse-user-assertion']]).toEqual([
      401,
      'sign_in_required',
      undefined,
    ]);
  });

  test('R81 accepts only an unchanged assertion whose audience is the id of the relay token or the URL of Gatehouse', async () => {
    const { accessToken } = await storage.readGrant(userId);
    const assertionForOtherAudience = await assertionOf(site, cookie, 'reports');
    const changedAssertion = `${(await assertionOf(site, cookie)).slice(0, -4)}AAAA`;
    for (const assertion of [assertionForOtherAudience, changedAssertion, accessToken, '']) {
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
    const SEND_EXACTLY_ONE = /^Name the subject: send exactly one of /;
    const cases: [Record<string, string | string[]>, RegExp][] = [
      [{}, SEND_EXACTLY_ONE],
      [{ 'gatehouse-user-assertion': assertion, 'gatehouse-user': userId }, SEND_EXACTLY_ONE],
      [{ 'gatehouse-user-assertion': [assertion, assertion] }, SEND_EXACTLY_ONE],
      [{ 'gatehouse-user': 'no}body' }, /^Gatehouse-User is not a user id\. /],
      [
        { 'gatehouse-service-account': 'no}account' },
        /^Gatehouse-Service-Account is not the id of a service account\. /,
      ],
    ];
    for (const [headers, detail] of cases) {
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
    expect([refused.status, codeOf(refused)]).toEqual([403, 'not_allowed']);
    expect(refused.body).toContain('assertUser');

    const { token: trustedToken } = await admin.createRelayToken({ assertUser: true });
    expect((await relayThread(site, trustedToken, { 'gatehouse-user': userId })).status).toBe(200);

    const responseForUnknownUser = await relayThread(site, trustedToken, { 'gatehouse-user': UNKNOWN_USER });
    expect(responseForUnknownUser.status).toBe(404);
    expect(JSON.parse(responseForUnknownUser.body)).toMatchObject({
      code: 'not_found',
      detail: expect.stringContaining('there is no user with this id'),
    });

    const responseForAddress = await relayThread(site, trustedToken, { 'gatehouse-user': 'user@example.test' });
    expect(responseForAddress.status).toBe(400);
    expect(JSON.parse(responseForAddress.body)).toMatchObject({
      code: 'invalid_request',
      detail: expect.stringContaining('Gatehouse-User is not a user id'),
    });
  });

  test('the policy test finds a user by id or e-mail address, and returns the id', async () => {
    const call = { relayToken: tokenId, scope: 'threads:read', app: 'platform', address: '127.0.0.1' };
    const explain = async (named: string) =>
      (await admin.call('POST', '/policy/explain', { ...call, userId: named })).json;
    expect(await explain(UNKNOWN_USER)).toMatchObject({
      rule: 'users',
      detail: expect.stringContaining('there is no user with this id'),
    });
    // An administrator may name the user by e-mail address, and gets the id that the service must send.
    expect(await explain('user@example.test')).toMatchObject({ allowed: true, userId });
  });
});

describe('the calls that a relay token authorizes', () => {
  test('R80 shows the token once, and later only its prefix and its last use', async () => {
    const { id, token: createdToken } = await admin.createRelayToken({ name: 'shown once' });
    expect(createdToken).toMatch(/^gthr_[0-9A-Za-z]{60}$/);
    await relayThread(site, createdToken, await assertionHeader());
    await until(async () => (await admin.call('GET', `/relay-tokens/${id}`)).json.lastUsedAt !== null);

    const secret = createdToken.slice('gthr_'.length + id.length);
    const { agent: adminBrowser } = await signIn(site, 'admin@example.test');
    for (const path of ['/admin/relay-tokens', `/admin/relay-tokens/${id}`, '/admin/audit', '/admin/policy']) {
      expect((await adminBrowser.get(`${site.url}${path}`)).body).not.toContain(secret);
    }
    for (const path of ['/relay-tokens', `/relay-tokens/${id}`, '/audit']) {
      expect(JSON.stringify((await admin.call('GET', path)).json)).not.toContain(secret);
    }
    expect(site.logs().filter((line) => line.includes(secret))).toEqual([]);

    const { json } = await admin.call('GET', `/relay-tokens/${id}`);
    expect(json).toMatchObject({ prefix: `gthr_${id}`, lastUsedAddress: '127.0.0.1' });
  });

  test('R81 responds to the wrong scope and the wrong app with 403 insufficient_scope and the rule', async () => {
    const { token: forBins } = await admin.createRelayToken({ scopes: ['bin:read'] });
    const { token: forNoApp } = await admin.createRelayToken({ apps: [] });
    for (const [relayToken, rule, challenge] of [
      [forBins, 'scopes', 'Bearer error="insufficient_scope", scope="threads:read"'],
      [forNoApp, 'apps', 'Bearer error="insufficient_scope"'],
    ] as const) {
      const response = await relayThread(site, relayToken, await assertionHeader());
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

  test('R81 BIN lookups require their scope: a single one, one through Express, and several', async () => {
    const { token: forThreads } = await admin.createRelayToken({ scopes: ['threads:read'] });
    const url = `${site.url}/relay/bin/45717360`;
    // A length is unusual for a GET: with it the request goes through Express.
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
    const readCounts = async () => {
      const { body } = await sendRequest(`${site.managementUrl}/metrics`);
      const countOf = (outcome: string) => {
        const line = new RegExp(`^gatehouse_relay_calls_total\\{app="platform",outcome="${outcome}"\\} (\\d+)`, 'm');
        const count = line.exec(body)?.[1];
        if (count === undefined) throw new Error(`The metrics have no count of ${outcome} calls.`);
        return Number(count);
      };
      return { succeeded: countOf('succeeded'), failed: countOf('failed'), refused: countOf('refused') };
    };
    const countsBefore = await readCounts();
    const { token: forNoUser } = await admin.createRelayToken({ users: 'none' });
    const subject = await assertionHeader();
    const succeeded = await relayThread(site, token, subject);
    const refused = await relayThread(site, forNoUser, subject);
    const endFault = site.sandbox.faults.set({ listener: 'platform', kind: 'reset' });
    const failed = await relayThread(site, token, subject);
    endFault();
    expect([succeeded.status, refused.status, failed.status]).toEqual([200, 403, 502]);
    expect(await readCounts()).toEqual({
      succeeded: countsBefore.succeeded + 1,
      failed: countsBefore.failed + 1,
      refused: countsBefore.refused + 1,
    });
  });

  test('R81 responds to the wrong user and the wrong network with 403 not_allowed', async () => {
    const { token: forNoUser } = await admin.createRelayToken({ users: 'none' });
    const { token: forOtherUser } = await admin.createRelayToken({ users: [UNKNOWN_USER] });
    const { token: forOtherNetwork } = await admin.createRelayToken({ networks: ['10.0.0.0/8'] });
    for (const [relayToken, rule] of [
      [forNoUser, 'users'],
      [forOtherUser, 'users'],
      [forOtherNetwork, 'networks'],
    ] as const) {
      const response = await relayThread(site, relayToken, await assertionHeader());
      expect([response.status, codeOf(response), response.body]).toMatchObject([
        403,
        'not_allowed',
        expect.stringContaining(rule),
      ]);
    }
  });

  test('R73 ignores X-Forwarded-For of a client that is not a trusted proxy', async () => {
    const { token: forOtherNetwork } = await admin.createRelayToken({ networks: ['10.0.0.0/8'] });
    const response = await relayThread(site, forOtherNetwork, {
      ...(await assertionHeader()),
      'x-forwarded-for': '10.1.2.3',
    });
    expect(response.status).toBe(403);
  });

  test('R81 accepts both secrets during the overlap of a rotation, then only the new one', async () => {
    const { id, token: firstToken } = await admin.createRelayToken();
    const statusOf = async (text: string) => (await relayThread(site, text, await assertionHeader())).status;
    const rotate = async (overlapSeconds: number) =>
      String((await admin.call('POST', `/relay-tokens/${id}/rotate`, { overlapSeconds })).json.token);

    const secondToken = await rotate(3600);
    expect(await statusOf(firstToken)).toBe(200);
    expect(await statusOf(secondToken)).toBe(200);

    const thirdToken = await rotate(0);
    expect(await statusOf(firstToken)).toBe(401);
    expect(await statusOf(secondToken)).toBe(401);
    expect(await statusOf(thirdToken)).toBe(200);
  });

  test('looks up one BIN, and several; a form, which only browsers send, is refused', async () => {
    const single = await sendRequest(`${site.url}/relay/bin/45717360`, { headers: bearer(token) });
    expect([single.status, JSON.parse(single.body).scheme]).toEqual([200, 'visa']);
    expect(single.headers['gatehouse-source']).toBeDefined();
    const body = JSON.stringify({ bins: ['45717360', '4571736012345678'] });

    const several = await sendRequest(`${site.url}/relay/bin`, {
      method: 'POST',
      headers: { ...bearer(token), ...JSON_BODY },
      body,
    });
    expect([several.status, JSON.parse(several.body).results]).toMatchObject([
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

test('R68 R69 a BIN lookup has the same response with and without Express, and a failed one is counted as failed', async () => {
  const { token: countedToken, id } = await admin.createRelayToken({ name: 'both ways' });
  const lookUp = (bin: string, headers: Record<string, string> = {}) =>
    sendRequest(`${site.url}/relay/bin/${bin}`, { headers: { ...bearer(countedToken), ...headers } });
  /** The response without what differs between any two calls. */
  const comparable = ({ status, headers, body }: ReceivedResponse) => {
    const { date: _date, 'x-request-id': requestId, ratelimit: _ratelimit, ...comparableHeaders } = headers;
    return { status, body: body.replaceAll(String(requestId), 'ID'), headers: comparableHeaders };
  };
  for (const bin of ['45717360', '999999', '4571']) {
    const withoutExpress = comparable(await lookUp(bin));
    // A length is unusual for a GET: with it the request goes through Express.
    const withExpress = comparable(await lookUp(bin, { 'content-length': '0' }));
    expect(withoutExpress).toEqual(withExpress);
    expect(withoutExpress.headers['ratelimit-policy']).toBe('"relay-token";q=6000;w=60');
  }

  const uses = storedUses();
  const readSums = async () => {
    const sums: Record<string, number> = {};
    for (const { counts } of await uses.hoursOf('token', id)) {
      for (const { scope, result, count } of counts) {
        const kind = `${scope} ${result}`;
        sums[kind] = (sums[kind] ?? 0) + count;
      }
    }
    return sums;
  };
  // One BIN is known, and each was looked up twice.
  await expect.poll(readSums).toMatchObject({ 'bin:read succeeded': 2, 'bin:read failed': 4 });
  await uses.close();
});

describe('the place of the token in a request', () => {
  const statusAndChallenge = (response: ReceivedResponse) => [response.status, response.headers['www-authenticate']];

  test('R82 responds without a token with a challenge that has no error, and ignores cookies', async () => {
    const response = await sendRequest(`${site.url}/relay/threads/current`, {
      headers: { ...ACCEPT_JSON, cookie, ...(await assertionHeader()) },
    });
    expect([codeOf(response), ...statusAndChallenge(response)]).toEqual(['relay_token_invalid', 401, 'Bearer']);
    expect(JSON.parse(response.body).detail).toBe('Send a relay token as "Authorization: Bearer gthr_…".');
  });

  test('R82 refuses a token in the query, the body or a cookie, and does not log it', async () => {
    const { token: misplacedToken } = await admin.createRelayToken({ assertUser: true });
    const encodedForms = [
      misplacedToken.replace('_', '%5F'),
      misplacedToken.replace('_', '%5f'),
      `%%e9${misplacedToken.replace('gthr', '%67%74h%72')}`,
    ];
    const threadUrl = `${site.url}/relay/threads/current?app=platform`;
    const subject = { ...ACCEPT_JSON, 'gatehouse-user': userId };
    const responses = await Promise.all([
      sendRequest(`${site.url}/relay/bin/45717360?access_token=${misplacedToken}`, { headers: ACCEPT_JSON }),
      sendRequest(`${site.url}/relay/bin/45717360?x=${misplacedToken}`, { headers: bearer(misplacedToken) }),
      ...encodedForms.map((text) =>
        sendRequest(`${site.url}/relay/bin/45717360?x=${text}`, { headers: bearer(misplacedToken) }),
      ),
      sendRequest(`${site.url}/relay/bin/45717360`, {
        headers: { ...ACCEPT_JSON, cookie: `${sessionCookieName(site.url)}=${misplacedToken}` },
      }),
      sendRequest(`${site.url}/relay/bin`, {
        method: 'POST',
        headers: { ...ACCEPT_JSON, ...FORM_BODY },
        body: `access_token=${misplacedToken}`,
      }),
      sendRequest(`${threadUrl}&access_token=${misplacedToken}`, { headers: subject }),
      sendRequest(threadUrl, { headers: { ...subject, cookie: `${sessionCookieName(site.url)}=${misplacedToken}` } }),
      sendRequest(`${site.url}/relay/token`, {
        method: 'POST',
        headers: { ...ACCEPT_JSON, ...FORM_BODY },
        body: `client_secret=${misplacedToken}`,
      }),
    ]);
    for (const { status } of responses) expect(status).toBe(401);
    expect(site.logs().filter((line) => line.includes(misplacedToken))).toEqual([]);
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
    const { text: adminToken } = createOpaqueToken('gtha_');
    expect((await relayThread(site, adminToken, await assertionHeader())).status).toBe(401);
  });

  test('R83 responds to malformed, repeated and oversized headers with 401, never 500', async () => {
    const subject = await assertionHeader();
    const authorizations: (string | string[])[] = [
      'Bearer %E0%A4',
      'Bearer',
      'Bearer ',
      'Bearer gthr_',
      `Bearer ${'a'.repeat(15_000)}`,
      'Basic Og==',
      `${token}`,
      'Bearer \xff\xfe',
      'Bearer \xe9\xff',
      `Bearer ${token} ${token}`,
      `Bearer ${token.slice(0, -1)}`,
      `Bearer "${token}"`,
      `bearer\t${token}`,
      [`Bearer ${token}`, `Bearer ${token}`],
    ];
    for (const authorization of authorizations) {
      const response = await sendRequest(`${site.url}/relay/threads/current`, {
        headers: { ...ACCEPT_JSON, ...subject, authorization },
      });
      expect([authorization, codeOf(response), ...statusAndChallenge(response)]).toEqual([
        authorization,
        'relay_token_invalid',
        401,
        'Bearer error="invalid_token"',
      ]);
    }
  });

  test('R84 responds the same to unknown, wrong, revoked and expired tokens', async () => {
    const revoked = await admin.createRelayToken();
    expect((await relayThread(site, revoked.token, await assertionHeader())).status).toBe(200);
    expect((await admin.call('DELETE', `/relay-tokens/${revoked.id}`)).status).toBe(204);
    const expired = await admin.createRelayToken({ expiresAt: new Date(Date.now() + 1_000).toISOString() });
    await until(async () => (await admin.call('GET', `/relay-tokens/${expired.id}`)).json.state === 'expired');
    const wrongSecret = createOpaqueToken('gthr_', tokenId).text;
    const unknown = createOpaqueToken('gthr_').text;

    const subject = await assertionHeader();
    const distinctResponses = new Set<string>();
    for (const text of [revoked.token, expired.token, wrongSecret, unknown, inventedToken()]) {
      const relayResponse = await relayThread(site, text, subject);
      const { instance: _, ...problem } = JSON.parse(relayResponse.body);
      const exchangeResponse = await exchange(site, text, {});
      distinctResponses.add(
        JSON.stringify({
          relay: [...statusAndChallenge(relayResponse), problem, Object.keys(relayResponse.headers).sort()],
          exchange: [
            ...statusAndChallenge(exchangeResponse),
            exchangeResponse.body,
            Object.keys(exchangeResponse.headers).sort(),
          ],
        }),
      );
    }
    expect([...distinctResponses]).toHaveLength(1);
  });

  test('a client that accepts HTML gets the refusal as a page', async () => {
    const response = await sendRequest(`${site.url}/relay/bin/45717360`, {
      headers: { ...ACCEPT_HTML, authorization: `Bearer ${inventedToken()}` },
    });
    expect([response.status, response.headers['content-type']]).toEqual([401, 'text/html; charset=utf-8']);
  });
});

test('R56 refuses the calls of services for a disabled user', async () => {
  const users = createUserStore({ store: storage.store, clock: Date.now });
  const { agent: secondUser } = await signIn(site, 'second@example.test');
  const { userId: id } = await sessionOf(site, secondUser);
  const subject = { 'gatehouse-user-assertion': await assertionOf(site, secondUser.cookies.header(site.url)) };
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
  const { token: auditedToken, id } = await admin.createRelayToken({ name: 'audited' });
  await relayThread(site, auditedToken, await assertionHeader());
  await relayThread(site, auditedToken, await assertionHeader());

  const readEntries = async () => {
    const { json } = await admin.call('GET', '/audit?limit=200');
    const items = json.items as { event: string; actor: { id?: string } }[];
    return items.filter(({ event, actor }) => event === 'relay.used' && actor.id === id);
  };
  await until(async () => (await readEntries()).length > 0);
  expect(await readEntries()).toMatchObject([{ userId, actor: { kind: 'relay_token', name: 'audited' } }]);
  const uses = storedUses();
  // Counts are written every two seconds, so the first call may be written before the second.
  const readCounts = async () => (await uses.hoursOf('token', id))[0]?.counts ?? [];
  await until(async () => (await readCounts())[0]?.count === 2);
  expect(await readCounts()).toEqual([{ scope: 'threads:read', result: 'succeeded', other: 'platform', count: 2 }]);

  const readService = async () => (await uses.servicesOf(userId, 'platform')).find((entry) => entry.id === id);
  await until(async () => (await readService())?.count === 2);
  expect(await readService()).toMatchObject({ name: 'audited', count: 2 });
  await uses.close();
});

test('stores the counts of calls right before the process stops', async () => {
  const { token: relayToken, id } = await admin.createRelayToken({ name: 'last call' });
  expect((await relayThread(site, relayToken, await assertionHeader())).status).toBe(200);
  await site.restart();
  const uses = storedUses();
  expect(await uses.hoursOf('token', id)).toMatchObject([{ counts: [{ result: 'succeeded', count: 1 }] }]);
  await uses.close();
});

test('R88 audits an invalid proof as a refusal that names the proof', async () => {
  const { token: relayToken, id } = await admin.createRelayToken({ name: 'guesser', acceptIdTokens: true });
  const forgedProof = `${(await assertionOf(site, cookie)).slice(0, -8)}AAAAAAAA`;
  expect((await relayThread(site, relayToken, { 'gatehouse-user-assertion': forgedProof })).status).toBe(403);
  for (const type of ['jwt', 'id_token']) {
    const proof = { subject_token: forgedProof, subject_token_type: `urn:ietf:params:oauth:token-type:${type}` };
    expect((await exchange(site, relayToken, { ...proof, audience: 'platform' })).status).toBe(400);
  }

  const readRefusals = async () => {
    const { json } = await admin.call('GET', `/audit?event=relay.refused&actor=${id}`);
    const items = json.items as { facts: { scope: string; rule: string } }[];
    return items.map(({ facts }) => `${facts.scope} ${facts.rule}`).sort();
  };
  await until(async () => (await readRefusals()).length >= 3);
  expect(await readRefusals()).toEqual([
    'threads:read userAssertion',
    'token:exchange idToken',
    'token:exchange userAssertion',
  ]);
});

test('R88 the audit page shows the users whose connections a service used, and the services that acted for a user', async () => {
  const { token: relayToken, id } = await admin.createRelayToken({ name: 'watched' });
  expect((await relayThread(site, relayToken, await assertionHeader())).status).toBe(200);

  const { agent: adminBrowser } = await signIn(site, 'admin@example.test');
  const tokenPage = await adminBrowser.get(`${site.url}/admin/relay-tokens/${id}`);
  expect(tokenPage.body).toContain(`href="/admin/audit?actor=${id}"`);

  const readAuditPage = async (query: string) => (await adminBrowser.get(`${site.url}/admin/audit?${query}`)).body;
  await until(async () => (await readAuditPage(`actor=${id}`)).includes('Relay used by a service'));
  expect(await readAuditPage(`actor=${id}`)).toContain(`href="?target=${userId}"`);
  expect(await readAuditPage(`target=${userId}`)).toMatch(new RegExp(`href="\\?actor=${id}"[^>]*><bdi>watched</bdi>`));
});

test('R84 limits guesses, and still accepts a valid token', async () => {
  // A limit counts by the minute, and a new minute may begin during the loop.
  let guesses = 0;
  while ((await relayThread(site, inventedToken(), {})).status !== 429 && guesses < 250) guesses += 1;
  const limited = await relayThread(site, inventedToken(), {});
  expect([codeOf(limited), limited.headers['ratelimit-policy']]).toEqual(['rate_limited', '"guess";q=100;w=60']);
  expect(Number(limited.headers['retry-after'])).toBeGreaterThan(0);
  expect((await relayThread(site, token, await assertionHeader())).status).toBe(200);
});
