/** R58: a provider ends sessions with a valid logout token, and with nothing else. */

import { exportSPKI, generateKeyPair, SignJWT } from 'jose';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { sessionCookieName } from '../../../src/shared/sessions/browser-sessions.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import { signWith } from '../../support/hostile-modes.ts';
import type { LogoutTokenChanges } from '../../support/hostile-provider.ts';
import { ACCEPT_HTML, ACCEPT_JSON, FORM_BODY, sendRequest } from '../../support/send-request.ts';
import { breakStore } from '../../support/store-fault.ts';
import { attempt, type HostileSite, isSignedIn, startHostileSite } from './attempt.ts';

const EVENT = 'http://schemas.openid.net/event/backchannel-logout';
const STEADY = { sub: 'steadfast', sid: 'steady' };
const nowSeconds = () => Math.floor(Date.now() / 1000);
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

let site: HostileSite;
beforeAll(async () => {
  site = await startHostileSite({
    apps: (provider, url) => [
      provider.app(url),
      provider.app(url, { id: 'connect-only', signIn: undefined }),
      provider.app(url, { id: 'other-client', clientId: 'another-client' }),
    ],
  });
});
afterAll(() => site.close());
beforeEach(() => {
  site.provider.reset();
  site.provider.signInAs(STEADY);
});

const send = (logoutToken: string | undefined, app = 'elsewhere', headers: Record<string, string> = ACCEPT_JSON) =>
  sendRequest(`${site.url}/oauth/backchannel-logout/${app}`, {
    method: 'POST',
    headers: { ...FORM_BODY, ...headers },
    body: logoutToken === undefined ? '' : new URLSearchParams({ logout_token: logoutToken }).toString(),
  });

async function signInAs(user: { sub: string; sid?: string }): Promise<UserAgent> {
  site.provider.signInAs(user);
  const { agent, signedIn } = await attempt(site, { path: '/sign-in?app=elsewhere' });
  expect(signedIn).toBe(true);
  return agent;
}

const VALID: [string, LogoutTokenChanges][] = [
  ['with subject and session', {}],
  ['with only the session', { claims: { sub: undefined } }],
  ['with only the subject', { claims: { sid: undefined } }],
  ['whose audience is a list of only our client', { claims: { aud: ['hostile-client_1'] } }],
  ['whose type has its full media type', { header: { typ: 'application/logout+jwt' } }],
  ['without a type', { header: { typ: undefined } }],
  ['of type JWT', { header: { typ: 'JWT' } }],
  ['of nine minutes ago', { claims: { iat: nowSeconds() - 540 } }],
  ['of a clock that is ahead', { claims: { iat: nowSeconds() + 20 } }],
  ['that has just expired by our clock', { claims: { exp: nowSeconds() - 5 } }],
  ['that names other events too', { claims: { events: { [EVENT]: {}, 'urn:other': {} } } }],
  ['signed with ES256', { sign: (claims, header, { keys }) => signWith(keys.es256, claims, header) }],
  ['signed with EdDSA', { sign: (claims, header, { keys }) => signWith(keys.eddsa, claims, header) }],
];

