/** R65: while the storage is down, every request is refused in the same way. */

import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { RELAY_TOKEN_PREFIX } from '../../../src/gatehouse/relay/relay-token.ts';
import { sharedAssets } from '../../../src/shared/pages/assets.ts';
import { createOpaqueToken } from '../../../src/shared/storage/opaque-token.ts';
import { DATABASE_FILE } from '../../../src/shared/storage/sqlite/store.ts';
import { createUserAgent } from '../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { PROVIDER_ROUTE, ROUTES, SERVICE_PREFIX } from '../../support/routes.ts';
import { ACCEPT_HTML, ACCEPT_JSON, FORM_BODY, sendRequest } from '../../support/send-request.ts';
import { breakStore } from '../../support/store-fault.ts';

let site: TestSite;
let cookie: string;
let csrf: string;
let heal = () => {};
beforeAll(async () => {
  site = await startSite();
  const { agent } = await signIn(site);
  cookie = agent.cookies.header(site.url);
  csrf = String((await getJson(agent, `${site.url}/session`)).json.csrfToken);
});
afterEach(() => heal());
afterAll(() => site.close());

/** Starts a sign-in while the storage is available. */
async function startSignIn(): Promise<{ tx: string; state: string }> {
  const started = await sendRequest(`${site.url}/sign-in`);
  const state = new URL(started.headers.location ?? '').searchParams.get('state') ?? '';
  return { tx: started.headers['set-cookie']?.[0]?.split(';')[0] ?? '', state };
}

describe('R65 the storage cannot be read', () => {
  // Left out: back-channel logout, which refuses unsigned requests before it reads; a callback by POST, which is refused
  // in any case; and pages that need no storage.
  // Requests of services have a well-formed token, which only the storage can check.
  const bearer = { authorization: `Bearer ${createOpaqueToken(RELAY_TOKEN_PREFIX).text}` };
  const WITHOUT_STORAGE = [
    'GET /problems/:code',
    'GET /openapi.json',
    'GET /docs',
    'GET /docs/:guide',
    `POST ${PROVIDER_ROUTE}`,
    'POST /oauth/callback/:app',
  ];
  test.each(ROUTES.filter(({ method, pattern }) => !WITHOUT_STORAGE.includes(`${method} ${pattern}`)))(
    '$method $path gets 503 with a session, as data and as a page',
    async ({ method, path, pattern }) => {
      const { tx, state } = await startSignIn();
      heal = breakStore();
      for (const accept of [ACCEPT_JSON, ACCEPT_HTML]) {
        const query = pattern === '/oauth/callback/:app' ? `?state=${state}&code=c` : '';
        const response = await sendRequest(`${site.url}${path}${query}`, {
          method,
          headers: {
            ...accept,
            ...FORM_BODY,
            cookie: `${cookie}; ${tx}`,
            'x-csrf-token': csrf,
            ...(pattern.startsWith(SERVICE_PREFIX) ? bearer : {}),
          },
          ...(method === 'POST' ? { body: `_csrf=${csrf}` } : {}),
        });
        expect(response.status).toBe(503);
        expect(Number(response.headers['retry-after'])).toBeGreaterThan(0);
        expect(response.headers['set-cookie']).toBeUndefined();
        if (accept === ACCEPT_JSON) expect(JSON.parse(response.body).code).toBe('storage_unavailable');
        else expect(response.body).toContain('We cannot reach our database');
      }
    },
  );

  test.each([
    ['/sign-in', () => ''],
    ['/oauth/callback/platform', (state: string) => `?state=${state}&code=c`],
  ])('%s without a session', async (path, queryOf) => {
    const { tx, state } = await startSignIn();
    heal = breakStore();
    const response = await sendRequest(site.url + path + queryOf(state), { headers: { ...ACCEPT_JSON, cookie: tx } });
    expect([response.status, JSON.parse(response.body).code]).toEqual([503, 'storage_unavailable']);
    expect(response.headers['set-cookie']).toBeUndefined();
  });

  test('files, explanations and liveness need no storage; readiness reports its loss', async () => {
    heal = breakStore();
    expect((await sendRequest(`${site.url}${sharedAssets().path}/gatehouse.css`)).status).toBe(200);
    expect((await sendRequest(`${site.url}${sharedAssets().path}/pico.css`)).status).toBe(200);
    expect((await sendRequest(`${site.url}/problems/not_found`)).status).toBe(200);
    expect((await sendRequest(`${site.managementUrl}/healthz`)).status).toBe(200);
    expect((await sendRequest(`${site.managementUrl}/metrics`)).status).toBe(200);

    const ready = await sendRequest(`${site.managementUrl}/readyz`);
    expect([ready.status, JSON.parse(ready.body)]).toEqual([
      503,
      {
        ready: false,
        reason: 'disk',
        storage: `SQLite in ${site.dataDirectory}`,
        detail: 'SQLite returned IOERR (result code 10)',
      },
    ]);
  });

  test('works again once the storage is back', async () => {
    heal = breakStore();
    expect((await sendRequest(`${site.url}/session`, { headers: { cookie } })).status).toBe(503);

    heal();
    expect(JSON.parse((await sendRequest(`${site.url}/session`, { headers: { cookie } })).body).signedIn).toBe(true);
    expect((await sendRequest(`${site.managementUrl}/readyz`)).status).toBe(200);
  });
});

