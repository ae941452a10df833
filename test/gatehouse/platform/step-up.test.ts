/** A platform demands a stronger or newer sign-in (RFC 9470, claims challenges), and the user meets the demand. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createUserAgent, type Page, type UserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import type { Mode } from '../../support/hostile-modes.ts';
import { JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { bearer, createAdministrator, relayThread } from '../relay/service.ts';
import { attempt, csrfTokenOf, type HostileSite, startHostileSite, textOf } from '../sign-in/attempt.ts';

const STEP_UP = 'Bearer error="insufficient_user_authentication", acr_values="urn:acr:mfa"';
const now = () => Math.floor(Date.now() / 1000);

let site: HostileSite;
let storage: StorageAccess;
let platform: Server;
/** The platform's challenge for a token; without one it accepts the token. */
let challengeFor: (token: string) => string | undefined | Promise<string>;
let refusalStatus: number;
/** Headers with the rate limit of the platform. */
let limits: Record<string, string>;
let calls: string[];
let agent: UserAgent;
let userId: string;

beforeAll(async () => {
  platform = createServer(async (req, res) => {
    const token = req.headers.authorization?.replace('Bearer ', '') ?? '';
    calls.push(token);
    const challenge = await challengeFor(token);
    if (challenge === undefined) return void res.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    const headers = { 'www-authenticate': challenge, 'content-type': 'application/json', ...limits };
    res.writeHead(refusalStatus, headers).end('{}');
  }).listen(0, '127.0.0.1');
  await once(platform, 'listening');
  const apiBaseUrl = `http://127.0.0.1:${(platform.address() as AddressInfo).port}/api`;
  site = await startHostileSite({
    apps: (provider, url) => [
      provider.app(url, {
        apiBaseUrl,
        parameters: { audience: 'reports' },
        routes: [{ name: 'send', method: 'POST', path: '/1/messages' }],
      }),
      provider.app(url, { id: 'other', apiBaseUrl }),
    ],
    env: { ADMIN_APP: 'elsewhere' },
  });
  storage = await openStorageOf(site);
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
  platform?.close();
});
beforeEach(async () => {
  calls = [];
  challengeFor = () => undefined;
  refusalStatus = 401;
  limits = {};
  ({ agent } = await attempt(site, { path: '/sign-in?app=elsewhere' }));
  ({ userId } = await sessionOf(site, agent));
  // The start page has read the thread.
  calls.length = 0;
  site.provider.hits.length = 0;
});
afterEach(async () => {
  // Each test begins without a demand.
  const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
  await agent.request(`${site.url}/connections/elsewhere/disconnect`, { method: 'POST', body });
  site.provider.reset();
  site.provider.signInAs({ sub: 'user-1', name: 'Ada Quill', email: 'ada@example.test' });
});

const readThread = () => getJson(agent, `${site.url}/threads/current?app=elsewhere`);
const connectionOf = async () => {
  const { json } = await getJson(agent, `${site.url}/connections`);
  return (json.items as { app: string; stepUpRequired: boolean }[]).find(({ app }) => app === 'elsewhere');
};
/** Connects again as the page of the connection does, and goes to the provider and back. */
async function reconnect(fields: Record<string, string> = {}, follow = true): Promise<Page> {
  const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent), ...fields });
  return agent.request(`${site.url}/connections/elsewhere`, { method: 'POST', body, follow });
}
const authorizationParameters = async (fields?: Record<string, string>) => {
  const { headers } = await reconnect(fields, false);
  return Object.fromEntries(new URL(headers.get('location') ?? '').searchParams);
};
/** Makes the platform demand this of the present token. */
async function demand(challenge: string): Promise<void> {
  const { accessToken } = await storage.readGrant(userId, 'elsewhere');
  challengeFor = (token) => (token === accessToken ? challenge : undefined);
  expect((await readThread()).json.code).toBe('step_up_required');
}
const idTokenWith = (claims: object): Mode => ({ claims: (valid) => ({ ...valid, ...claims }) });

