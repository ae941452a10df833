/** R50, R80 to R82 for admin tokens: shown once, stored as a hash, and revoked at once in every process. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startGatehouse } from '../../../../src/gatehouse/start.ts';
import { DATABASE_FILE } from '../../../../src/shared/storage/sqlite/store.ts';
import type { UserAgent } from '../../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { freePort } from '../../../support/ports.ts';
import { ACCEPT_JSON, JSON_BODY, sendRequest } from '../../../support/send-request.ts';
import { createAdminToken } from '../../../support/terminal.ts';
import { advanceClock } from '../../../support/test-clock.ts';
import { LONG_TIMEOUT } from '../../../support/until.ts';

let site: TestSite;
let token: string;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  token = await createAdminToken(site);
  ({ agent } = await signIn(site, 'admin@example.test'));
});
afterAll(() => site.close());

const ADMIN_TOKENS_PATH = '/admin/api/admin-tokens';

async function call(
  path = '',
  { method = 'GET', body, bearerToken = token, origin = site.url }: Partial<Record<string, string>> = {},
) {
  const headers = { ...ACCEPT_JSON, ...JSON_BODY, authorization: `Bearer ${bearerToken}` };
  const response = await sendRequest(`${origin}${ADMIN_TOKENS_PATH}${path}`, {
    method: method ?? 'GET',
    headers,
    ...(body ? { body } : {}),
  });
  return { ...response, json: response.body === '' ? {} : JSON.parse(response.body) };
}

/** The body of a request that creates a token for a day. */
const newTokenBody = (changes: Record<string, unknown> = {}) =>
  JSON.stringify({ name: 'n', scope: 'read', expiresAt: new Date(Date.now() + 86_400_000).toISOString(), ...changes });

describe('an admin token', () => {
  test('R80 has a prefix, an id and 256 bits, and is shown once', async () => {
    const created = await call('', { method: 'POST', body: newTokenBody() });
    expect(created.status).toBe(201);
    expect(created.json.token).toMatch(/^gtha_[0-9A-Za-z]{60}$/);
    expect(created.headers.location).toBe(`${ADMIN_TOKENS_PATH}/${created.json.id}`);
    const secret = created.json.token.slice(16);
    for (const path of ['', `/${created.json.id}`]) expect((await call(path)).body).not.toContain(secret);
    expect((await agent.get(`${site.url}/admin/admin-tokens`)).body).not.toContain(secret);
    expect(site.logs().join('')).not.toContain(secret);
    for (const ending of ['', '-wal']) {
      const fileText = readFileSync(join(site.dataDirectory, `${DATABASE_FILE}${ending}`), 'latin1');
      expect(fileText.includes(secret)).toBe(false);
    }
  });

  test('a new token is shown on the page once', async () => {
    const form = await agent.get(`${site.url}/admin/admin-tokens/new`);
    const created = await agent.submit(form, { name: 'From a page', scope: 'read', expiry: '30' });
    const createdToken = /gtha_[0-9A-Za-z]{60}/.exec(created.body)?.[0] ?? '';
    expect((await call('', { bearerToken: createdToken })).status).toBe(200);
    expect((await agent.get(`${site.url}/admin/admin-tokens`)).body).not.toContain(createdToken);
    const faulty = await agent.submit(form, { name: 'x', scope: 'read', expiry: '0' });
    expect([faulty.status, faulty.body.includes('role="alert"')]).toEqual([400, true]);
  });

  test('R81 a revoked token is refused at once in every process', async () => {
    const [port, managementPort] = [String(await freePort()), String(await freePort())];
    const secondProcess = await startGatehouse(
      { ...site.env, PORT: port, MANAGEMENT_PORT: managementPort, PUBLIC_URL: site.url },
      { write: () => undefined },
    );
    try {
      const { json } = await call('', { method: 'POST', body: newTokenBody() });
      const atSecondProcess = { bearerToken: json.token, origin: `http://127.0.0.1:${port}` };
      expect((await call('', atSecondProcess)).status).toBe(200);

      expect((await call(`/${json.id}`, { method: 'DELETE' })).status).toBe(204);

      expect((await call('', atSecondProcess)).status).toBe(401);
      expect((await call('', { bearerToken: json.token })).status).toBe(401);
      expect((await call(`/${json.id}`)).status).toBe(404);
      expect((await call(`/${json.id}`, { method: 'DELETE' })).status).toBe(404);
    } finally {
      await secondProcess.close();
    }
  });

  test('R84 expired, revoked and unknown tokens get the same response', async () => {
    const { json } = await call('', {
      method: 'POST',
      body: newTokenBody({ expiresAt: new Date(Date.now() + 60_000).toISOString() }),
    });
    advanceClock(61);
    const expired = await call('', { bearerToken: json.token });
    expect(expired.status).toBe(401);
    const unknownToken = token.replace(/.$/, (last) => (last === 'x' ? 'y' : 'x'));
    const unknown = await call('', { bearerToken: unknownToken });
    const comparableOf = ({ status, headers, json: { detail, code } }: typeof expired) => [
      status,
      headers['www-authenticate'],
      detail,
      code,
    ];
    expect(comparableOf(expired)).toEqual(comparableOf(unknown));
    expect((await call(`/${json.id}`)).json).toMatchObject({ state: 'expired' });
    advanceClock(-61);
  });

  test('shows when it was last used', async () => {
    const { json } = await call('', { method: 'POST', body: newTokenBody() });
    expect((await call(`/${json.id}`)).json.lastUsedAt).toBeNull();
    await call('', { bearerToken: json.token });
    await vi.waitFor(async () => expect((await call(`/${json.id}`)).json.lastUsedAt).not.toBeNull(), LONG_TIMEOUT);
  });

  test.each([
    ['no name', { name: ' ' }],
    ['another scope', { scope: 'admin' }],
    ['an end in the past', { expiresAt: '2020-01-01T00:00:00Z' }],
    ['an end too far away', { expiresAt: '2099-01-01T00:00:00Z' }],
    ['an unknown field', { admin: true }],
  ])('is not created with %s', async (_name, changes) => {
    const { status, json } = await call('', { method: 'POST', body: newTokenBody(changes) });
    expect([status, json.code, json.errors.length]).toEqual([400, 'invalid_request', 1]);
  });

  test('lists are paged, with each token once', async () => {
    const ids: string[] = [];
    let after = '';
    do {
      const { json } = await call(`?limit=2${after}`);
      ids.push(...json.items.map(({ id }: { id: string }) => id));
      after = json.next === undefined ? '' : `&after=${encodeURIComponent(json.next)}`;
    } while (after !== '');
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.length).toBeGreaterThan(4);
    expect((await call('?after=nonsense')).status).toBe(400);
  });

  test('the command refuses invalid options', async () => {
    await expect(createAdminToken(site, { scope: 'admin' })).rejects.toThrow('--scope');
    await expect(createAdminToken(site, { days: '0' })).rejects.toThrow('--days');
  });
});