describe('R65 another process keeps the database locked', () => {
  let other: DatabaseSync;
  beforeAll(() => {
    other = new DatabaseSync(join(site.dataDirectory, DATABASE_FILE));
  });
  afterAll(() => other.close());

  test('refuses writes, and continues reads', async () => {
    const { tx, state } = await startSignIn();
    other.exec('BEGIN EXCLUSIVE');
    heal = () => other.exec('ROLLBACK');
    const refusals = await Promise.all([
      sendRequest(`${site.url}/sign-in`, { headers: ACCEPT_JSON }),
      sendRequest(`${site.url}/oauth/callback/platform?state=${state}&code=c`, {
        headers: { ...ACCEPT_JSON, cookie: tx },
      }),
      sendRequest(`${site.url}/sign-out`, {
        method: 'POST',
        headers: { ...ACCEPT_JSON, ...FORM_BODY, cookie },
        body: `_csrf=${csrf}`,
      }),
      sendRequest(`${site.managementUrl}/readyz`),
    ]);
    expect(refusals.map(({ status }) => status)).toEqual([503, 503, 503, 503]);
    expect(refusals.slice(0, 3).map(({ headers }) => Number(headers['retry-after']) > 0)).toEqual([true, true, true]);
    expect(refusals.some(({ headers }) => headers['set-cookie'])).toBe(false);
    expect(JSON.parse((await sendRequest(`${site.url}/session`, { headers: { cookie } })).body).signedIn).toBe(true);

    heal();
    heal = () => {};
    expect(JSON.parse((await sendRequest(`${site.url}/session`, { headers: { cookie } })).body).signedIn).toBe(true);
  });
});

test('R65 a session that could not be written causes no redirect and no cookie', async () => {
  const other = new DatabaseSync(join(site.dataDirectory, DATABASE_FILE));
  try {
    const agent = createUserAgent({ stopAt: (url) => url.includes('/oauth/callback/') });
    const { page } = await signIn(site, 'second@example.test', { agent });
    other.exec(`CREATE TRIGGER no_sessions BEFORE INSERT ON records WHEN NEW.key LIKE 'session:%' AND NEW.value <> 'ended'
      BEGIN SELECT RAISE(ABORT, 'no'); END`);
    const response = await sendRequest(page.url, {
      headers: { ...ACCEPT_HTML, cookie: agent.cookies.header(site.url) },
    });
    expect(response.status).toBeGreaterThanOrEqual(500);
    expect(response.headers.location).toBeUndefined();
    expect(response.headers['set-cookie']).toBeUndefined();
  } finally {
    other.exec('DROP TRIGGER IF EXISTS no_sessions');
    other.close();
  }
});