describe('R145 a demand', () => {
  const ACRS = '{"access_token":{"acrs":{"essential":true,"value":"c1"}}}';
  test.each<[string, number, string, Record<string, string>]>([
    ['a stronger sign-in', 401, STEP_UP, { acr_values: 'urn:acr:mfa' }],
    [
      'a newer sign-in',
      403,
      'Bearer realm="a, b", error="insufficient_user_authentication", max_age="120"',
      { max_age: '120' },
    ],
    [
      'both, in another challenge than the first',
      401,
      'Negotiate, DPoP algs="ES256", error=insufficient_user_authentication, acr_values="a b", max_age=0',
      { acr_values: 'a b', max_age: '0' },
    ],
    ['another sign-in', 401, 'Bearer error="insufficient_user_authentication"', { max_age: '0' }],
    [
      'claims',
      401,
      `Bearer realm="", error="insufficient_claims", claims="${Buffer.from(ACRS).toString('base64')}"`,
      { claims: ACRS },
    ],
  ])('of %s ends in step_up_required, and the next sign-in asks for it', async (_name, status, challenge, asked) => {
    refusalStatus = status;
    challengeFor = () => challenge;
    const { status: received, json, headers } = await readThread();
    expect([received, json.code, json.connectUrl]).toEqual([
      403,
      'step_up_required',
      `${site.url}/connections/elsewhere`,
    ]);
    expect(headers.get('proxy-status')).toBe(`gatehouse; received-status=${status}`);
    // A refresh does not change how the user signed in.
    expect([calls.length, site.provider.hitsOf('refresh').length]).toEqual([1, 0]);
    expect((await connectionOf())?.stepUpRequired).toBe(true);

    const parameters = await authorizationParameters();
    expect(parameters).toMatchObject({ ...asked, audience: 'reports' });
    const names = ['acr_values', 'max_age', 'claims'];
    expect(Object.keys(parameters).filter((name) => names.includes(name))).toEqual(Object.keys(asked));
    // Nothing of it is in a response, an URL of Gatehouse, the log, or readable in the storage.
    const [value = ''] = Object.values(asked).filter((text) => text.length > 3);
    const page = await agent.get(`${site.url}/threads/current?app=elsewhere`);
    const texts = JSON.stringify(json) + page.body + page.url + site.logs().join('');
    if (value !== '') expect(texts).not.toContain(value);
  });

  test('is stored sealed, with the grant and the pending request', async () => {
    await demand(STEP_UP);
    await reconnect({}, false);
    for await (const records of storage.store.walk()) expect(JSON.stringify(records)).not.toContain('urn:acr');
  });

  test('is stored once, however often it comes', async () => {
    await demand(STEP_UP);
    const before = await storage.grants.loadStored(userId, 'elsewhere');
    for (let n = 0; n < 3; n += 1) await readThread();
    expect((await storage.grants.loadStored(userId, 'elsewhere'))?.version).toBe(before?.version);
  });

  test('is stored by the call that receives it, although the access token was refreshed meanwhile', async () => {
    challengeFor = async () => {
      await storage.changeGrant(userId, () => ({ accessToken: 'refreshed meanwhile' }), 'elsewhere');
      return STEP_UP;
    };
    expect((await readThread()).json.code).toBe('step_up_required');
    expect(calls).toHaveLength(1);
    expect((await connectionOf())?.stepUpRequired).toBe(true);
    expect(await authorizationParameters()).toMatchObject({ acr_values: 'urn:acr:mfa' });
  });

  test('of a token from before the last consent is not stored, since the newer sign-in may meet it', async () => {
    challengeFor = async () => {
      const consent = ({ consentedAt }: { consentedAt: number }) => ({ consentedAt: consentedAt + 1 });
      await storage.changeGrant(userId, consent, 'elsewhere');
      return STEP_UP;
    };
    expect((await readThread()).json.code).toBe('step_up_required');
    expect((await connectionOf())?.stepUpRequired).toBe(false);
  });

  test.each([
    ['too long', `Bearer error="insufficient_user_authentication", acr_values="${'a'.repeat(501)}"`],
    ['not printable', 'Bearer error="insufficient_user_authentication", acr_values="a\tb"'],
    ['of a negative age', 'Bearer error="insufficient_user_authentication", max_age="-5"'],
    ['of claims that are no JSON', 'Bearer error="insufficient_claims", claims="bm90IEpTT04="'],
  ])('%s is refused as that, and asks for nothing', async (_name, challenge) => {
    refusalStatus = 403;
    challengeFor = () => challenge;
    expect(await readThread()).toMatchObject({ status: 502, json: { code: 'platform_error' } });
    expect((await connectionOf())?.stepUpRequired).toBe(false);
    expect(await authorizationParameters()).not.toHaveProperty('acr_values');
  });

  test('R3 is not added to or replaced by what a request sends', async () => {
    await demand(STEP_UP);
    const fields = { acr_values: 'pwd', max_age: '99999', claims: '{}', demand: 'none', login_hint: 'ada' };
    const { status } = await reconnect(fields, false);
    // Unknown fields are refused, as for every form.
    if (status === 303) expect(await authorizationParameters(fields)).toMatchObject({ acr_values: 'urn:acr:mfa' });
    else expect(status).toBe(400);
    for (const prompt of ['login', 'select_account']) {
      const parameters = await authorizationParameters({ prompt, login_hint: 'ada' });
      expect(parameters).toMatchObject({ acr_values: 'urn:acr:mfa', login_hint: 'ada' });
    }
  });
});

