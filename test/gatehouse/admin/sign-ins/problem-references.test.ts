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

const SHOWN = /class="reference(?:-small)?"[^>]*>([^<]*)</;

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

  const visit = (path: string, more: { headers?: Record<string, string>; method?: string; body?: string } = {}) =>
    sendRequest(site.url + path, { ...more, headers: { ...ACCEPT_HTML, ...more.headers } });
  const cookie = () => agent.cookies.header(site.url);

  test.each<[string, string, () => Parameters<typeof visit>[1], ProblemCode]>([
    ['a page that is not there', '/connections/unknown', () => ({}), 'not_found'],
    ['a refusal', '/admin/users', () => ({}), 'not_allowed'],
    [
      'a form',
      '/bin',
      () => ({ method: 'POST', headers: FORM_BODY, body: new URLSearchParams({ _csrf: csrf, bin: '12' }).toString() }),
      'invalid_bin',
    ],
  ])('the reference of a signed-in user is found: %s', async (_what, path, request, code) => {
    const given = request() ?? {};
    const page = await visit(path, { ...given, headers: { ...given.headers, cookie: cookie(), origin: site.url } });
    const [, reference = ''] = SHOWN.exec(page.body) ?? [];
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

  test('the page of administrators shows it', async () => {
    const page = await visit('/connections/unknown', { headers: { cookie: cookie() } });
    const [, reference = ''] = SHOWN.exec(page.body) ?? [];
    const { agent: administrator } = await signIn(site, 'admin@example.test');
    const found = await administrator.get(`${site.url}/admin/sign-ins?q=${reference}`);
    for (const text of [reference, 'not_found', '/connections/:app', userId, String(page.headers['x-request-id'])])
      expect(found.body).toContain(text);
    expect((await administrator.get(`${site.url}/admin/sign-ins?q=00000000`)).body).toContain(
      `/admin/audit?text=00000000`,
    );
  });

  test('a failed sign-in has the reference of its record', async () => {
    const { headers } = await visit('/sign-in');
    const state = new URL(String(headers.location)).searchParams.get('state');
    const [tx = ''] = String(headers['set-cookie']).split(';');
    const page = await visit(`/oauth/callback/platform?error=access_denied&state=${state}`, {
      headers: { cookie: tx },
    });
    const [, reference = ''] = SHOWN.exec(page.body) ?? [];
    const { json } = await admin.call('GET', `/sign-ins?q=${reference}`);
    expect(json.items).toMatchObject([{ references: expect.arrayContaining([reference]) }]);
  });

  test.each([['/nowhere'], ['/oauth/callback/platform?state=x'], ['/problems/unknown'], ['/bin/12345']])(
    'a page that nothing is kept of shows no reference: %s',
    async (path) => {
      const page = await visit(path);
      expect(page.status).toBeGreaterThanOrEqual(300);
      expect(page.body).not.toMatch(SHOWN);
      expect(page.body).not.toMatch(/[Qq]uote|[Rr]eference/);
    },
  );
});

test('R137 keeps a limited number of references for a day: of each user, of each address, and of all addresses', async () => {
  const place = await createTestStorage('SQLite');
  await place.withStore(async (store) => {
    let now = Date.parse('2026-01-01T12:00:00Z');
    const references = createProblemReferences({
      store,
      clock: () => now,
      isKnown: async (one) => one === 'known-01',
    });
    let count = 0;
    let address = '192.0.2.1';
    const keep = (userId?: string, error = new AppError('not_found'), reference?: string) => {
      count += 1;
      const name = reference ?? String(count).padStart(8, '0');
      const session = userId === undefined ? undefined : { user: { id: userId } };
      const context = { id: `request-${name}`, reference: name, route: '/one', address, session };
      return references.record({ context } as never, error);
    };
    const keptOf = async (times: number, userId?: string, error?: AppError) =>
      (await Promise.all(Array.from({ length: times }, () => keep(userId, error)))).filter(Boolean).length;

    expect(await keptOf(60, 'u1')).toBe(50);
    // The record of the sign-in still has it.
    expect(await keep('u1', undefined, 'known-01')).toBe('known-01');
    expect(await keptOf(3, 'u2')).toBe(3);
    expect(await keptOf(3)).toBe(0);
    expect(await keep(undefined, undefined, 'known-01')).toBe('known-01');
    const internal = new AppError('internal');
    const keptOfAddresses: number[] = [];
    for (let host = 1; host <= 21; host += 1) {
      address = `192.0.2.${host}`;
      keptOfAddresses.push(await keptOf(60, undefined, internal));
    }
    expect(keptOfAddresses).toEqual([...Array(20).fill(50), 0]);
    expect(await keptOf(1, 'u2', new AppError('storage_unavailable'))).toBe(0);
    now += 86_400_000;
    const cause = Object.assign(new Error('secret'), { code: 'ECONNRESET' });
    expect(await keep('u1', new AppError('internal', { cause, logDetail: 'secret' }), 'ABCD1234')).toBe('ABCD1234');
    expect(await keep('u2', undefined, 'abcd1234')).toBeUndefined();
    const record = await references.find('abcD1234');
    expect(record).toEqual({
      ...{ reference: 'ABCD1234', requestId: 'request-ABCD1234', at: now, code: 'internal', status: 500 },
      ...{ route: '/one', userId: 'u1', cause: 'ECONNRESET' },
    });
    for (const none of ['', 'unknown', 'x'.repeat(9_000), '../abcd1'])
      expect(await references.find(none)).toBeUndefined();
  });
  const kept = (await place.items()).filter((item) => 'record' in item && item.record.startsWith('problem:'));
  const lifetimes = kept.map((item) => ('expiresAt' in item ? Number(item.expiresAt) : Number.NaN) - Date.now());
  expect(Math.max(...lifetimes)).toBeLessThanOrEqual(30 * 86_400_000);
  await place.dispose();
});