const INVALID: [string, LogoutTokenChanges][] = [
  ['the type of an access token', { header: { typ: 'at+jwt' } }],
  ['another issuer', { claims: { iss: 'https://elsewhere.example.com' } }],
  ['no issuer', { claims: { iss: undefined } }],
  ['another audience', { claims: { aud: 'another-client' } }],
  ['no audience', { claims: { aud: undefined } }],
  ['an empty audience', { claims: { aud: [] } }],
  ['another audience beside our client', { claims: { aud: ['hostile-client_1', 'another-client'] } }],
  ['no time of issue', { claims: { iat: undefined } }],
  ['a time of issue that is no number', { claims: { iat: 'now' } }],
  ['more than ten minutes of age', { claims: { iat: nowSeconds() - 700 } }],
  ['a time of issue in the future', { claims: { iat: nowSeconds() + 90 } }],
  ['an expiry in the past', { claims: { iat: nowSeconds() - 300, exp: nowSeconds() - 60 } }],
  ['no expiry', { claims: { exp: undefined } }],
  ['another authorized party', { claims: { azp: 'another-client' } }],
  ['an expiry that is no number', { claims: { exp: 'tomorrow' } }],
  ['a time before which it is not valid', { claims: { nbf: nowSeconds() + 90 } }],
  ['no jti', { claims: { jti: undefined } }],
  ['an empty jti', { claims: { jti: '' } }],
  ['a jti that is a number', { claims: { jti: 7 } }],
  ['a nonce', { claims: { nonce: 'n' } }],
  ['a nonce that is null', { claims: { nonce: null } }],
  ['no events', { claims: { events: undefined } }],
  ['another event', { claims: { events: { 'urn:other': {} } } }],
  ['an event without an object', { claims: { events: { [EVENT]: true } } }],
  ['an event that is a list', { claims: { events: { [EVENT]: [] } } }],
  ['events that are a text', { claims: { events: EVENT } }],
  ['events that are a list', { claims: { events: [EVENT] } }],
  ['neither subject nor session', { claims: { sub: undefined, sid: undefined } }],
  ['an empty session', { claims: { sid: '' } }],
  ['a session that is a number', { claims: { sid: 7 } }],
  ['a subject that is a number', { claims: { sub: 7, sid: undefined } }],
  ['an empty subject', { claims: { sub: '' } }],
  ['a subject of 256 characters', { claims: { sub: 'x'.repeat(256) } }],
  ['a subject with a NUL', { claims: { sub: 'a\0b' } }],
  ['a subject that is null', { claims: { sub: null } }],
  ['no algorithm', { sign: async (claims, header) => `${encode({ ...header, alg: 'none' })}.${encode(claims)}.` }],
  [
    'no signature',
    {
      sign: async (claims, header, { keys }) => (await signWith(keys.rs256, claims, header)).replace(/[^.]+$/, ''),
    },
  ],
  [
    'the client secret as key',
    {
      sign: (claims, header, { clientSecret }) =>
        new SignJWT(claims)
          .setProtectedHeader({ ...header, alg: 'HS256' })
          .sign(new TextEncoder().encode(clientSecret)),
    },
  ],
  [
    'the public key as secret',
    {
      sign: async (claims, header, { keys }) =>
        new SignJWT(claims)
          .setProtectedHeader({ ...header, alg: 'HS256', kid: keys.rs256.kid })
          .sign(new TextEncoder().encode(await exportSPKI(keys.rs256.publicKey))),
    },
  ],
  [
    'a signature of an unknown key under the ID of a known one',
    {
      sign: async (claims, header, { keys }) =>
        signWith({ ...keys.rs256, ...(await generateKeyPair('RS256')) }, claims, header),
    },
  ],
  [
    'the public key of its own signature',
    {
      sign: async (claims, header, { keys }) => {
        const unknownKeys = await generateKeyPair('RS256', { extractable: true });
        const jwk = await crypto.subtle.exportKey('jwk', unknownKeys.publicKey);
        return signWith({ ...keys.rs256, ...unknownKeys }, claims, { ...header, jwk });
      },
    },
  ],
  ['an unknown key ID', { header: { kid: 'unknown' } }],
  ['a critical header parameter', { header: { crit: ['b64'], b64: true } }],
  [
    'claims that were changed after signing',
    {
      sign: async (claims, header, { keys }) => {
        const [head, , signature] = (await signWith(keys.rs256, { ...claims, sid: 'other' }, header)).split('.');
        return `${head}.${encode(claims)}.${signature}`;
      },
    },
  ],
];