describe('R145 a sign-in', () => {
  test('that meets the demand drops it, and the platform accepts the new token', async () => {
    await demand(`${STEP_UP}, max_age="60"`);
    site.provider.setModes(idTokenWith({ acr: 'urn:acr:mfa' }));
    const page = await reconnect();
    expect([page.status, page.url]).toEqual([200, `${site.url}/connections/elsewhere`]);
    expect((await connectionOf())?.stepUpRequired).toBe(false);
    expect((await readThread()).status).toBe(200);
    expect(await authorizationParameters()).not.toHaveProperty('acr_values');
  });

  test.each<[string, object, string]>([
    ['has another acr', { acr: 'pwd' }, 'acr'],
    ['has no acr', {}, 'acr'],
    ['has no auth_time', { acr: 'urn:acr:mfa', auth_time: undefined }, 'no auth_time'],
    ['is too old', { acr: 'urn:acr:mfa', auth_time: now() - 3_600 }, 'older than'],
    ['is in the future', { acr: 'urn:acr:mfa', auth_time: now() + 3_600 }, 'in the future'],
  ])('that %s changes nothing, and says why', async (_name, claims, words) => {
    await demand(`${STEP_UP}, max_age="60"`);
    const before = await storage.readGrant(userId, 'elsewhere');
    site.provider.setModes(idTokenWith(claims));
    const page = await reconnect();
    expect(page.status).toBe(403);
    expect(textOf(page.body)).toContain('did not confirm the stronger or newer sign-in');
    expect(page.body).toContain(`href="${site.url}/connections/elsewhere"`);
    expect(await storage.readGrant(userId, 'elsewhere')).toEqual(before);

    const admin = await createAdministrator(site, storage);
    const { items } = (await admin.call('GET', '/sign-ins?limit=1')).json as { items: { cause: { text: string } }[] };
    expect(items[0]?.cause.text).toContain(words);
  });

  test('of another user, account or app does not meet it', async () => {
    await demand(STEP_UP);
    const strong = idTokenWith({ acr: 'urn:acr:mfa' });
    const before = await storage.readGrant(userId, 'elsewhere');

    site.provider.setModes(strong);
    site.provider.signInAs({ sub: 'user-2' });
    const { agent: stranger } = await attempt(site, { agent: createUserAgent(), path: '/sign-in?app=elsewhere' });
    expect((await sessionOf(site, stranger)).userId).not.toBe(userId);
    // The user chooses another account at the provider.
    const page = await reconnect();
    expect([page.status, textOf(page.body).includes('a different account than the connected one')]).toEqual([
      403,
      true,
    ]);
    site.provider.signInAs({ sub: 'user-1' });
    const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
    await agent.request(`${site.url}/connections/other`, { method: 'POST', body });
    expect(await storage.readGrant(userId, 'elsewhere')).toEqual(before);
    expect((await readThread()).json.code).toBe('step_up_required');
  });

  test('that the user asked for with another account replaces the connection, as always', async () => {
    await demand(STEP_UP);
    site.provider.signInAs({ sub: 'user-2' });
    site.provider.setModes(idTokenWith({ acr: 'urn:acr:mfa' }));
    expect((await reconnect({ prompt: 'select_account' })).status).toBe(200);
    expect((await storage.readGrant(userId, 'elsewhere')).account.subject).toBe('user-2');
    expect((await connectionOf())?.stepUpRequired).toBe(false);
  });

  test.each([
    ['keeps it if it is as weak as before', {}, true],
    ['drops it if it meets it', { acr: 'urn:acr:mfa' }, false],
  ])('for something else %s', async (_name, claims, isKept) => {
    await demand(STEP_UP);
    site.provider.setModes(idTokenWith(claims));
    await attempt(site, { agent, path: '/sign-in?app=elsewhere' });
    expect((await connectionOf())?.stepUpRequired).toBe(isKept);
  });

  test('that claims were demanded of meets the demand only if it was asked for them', async () => {
    await demand('Bearer error="insufficient_claims", claims="eyJhY2Nlc3NfdG9rZW4iOnsiYWNycyI6bnVsbH19"');
    await attempt(site, { agent, path: '/sign-in?app=elsewhere' });
    expect((await connectionOf())?.stepUpRequired).toBe(true);
    expect((await reconnect()).status).toBe(200);
    expect((await connectionOf())?.stepUpRequired).toBe(false);
  });

  test('keeps the demand that came while the user was at the provider', async () => {
    await demand(STEP_UP);
    const started = await reconnect({}, false);
    const { accessToken } = await storage.readGrant(userId, 'elsewhere');
    const other = 'Bearer error="insufficient_user_authentication", acr_values="urn:acr:hardware"';
    challengeFor = (token) => (token === accessToken ? other : undefined);
    await readThread();
    site.provider.setModes(idTokenWith({ acr: 'urn:acr:mfa' }));
    expect((await agent.get(started.headers.get('location') ?? '')).status).toBe(200);
    expect((await connectionOf())?.stepUpRequired).toBe(true);
    expect(await authorizationParameters()).toMatchObject({ acr_values: 'urn:acr:hardware' });
  });
});

