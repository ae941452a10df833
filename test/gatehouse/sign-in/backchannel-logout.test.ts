/** R58: a provider ends sessions here with a valid logout token, and with nothing else. */

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
const now = () => Math.floor(Date.now() / 1000);
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

async function signedInAs(person: { sub: string; sid?: string }): Promise<UserAgent> {
  site.provider.signInAs(person);
  const { agent, signedIn } = await attempt(site, { path: '/sign-in?app=elsewhere' });
  expect(signedIn).toBe(true);
  return agent;
}

const VALID: [string, LogoutTokenChanges][] = [
  ['with subject and session', {}],
  ['with the session alone', { claims: { sub: undefined } }],
  ['with the subject alone', { claims: { sid: undefined } }],
  ['whose audience is a list of us alone', { claims: { aud: ['hostile-client_1'] } }],
  ['whose type is written out', { header: { typ: 'application/logout+jwt' } }],
  ['without a type', { header: { typ: undefined } }],
  ['typed JWT', { header: { typ: 'JWT' } }],
  ['of nine minutes ago', { claims: { iat: now() - 540 } }],
  ['of a clock that is ahead', { claims: { iat: now() + 20 } }],
  ['that has just expired by our clock', { claims: { exp: now() - 5 } }],
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
  ['another audience beside us', { claims: { aud: ['hostile-client_1', 'another-client'] } }],
  ['no time of issue', { claims: { iat: undefined } }],
  ['a time of issue in words', { claims: { iat: 'now' } }],
  ['more than ten minutes of age', { claims: { iat: now() - 700 } }],
  ['a time of issue to come', { claims: { iat: now() + 90 } }],
  ['an end that is past', { claims: { iat: now() - 300, exp: now() - 60 } }],
  ['no end', { claims: { exp: undefined } }],
  ['another authorized party', { claims: { azp: 'another-client' } }],
  ['an end in words', { claims: { exp: 'tomorrow' } }],
  ['a beginning to come', { claims: { nbf: now() + 90 } }],
  ['no jti', { claims: { jti: undefined } }],
  ['an empty jti', { claims: { jti: '' } }],
  ['a jti that is a number', { claims: { jti: 7 } }],
  ['a nonce', { claims: { nonce: 'n' } }],
  ['a nonce that is null', { claims: { nonce: null } }],
  ['no events', { claims: { events: undefined } }],
  ['another event', { claims: { events: { 'urn:other': {} } } }],
  ['an event without an object', { claims: { events: { [EVENT]: true } } }],
  ['an event that is a list', { claims: { events: { [EVENT]: [] } } }],
  ['events in words', { claims: { events: EVENT } }],
  ['events in a list', { claims: { events: [EVENT] } }],
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
    'the key of a stranger',
    {
      sign: async (claims, header, { keys }) =>
        signWith({ ...keys.rs256, ...(await generateKeyPair('RS256')) }, claims, header),
    },
  ],
  [
    'a key that it brings along',
    {
      sign: async (claims, header, { keys }) => {
        const stranger = await generateKeyPair('RS256', { extractable: true });
        const jwk = await crypto.subtle.exportKey('jwk', stranger.publicKey);
        return signWith({ ...keys.rs256, ...stranger }, claims, { ...header, jwk });
      },
    },
  ],
  ['a key that nobody knows', { header: { kid: 'nobody-knows' } }],
  ['a demand that nobody understands', { header: { crit: ['b64'], b64: true } }],
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
  test.each(VALID)('%s: ends the session at once', async (name, changes) => {
    // A user and session per test: an ID token from the second of a logout token does not begin a session.
    const agent = await signedInAs({ sub: `user ${name}`, sid: `session ${name}` });
    const response = await send(await site.provider.logoutToken(changes));
    expect([response.status, response.body, response.headers['cache-control']]).toEqual([200, '', 'no-store']);
    expect(response.headers['set-cookie']).toBeUndefined();
    expect(await isSignedIn(site, agent)).toBe(false);
  });

  describe('with one fault', () => {
    let agent: UserAgent;
    beforeAll(async () => {
      agent = await signedInAs(STEADY);
    });

    test.each(INVALID)('%s: is refused with 400, and the session stays', async (_name, changes) => {
      const token = await site.provider.logoutToken(changes);
      const response = await send(token);
      expect([response.status, response.headers['cache-control']]).toEqual([400, 'no-store']);
      const { error, error_description: description, ...rest } = JSON.parse(response.body);
      expect([error, description, rest]).toEqual(['invalid_request', expect.stringMatching(/^\S.{20,}\.$/), {}]);
      for (const part of token.split('.').filter((text) => text.length > 8)) expect(response.body).not.toContain(part);
      expect(await isSignedIn(site, agent)).toBe(true);
      expect(site.logs().join('')).not.toContain(token);
    });

    test('an issuer with a trailing slash, an ID token, or no token: is refused', async () => {
      const slash = await site.provider.logoutToken({ claims: { iss: `${site.provider.issuer}/` } });
      let idToken = '';
      site.provider.setModes({
        onIssued: (value) => {
          if (value.startsWith('ey')) idToken = value;
        },
      });
      await attempt(site, { path: '/sign-in?app=elsewhere' });
      expect(idToken.split('.')).toHaveLength(3);
      for (const token of [slash, idToken, 'a.b.c', '', 'x'.repeat(60_000), undefined]) {
        expect((await send(token)).status).toBe(400);
      }
      expect(await isSignedIn(site, agent)).toBe(true);
    });

    test('sent other than as one field of a small form: is refused', async () => {
      const url = `${site.url}/oauth/backchannel-logout/elsewhere`;
      const token = await site.provider.logoutToken();
      const doubled = `logout_token=${token}&logout_token=${token}`;
      const json = JSON.stringify({ logout_token: token });
      const statuses = await Promise.all([
        sendRequest(`${url}?logout_token=${token}`, { method: 'POST', headers: FORM_BODY, body: '' }),
        sendRequest(url, { method: 'POST', headers: FORM_BODY, body: doubled }),
        sendRequest(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: json }),
        sendRequest(url, { method: 'POST', headers: FORM_BODY, body: `logout_token=${token}&x=${'y'.repeat(70_000)}` }),
        sendRequest(`${url}?logout_token=${token}`),
        sendRequest(url, { method: 'PUT', headers: FORM_BODY, body: `logout_token=${token}` }),
      ]);
      expect(statuses.map(({ status }) => status)).toEqual([400, 400, 400, 413, 405, 405]);
      expect(statuses[4]?.headers.allow).toBe('POST');
      for (const { headers } of statuses) expect(headers['cache-control']).toBe('no-store');
      expect(await isSignedIn(site, agent)).toBe(true);
    });

    test('sent for an unknown app, a connect-only app, or another client: is refused', async () => {
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

describe('R58 which sessions end', () => {
  test('ends the sessions of the named provider session in every browser, and no others', async () => {
    const [one, same, otherSession, otherUser] = [
      await signedInAs({ sub: 'ada', sid: 'one' }),
      await signedInAs({ sub: 'ada', sid: 'one' }),
      await signedInAs({ sub: 'ada', sid: 'two' }),
      await signedInAs({ sub: 'ben', sid: 'three' }),
    ];
    site.provider.signInAs({ sub: 'ada', sid: 'one' });
    expect((await send(await site.provider.logoutToken())).status).toBe(200);
    const alive = await Promise.all([one, same, otherSession, otherUser].map((agent) => isSignedIn(site, agent)));
    expect(alive).toEqual([false, false, true, true]);
  });

  test('ends all sessions of the subject if the token names no provider session', async () => {
    const mine = [await signedInAs({ sub: 'cy', sid: 'four' }), await signedInAs({ sub: 'cy' })];
    const other = await signedInAs({ sub: 'dot', sid: 'five' });
    site.provider.signInAs({ sub: 'cy' });
    expect((await send(await site.provider.logoutToken())).status).toBe(200);
    const alive = await Promise.all([...mine, other].map((agent) => isSignedIn(site, agent)));
    expect(alive).toEqual([false, false, true]);
  });

  test('accepts an unknown session or subject', async () => {
    expect((await send(await site.provider.logoutToken({ claims: { sub: 'nobody', sid: 'none' } }))).status).toBe(200);
    expect((await send(await site.provider.logoutToken({ claims: { sub: 'nobody', sid: undefined } }))).status).toBe(
      200,
    );
  });

  test('R62 a sign-in that completes after the logout token begins no session, and says why', async () => {
    site.provider.signInAs({ sub: 'eve', sid: 'slow' });
    let before = '';
    // The provider ends the session between issuing the ID token and sending it.
    site.provider.setModes({
      sign: async (claims, { keys }) => {
        before = String((await send(await site.provider.logoutToken())).status);
        return signWith(keys.rs256, claims);
      },
    });
    const { page, signedIn, agent } = await attempt(site, { path: '/sign-in?app=elsewhere' });
    expect([before, signedIn, page.status]).toEqual(['200', false, 401]);
    expect(page.body).toContain('Your provider signed you out while you were signing in here.');
    expect(agent.cookies.get(sessionCookieName(site.url))).toBeUndefined();
  });

  test('logs and audits the number of sessions, but never the token', async () => {
    const agent = await signedInAs({ sub: 'fay', sid: 'six' });
    const token = await site.provider.logoutToken();
    const ended = await send(token);
    expect(await isSignedIn(site, agent)).toBe(false);
    const line = JSON.parse(site.logs().findLast((text) => text.includes('sign-out by the provider')) ?? '{}');
    expect(line).toMatchObject({ app: 'elsewhere', outcome: 'ended', sessions: 1 });
    const refused = await send(token);
    expect(refused.status).toBe(400);
    const ids = [ended, refused].map(({ headers }) => String(headers['x-request-id']));
    const audited = () =>
      site
        .logs()
        .filter((text) => text.includes('"audit":') && ids.some((id) => text.includes(id)))
        .map((text) => JSON.parse(text).audit);
    const [target, address] = [{ kind: 'connected_app', id: 'elsewhere' }, '127.0.0.1'];
    await expect.poll(audited).toMatchObject([
      { event: 'session.ended_by_provider', target, address },
      { event: 'session.end_refused', target, address },
    ]);
    expect(site.logs().join('')).not.toContain(token);
  });
});

describe('R58 used once', () => {
  test('refuses a used token, even at the same time and after a restart', async () => {
    await signedInAs({ sub: 'gus', sid: 'seven' });
    const token = await site.provider.logoutToken({ claims: { iat: now() - 30 } });
    const together = await Promise.all(Array.from({ length: 10 }, () => send(token)));
    expect(together.filter(({ status }) => status === 200)).toHaveLength(1);
    const later = await signedInAs({ sub: 'gus', sid: 'seven' });
    expect((await send(token)).status).toBe(400);
    await site.restart();
    const afterRestart = await send(token);
    expect([afterRestart.status, JSON.parse(afterRestart.body).error_description]).toEqual([
      400,
      'The logout token was used before.',
    ]);
    expect(await isSignedIn(site, later)).toBe(true);
  });

  test.each([ACCEPT_JSON, ACCEPT_HTML])(
    'R65 responds with 503 while the storage is unavailable, and accepts the same token afterwards',
    async (accept) => {
      const agent = await signedInAs({ sub: 'hal', sid: `eight-${accept.accept.length}` });
      const token = await site.provider.logoutToken();
      const heal = breakStore();
      const refused = await send(token, 'elsewhere', accept).finally(heal);
      expect(refused.status).toBe(503);
      expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
      expect(await isSignedIn(site, agent)).toBe(true);
      expect((await send(token)).status).toBe(200);
      expect(await isSignedIn(site, agent)).toBe(false);
    },
  );

  test('responds with 503 while the keys are unavailable, and accepts the same token afterwards', async () => {
    const agent = await signedInAs({ sub: 'ivy', sid: 'nine' });
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
    const agent = await signedInAs({ sub: 'kim', sid: 'eleven' });
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
    const agent = await signedInAs({ sub: 'joe', sid: 'ten' });
    const cookie = agent.cookies.header(site.url);
    expect((await send(undefined, 'elsewhere', { ...ACCEPT_JSON, cookie })).status).toBe(400);
    expect((await getJson(agent, `${site.url}/session`)).json.signedIn).toBe(true);
    expect((await send(await site.provider.logoutToken(), 'elsewhere', { ...ACCEPT_JSON, cookie })).status).toBe(200);
    expect(await isSignedIn(site, agent)).toBe(false);
  });
});

test('R137 a valid logout token ends its sessions beside any number of refused ones of the same address', async () => {
  const agent = await signedInAs({ sub: 'ivy', sid: 'nine' });
  const refusedToken = await site.provider.logoutToken({ claims: { aud: 'another-client' } });
  const validToken = await site.provider.logoutToken();
  const linesOfSignOuts = () => site.logs().filter((line) => line.includes('sign-out by the provider')).length;
  while ((await send(refusedToken)).status !== 429);
  const linesBefore = linesOfSignOuts();
  const statuses = [(await send(refusedToken)).status, (await send(undefined)).status];
  expect([statuses, linesOfSignOuts() - linesBefore]).toEqual([[429, 429], 0]);
  expect((await send(validToken)).status).toBe(200);
  expect(await isSignedIn(site, agent)).toBe(false);
});