describe('R58 a logout token', () => {
  test.each(VALID)('%s ends the session at once', async (name, changes) => {
    // Each test has its own user, since an ID token of the same second as a logout token begins no session.
    const agent = await signInAs({ sub: `user ${name}`, sid: `session ${name}` });
    const response = await send(await site.provider.logoutToken(changes));
    expect([response.status, response.body, response.headers['cache-control']]).toEqual([200, '', 'no-store']);
    expect(response.headers['set-cookie']).toBeUndefined();
    expect(await isSignedIn(site, agent)).toBe(false);
  });

  describe('sent while a user is signed in', () => {
    let agent: UserAgent;
    beforeAll(async () => {
      agent = await signInAs(STEADY);
    });

    test.each(INVALID)('with %s is refused with 400, and the session stays', async (_name, changes) => {
      const token = await site.provider.logoutToken(changes);
      const response = await send(token);
      expect([response.status, response.headers['cache-control']]).toEqual([400, 'no-store']);
      expect(JSON.parse(response.body)).toEqual({
        error: 'invalid_request',
        error_description: expect.stringMatching(/^\S.{20,}\.$/),
      });
      const parts = token.split('.').filter((part) => part.length > 8);
      for (const part of parts) expect(response.body).not.toContain(part);
      expect(await isSignedIn(site, agent)).toBe(true);
      expect(site.logs().join('')).not.toContain(token);
    });

    test('whose issuer has a trailing slash is refused, and so is an ID token or no token', async () => {
      const tokenWithSlash = await site.provider.logoutToken({ claims: { iss: `${site.provider.issuer}/` } });
      let idToken = '';
      site.provider.setModes({
        onIssued: (value) => {
          if (value.startsWith('ey')) idToken = value;
        },
      });
      await attempt(site, { path: '/sign-in?app=elsewhere' });
      expect(idToken.split('.')).toHaveLength(3);
      for (const token of [tokenWithSlash, idToken, 'a.b.c', '', 'x'.repeat(60_000), undefined]) {
        expect((await send(token)).status).toBe(400);
      }
      expect(await isSignedIn(site, agent)).toBe(true);
    });

    test('is refused unless it is sent as one field of a small form', async () => {
      const url = `${site.url}/oauth/backchannel-logout/elsewhere`;
      const token = await site.provider.logoutToken();
      const formWithTwo = `logout_token=${token}&logout_token=${token}`;
      const json = JSON.stringify({ logout_token: token });

      const responses = await Promise.all([
        sendRequest(`${url}?logout_token=${token}`, { method: 'POST', headers: FORM_BODY, body: '' }),
        sendRequest(url, { method: 'POST', headers: FORM_BODY, body: formWithTwo }),
        sendRequest(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: json }),
        sendRequest(url, { method: 'POST', headers: FORM_BODY, body: `logout_token=${token}&x=${'y'.repeat(70_000)}` }),
        sendRequest(`${url}?logout_token=${token}`),
        sendRequest(url, { method: 'PUT', headers: FORM_BODY, body: `logout_token=${token}` }),
      ]);
      expect(responses.map(({ status }) => status)).toEqual([400, 400, 400, 413, 405, 405]);
      expect(responses[4]?.headers.allow).toBe('POST');
      for (const { headers } of responses) expect(headers['cache-control']).toBe('no-store');
      expect(await isSignedIn(site, agent)).toBe(true);
    });

    test('is refused for an unknown app, a connect-only app, or another client', async () => {
      const token = await site.provider.logoutToken();
      const responses = await Promise.all(['none', 'connect-only', 'other-client'].map((app) => send(token, app)));
      expect(responses.map(({ status }) => status)).toEqual([404, 404, 400]);
      const detail = 'There is no sign-in app with this id.';
      for (const { body } of responses.slice(0, 2))
        expect(JSON.parse(body)).toMatchObject({ code: 'not_found', detail });
      const reason = JSON.parse(responses[2]?.body ?? '').error_description;
      const lines = site.logs().map((line) => JSON.parse(line));
      expect(lines).toContainEqual(expect.objectContaining({ app: 'other-client', outcome: 'refused', reason }));
      expect(await isSignedIn(site, agent)).toBe(true);
      // The token itself is valid.
      expect((await send(token)).status).toBe(200);
      expect(await isSignedIn(site, agent)).toBe(false);
    });
  });
});

