/** Administrators find every reference that an error page shows. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AppError, type ProblemCode } from '../../../../src/shared/errors.ts';
import { createProblemReferences } from '../../../../src/shared/pages/problem-references.ts';
import type { UserAgent } from '../../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { ACCEPT_HTML, FORM_BODY, sendRequest } from '../../../support/send-request.ts';
import { createTestStorage } from '../../../support/test-storage.ts';
import { openStorageOf, type StorageAccess } from '../../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../../relay/service.ts';

const REFERENCE = /class="reference(?:-small)?"[^>]*>([^<]*)</;

describe('over HTTP', () => {
  let site: TestSite;
  let storage: StorageAccess;
  let admin: Administrator;
  let agent: UserAgent;
  let csrf: string;
  let userId: string;
  beforeAll(async () => {
    site = await startSite();
    storage = await openStorageOf(site);
    admin = await createAdministrator(site, storage);
    ({ agent } = await signIn(site));
    const { json } = await getJson(agent, `${site.url}/session`);
    csrf = String(json.csrfToken);
    userId = String((json.user as { id: string }).id);
  });
  afterAll(async () => {
    await storage.close();
    await site.close();
  });

  const visit = (path: string, options: { headers?: Record<string, string>; method?: string; body?: string } = {}) =>
    sendRequest(site.url + path, { ...options, headers: { ...ACCEPT_HTML, ...options.headers } });
  const followed = async (response: Awaited<ReturnType<typeof visit>>) =>
    response.headers.location === undefined
      ? response
      : visit(String(response.headers.location).replace(site.url, ''), { headers: { cookie: cookie() } });
  const cookie = () => agent.cookies.header(site.url);

  test.each<[string, string, () => Parameters<typeof visit>[1], ProblemCode]>([
    ['a page that does not exist', '/connections/unknown', () => ({}), 'not_found'],
    ['a refusal', '/admin/users', () => ({}), 'not_allowed'],
    [
      'a form',
      '/bin',
      () => ({ method: 'POST', headers: FORM_BODY, body: new URLSearchParams({ _csrf: csrf, bin: '12' }).toString() }),
      'invalid_bin',
    ],
  ])('the reference of a signed-in user is found: %s', async (_what, path, request, code) => {
    const { headers, ...options } = request() ?? {};
    const page = await followed(
      await visit(path, { ...options, headers: { ...headers, cookie: cookie(), origin: site.url } }),
    );
    const [, reference = ''] = REFERENCE.exec(page.body) ?? [];
    const { json } = await admin.call('GET', `/sign-ins?q=${reference.toUpperCase()}`);
    expect(json).toEqual({
      items: [],
      problem: {
        ...{ reference, requestId: page.headers['x-request-id'], at: expect.any(String), code, status: page.status },
        ...{ route: code === 'not_found' ? '/connections/:app' : path, userId, cause: null },
      },
    });
    expect(JSON.stringify(json)).not.toContain('unknown');
  });

  test('administrators find the reference on the page of sign-ins', async () => {
    const page = await visit('/connections/unknown', { headers: { cookie: cookie() } });
    const [, reference = ''] = REFERENCE.exec(page.body) ?? [];
    const { agent: administrator } = await signIn(site, 'admin@example.test');
    const found = await administrator.get(`${site.url}/admin/sign-ins?q=${reference}`);
    for (const text of [reference, 'not_found', '/connections/:app', userId, String(page.headers['x-request-id'])])
      expect(found.body).toContain(text);
    expect((await administrator.get(`${site.url}/admin/sign-ins?q=00000000`)).body).toContain(
      `/admin/audit?q=00000000`,
    );
  });

  test('a failed sign-in has the reference of its record', async () => {
    const { headers } = await visit('/sign-in');
    const state = new URL(String(headers.location)).searchParams.get('state');
    const [requestCookie = ''] = String(headers['set-cookie']).split(';');
    const page = await visit(`/oauth/callback/platform?error=access_denied&state=${state}`, {
      headers: { cookie: requestCookie },
    });
    const [, reference = ''] = REFERENCE.exec(page.body) ?? [];
    const { json } = await admin.call('GET', `/sign-ins?q=${reference}`);
    expect(json.items).toMatchObject([{ references: expect.arrayContaining([reference]) }]);
  });

  test.each([['/nowhere'], ['/oauth/callback/platform?state=x'], ['/problems/unknown'], ['/bin/12345']])(
    'a page whose error is not stored shows no reference: %s',
    async (path) => {
      const page = await visit(path);
      expect(page.status).toBeGreaterThanOrEqual(300);
      expect(page.body).not.toMatch(REFERENCE);
      expect(page.body).not.toMatch(/[Qq]uote|[Rr]eference/);
    },
  );
});

test('R137 keeps a limited number of references for a day: of each user, of each address, and of all addresses', async () => {
  const storage = await createTestStorage('SQLite');
  await storage.withStore(async (store) => {
    let now = Date.parse('2026-01-01T12:00:00Z');
    const references = createProblemReferences({
      store,
      clock: () => now,
      // The sign-in record has this reference.
      isKnown: async (reference) => reference === 'known-01',
    });
    let recordedCount = 0;
    let address = '192.0.2.1';
    const record = (userId?: string, error = new AppError('not_found'), givenReference?: string) => {
      recordedCount += 1;
      const reference = givenReference ?? String(recordedCount).padStart(8, '0');
      const session = userId === undefined ? undefined : { user: { id: userId } };
      const context = { id: `request-${reference}`, reference, route: '/one', address, session };
      return references.record({ context } as never, error);
    };
    const countStored = async (errors: number, userId?: string, error?: AppError) => {
      const stored = await Promise.all(Array.from({ length: errors }, () => record(userId, error)));
      return stored.filter((reference) => reference !== undefined).length;
    };

    // A user has at most 50, except those of the sign-in record.
    expect(await countStored(60, 'u1')).toBe(50);
    expect(await record('u1', undefined, 'known-01')).toBe('known-01');
    expect(await countStored(3, 'u2')).toBe(3);
    // Without a user, only faults of Gatehouse are stored: 50 of each address, and 1,000 of all addresses.
    expect(await countStored(3)).toBe(0);
    expect(await record(undefined, undefined, 'known-01')).toBe('known-01');
    const storedOfAddresses: number[] = [];
    for (let host = 1; host <= 21; host += 1) {
      address = `192.0.2.${host}`;
      storedOfAddresses.push(await countStored(60, undefined, new AppError('internal')));
    }
    expect(storedOfAddresses).toEqual([...Array(20).fill(50), 0]);
    expect(await countStored(1, 'u2', new AppError('storage_unavailable'))).toBe(0);

    now += 86_400_000;
    const cause = Object.assign(new Error('secret'), { code: 'ECONNRESET' });
    const fault = new AppError('internal', { cause, logDetail: 'secret' });
    expect(await record('u1', fault, 'ABCD1234')).toBe('ABCD1234');
    expect(await record('u2', undefined, 'abcd1234')).toBeUndefined();
    const found = await references.find('abcD1234');
    expect(found).toEqual({
      ...{ reference: 'ABCD1234', requestId: 'request-ABCD1234', at: now, code: 'internal', status: 500 },
      ...{ route: '/one', userId: 'u1', cause: 'ECONNRESET' },
    });
    for (const unknown of ['', 'unknown', 'x'.repeat(9_000), '../abcd1'])
      expect(await references.find(unknown)).toBeUndefined();
  });

  const records = (await storage.items()).filter((item) => 'record' in item && item.record.startsWith('problem:'));
  const lifetimes = records.map((item) => ('expiresAt' in item ? Number(item.expiresAt) : Number.NaN) - Date.now());
  expect(Math.max(...lifetimes)).toBeLessThanOrEqual(30 * 86_400_000);
  await storage.dispose();
});