test('R145 a call by a declared route that may not be repeated is sent once', async () => {
  challengeFor = () => STEP_UP;
  const csrf = await csrfTokenOf(site, agent);
  const send = () =>
    sendRequest(`${site.url}/api/elsewhere/1/messages`, {
      method: 'POST',
      headers: {
        ...JSON_BODY,
        accept: 'application/json',
        cookie: agent.cookies.header(site.url),
        origin: new URL(site.url).origin,
        'x-csrf-token': csrf,
      },
      body: '{"text":"hello"}',
    });
  const refused = await send();
  expect([refused.status, JSON.parse(refused.body).code, calls.length]).toEqual([403, 'step_up_required', 1]);
  expect((await connectionOf())?.stepUpRequired).toBe(true);
});

test('R145 a service gets the same problem, with the link for its user, and its list says so', async () => {
  const admin = await createAdministrator(site, storage);
  const policy = { scopes: ['threads:read', 'connections:read'], apps: ['elsewhere'], assertUser: true };
  const { token } = await admin.createRelayToken(policy);
  const call = () => relayThread(site, token, { 'gatehouse-user': userId });
  const { accessToken } = await storage.readGrant(userId, 'elsewhere');
  challengeFor = (sent) => (sent === accessToken ? STEP_UP : undefined);

  const refused = await call();
  const connectUrl = `${site.url}/connections/elsewhere`;
  expect([refused.status, JSON.parse(refused.body)]).toEqual([
    403,
    expect.objectContaining({ code: 'step_up_required', connectUrl }),
  ]);
  const listed = async () => {
    const { body } = await sendRequest(`${site.url}/relay/connections?user=${userId}`, { headers: bearer(token) });
    return JSON.parse(body).items;
  };
  expect(await listed()).toEqual([expect.objectContaining({ stepUpRequired: true, connectUrl, health: 'active' })]);

  site.provider.setModes(idTokenWith({ acr: 'urn:acr:mfa' }));
  expect((await reconnect()).status).toBe(200);
  expect((await call()).status).toBe(200);
  expect(await listed()).toEqual([expect.objectContaining({ stepUpRequired: false, connectUrl: null })]);
});

// The last test: the limit lasts longer than it.
test('the rate limit that such a refusal states is heeded', async () => {
  const admin = await createAdministrator(site, storage);
  const { token } = await admin.createRelayToken({ apps: ['elsewhere'], assertUser: true });
  const call = async () => (await relayThread(site, token, { 'gatehouse-user': userId })).status;
  challengeFor = () => STEP_UP;
  limits = { 'x-ratelimit-limit': '50', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '30' };
  expect([await call(), await call(), calls.length]).toEqual([403, 429, 1]);
});