describe('R58 a valid logout token', () => {
  test('ends the sessions of the named provider session in every browser, and no others', async () => {
    const firstBrowser = await signInAs({ sub: 'ada', sid: 'one' });
    const secondBrowser = await signInAs({ sub: 'ada', sid: 'one' });
    const otherSession = await signInAs({ sub: 'ada', sid: 'two' });
    const otherUser = await signInAs({ sub: 'ben', sid: 'three' });

    site.provider.signInAs({ sub: 'ada', sid: 'one' });
    expect((await send(await site.provider.logoutToken())).status).toBe(200);
    const browsers = [firstBrowser, secondBrowser, otherSession, otherUser];
    const signedIn = await Promise.all(browsers.map((agent) => isSignedIn(site, agent)));
    expect(signedIn).toEqual([false, false, true, true]);
  });

  test('ends all sessions of the subject if the token names no provider session', async () => {
    const withProviderSession = await signInAs({ sub: 'cy', sid: 'four' });
    const withoutProviderSession = await signInAs({ sub: 'cy' });
    const otherUser = await signInAs({ sub: 'dot', sid: 'five' });
    site.provider.signInAs({ sub: 'cy' });
    expect((await send(await site.provider.logoutToken())).status).toBe(200);
    const browsers = [withProviderSession, withoutProviderSession, otherUser];
    const signedIn = await Promise.all(browsers.map((agent) => isSignedIn(site, agent)));
    expect(signedIn).toEqual([false, false, true]);
  });

  test('is accepted for an unknown session or subject', async () => {
    const forSession = await site.provider.logoutToken({ claims: { sub: 'nobody', sid: 'none' } });
    const forSubject = await site.provider.logoutToken({ claims: { sub: 'nobody', sid: undefined } });
    expect((await send(forSession)).status).toBe(200);
    expect((await send(forSubject)).status).toBe(200);
  });

  test('R62 keeps a sign-in that completes after it from beginning a session, and the page says why', async () => {
    site.provider.signInAs({ sub: 'eve', sid: 'slow' });
    let logoutStatus = 0;
    // The provider ends the session between issuing the ID token and sending it.
    site.provider.setModes({
      sign: async (claims, { keys }) => {
        const { status } = await send(await site.provider.logoutToken());
        logoutStatus = status;
        return signWith(keys.rs256, claims);
      },
    });

    const { page, signedIn, agent } = await attempt(site, { path: '/sign-in?app=elsewhere' });
    expect([logoutStatus, signedIn, page.status]).toEqual([200, false, 401]);
    expect(page.body).toContain('Your provider signed you out while you were signing in here.');
    expect(agent.cookies.get(sessionCookieName(site.url))).toBeUndefined();
  });

  test('is logged with the number of sessions, and audited, but never written to the log', async () => {
    const agent = await signInAs({ sub: 'fay', sid: 'six' });
    const token = await site.provider.logoutToken();

    const accepted = await send(token);
    expect(await isSignedIn(site, agent)).toBe(false);
    const line = JSON.parse(site.logs().findLast((text) => text.includes('sign-out by the provider')) ?? '{}');
    expect(line).toMatchObject({ app: 'elsewhere', outcome: 'ended', sessions: 1 });
    const refused = await send(token);
    expect(refused.status).toBe(400);
    const requestIds = [accepted, refused].map(({ headers }) => String(headers['x-request-id']));
    const readAuditEntries = () =>
      site
        .logs()
        .filter((text) => text.includes('"audit":') && requestIds.some((id) => text.includes(id)))
        .map((text) => JSON.parse(text).audit);
    const target = { kind: 'connected_app', id: 'elsewhere' };
    const address = '127.0.0.1';
    await expect.poll(readAuditEntries).toMatchObject([
      { event: 'session.ended_by_provider', target, address },
      { event: 'session.end_refused', target, address },
    ]);
    expect(site.logs().join('')).not.toContain(token);
  });
});

describe('R58 the endpoint for logout tokens', () => {
  test('accepts a token once, even if it is sent ten times at once, again later, and after a restart', async () => {
    await signInAs({ sub: 'gus', sid: 'seven' });
    const token = await site.provider.logoutToken({ claims: { iat: nowSeconds() - 30 } });

    const responses = await Promise.all(Array.from({ length: 10 }, () => send(token)));
    expect(responses.filter(({ status }) => status === 200)).toHaveLength(1);

    const agent = await signInAs({ sub: 'gus', sid: 'seven' });
    expect((await send(token)).status).toBe(400);

    await site.restart();
    const afterRestart = await send(token);
    expect(afterRestart.status).toBe(400);
    expect(JSON.parse(afterRestart.body).error_description).toBe('The logout token was used before.');
    expect(await isSignedIn(site, agent)).toBe(true);
  });

  test.each([ACCEPT_JSON, ACCEPT_HTML])(
    'R65 responds with 503 while the storage is unavailable, and accepts the same token afterwards',
    async (accept) => {
      const agent = await signInAs({ sub: 'hal', sid: `eight-${accept.accept.length}` });
      const token = await site.provider.logoutToken();

      const repairStore = breakStore();
      const refused = await send(token, 'elsewhere', accept).finally(repairStore);
      expect(refused.status).toBe(503);
      expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
      expect(await isSignedIn(site, agent)).toBe(true);
      expect((await send(token)).status).toBe(200);
      expect(await isSignedIn(site, agent)).toBe(false);
    },
  );

  test('responds with 503 while the keys are unavailable, and accepts the same token afterwards', async () => {
    const agent = await signInAs({ sub: 'ivy', sid: 'nine' });
    const token = await site.provider.logoutToken();
    // The new process has not loaded the provider's keys.
    await site.restart();
    site.provider.setModes('jwks-status-500');

    const refused = await send(token);
    const detail = 'The keys that verify the logout token cannot be read now.';
    expect([refused.status, JSON.parse(refused.body)]).toMatchObject([503, { code: 'provider_unavailable', detail }]);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    const line = JSON.parse(site.logs().findLast((text) => text.includes('logout token not verifiable: ')) ?? '{}');
    expect(JSON.stringify(line)).toContain(`"host":"${new URL(site.provider.issuer).host}"`);
    expect(await isSignedIn(site, agent)).toBe(true);

    site.provider.setModes();
    await site.restart();
    expect((await send(token)).status).toBe(200);
    expect(await isSignedIn(site, agent)).toBe(false);
  });

  test('refuses an algorithm that the provider’s metadata does not list', async () => {
    const agent = await signInAs({ sub: 'kim', sid: 'eleven' });
    site.provider.setModes({
      metadata: (metadata) => ({ ...metadata, id_token_signing_alg_values_supported: ['ES256'] }),
    });
    await site.restart();
    try {
      expect((await send(await site.provider.logoutToken())).status).toBe(400);
      expect(await isSignedIn(site, agent)).toBe(true);
      const listed = await site.provider.logoutToken({
        sign: (claims, header, { keys }) => signWith(keys.es256, claims, header),
      });
      expect((await send(listed)).status).toBe(200);
      expect(await isSignedIn(site, agent)).toBe(false);
    } finally {
      site.provider.setModes();
      await site.restart();
    }
  });

  test('ignores cookies: a browser session neither authorizes the request nor requires a CSRF token', async () => {
    const agent = await signInAs({ sub: 'joe', sid: 'ten' });
    const cookie = agent.cookies.header(site.url);
    expect((await send(undefined, 'elsewhere', { ...ACCEPT_JSON, cookie })).status).toBe(400);
    expect((await getJson(agent, `${site.url}/session`)).json.signedIn).toBe(true);
    expect((await send(await site.provider.logoutToken(), 'elsewhere', { ...ACCEPT_JSON, cookie })).status).toBe(200);
    expect(await isSignedIn(site, agent)).toBe(false);
  });
});

test('R137 a valid logout token ends its sessions beside any number of refused ones of the same address', async () => {
  const agent = await signInAs({ sub: 'ivy', sid: 'nine' });
  const refusedToken = await site.provider.logoutToken({ claims: { aud: 'another-client' } });
  const validToken = await site.provider.logoutToken();
  const countSignOutLines = () => site.logs().filter((line) => line.includes('sign-out by the provider')).length;
  while ((await send(refusedToken)).status !== 429);

  const linesBefore = countSignOutLines();
  const statuses = [(await send(refusedToken)).status, (await send(undefined)).status];
  expect([statuses, countSignOutLines() - linesBefore]).toEqual([[429, 429], 0]);

  expect((await send(validToken)).status).toBe(200);
  expect(await isSignedIn(site, agent)).toBe(false);
});
