/** The filters of the list of sign-ins, one by one and together, in the API and on the page. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createUserAgent, type UserAgent } from '../../../support/browserless.ts';
import { CLIENT_SECRET, PASSWORD, sandboxApp, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { advanceClock } from '../../../support/test-clock.ts';
import { openStorageOf, type StorageAccess } from '../../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../../relay/service.ts';

interface Item {
  id: string;
  app: string;
  outcome: string | null;
  cause: { code: string } | null;
  user: { id: string | null; email: string | null } | null;
  startedAt: string;
}

const DAY_SECONDS = 86_400;
let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
let all: Item[];

const list = async (query: string) => {
  const { status, json } = await admin.call('GET', `/sign-ins?limit=50&${query}`);
  expect(status, JSON.stringify(json)).toBe(200);
  return json.items as Item[];
};
const idsOf = (items: readonly Item[]) => items.map(({ id }) => id);

async function deny(login: string): Promise<void> {
  const denying = createUserAgent();
  const loginPage = await denying.get(`${site.url}/sign-in?app=platform`);
  const consent = await denying.submit(loginPage, { login, password: PASSWORD });
  await denying.submit(consent, {}, { button: 'Deny' });
}

beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  const second = sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET });
  await (await createAdministrator(site, storage)).call('POST', '/connected-apps', second);
  await signIn(site, 'user@example.test', { path: '/sign-in?app=platform' });
  advanceClock(2 * DAY_SECONDS);
  await signIn(site, 'user@example.test', { path: '/sign-in?app=second' });
  await deny('second@example.test');
  site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', kind: 'error' });
  await signIn(site, 'user@example.test', { path: '/sign-in?app=platform' }).catch(() => undefined);
  site.sandbox.faults.clear();
  await createUserAgent().get(`${site.url}/sign-in?app=second`);
  advanceClock(2 * 3_600);
  ({ agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform&return_to=/admin' }));
  admin = await createAdministrator(site, storage);
  all = await list('');
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

test('the list has a sign-in of each outcome', () => {
  const resultOf = ({ app, outcome, cause }: Item) => `${app} ${outcome ?? 'open'} ${cause?.code ?? '–'}`;
  expect(all.map(resultOf)).toEqual([
    'platform signed_in –',
    'second open nothing_came_back',
    'platform failed provider_unavailable',
    'platform refused access_denied',
    'second signed_in –',
    'platform signed_in –',
  ]);
});

/** How each filter judges an item, in place of the program. */
const FILTERS: Record<string, Record<string, (item: Item) => boolean>> = {
  app: { platform: ({ app }) => app === 'platform', second: ({ app }) => app === 'second', none: () => false },
  cause: {
    access_denied: ({ cause }) => cause?.code === 'access_denied',
    nothing_came_back: ({ cause }) => cause?.code === 'nothing_came_back',
  },
  outcome: {
    succeeded: ({ outcome }) => outcome === 'signed_in',
    unsuccessful: ({ outcome }) => outcome === 'refused' || outcome === 'failed',
    refused: ({ outcome }) => outcome === 'refused',
    failed: ({ outcome }) => outcome === 'failed',
    open: ({ outcome }) => outcome === null,
  },
  user: {
    'USER@example.test': ({ user }) => user?.email === 'user@example.test',
    'nobody@example.test': () => false,
  },
  period: {
    hour: ({ startedAt }) => Date.parse(startedAt) >= Date.now() - 3_600_000,
    day: ({ startedAt }) => Date.parse(startedAt) >= Date.now() - 86_400_000,
    week: () => true,
  },
};

test('any filters together list what all of them accept, in the same order, on any number of pages', async () => {
  const choice = fc.record(
    Object.fromEntries(
      Object.entries(FILTERS).map(([name, values]) => [name, fc.constantFrom(...Object.keys(values))]),
    ),
    { requiredKeys: [] },
  );
  await fc.assert(
    fc.asyncProperty(choice, async (chosen) => {
      const expected = all.filter((item) =>
        Object.entries(chosen).every(([name, value]) => FILTERS[name]?.[value ?? '']?.(item)),
      );
      const ids: string[] = [];
      let after: string | undefined;
      do {
        const position = { limit: '2', ...(after !== undefined && { after }) };
        const { json } = await admin.call('GET', `/sign-ins?${new URLSearchParams({ ...chosen, ...position })}`);
        ids.push(...idsOf(json.items as Item[]));
        after = json.next as string | undefined;
      } while (after !== undefined);
      expect(ids).toEqual(idsOf(expected));
    }),
    { numRuns: 60 },
  );
});

test('a user is found by id, and a range has both its ends', async () => {
  const last = all.at(-1);
  const uma = String(last?.user?.id);
  expect(idsOf(await list(`user=${uma}`))).toEqual(idsOf(all.filter(({ user }) => user?.id === uma)));
  const at = String(last?.startedAt);
  expect(idsOf(await list(`from=${at}&to=${at}`))).toEqual([last?.id]);
  expect(idsOf(await list(`to=${at.slice(0, 10)}`))).toEqual([last?.id]);
  expect(idsOf(await list(`from=${at}`))).toEqual(idsOf(all));
});

test.each(['outcome=done', 'period=year', 'from=yesterday', 'failed=true'])('the API refuses %s', async (query) => {
  expect((await admin.call('GET', `/sign-ins?${query}`)).status).toBe(400);
});

test('the page has the filters, says that dates are UTC, and names the causes of failures', async () => {
  const page = await agent.get(`${site.url}/admin/sign-ins`);
  for (const words of ['From (UTC)', 'To (UTC)', 'Last 7 days', 'Refused or failed', 'No response'])
    expect(page.body).toContain(words);
  const filtered = await agent.submit(
    page,
    { outcome: 'refused', app: 'platform', period: 'day' },
    { button: 'Search' },
  );
  expect(filtered.url).toBe(`${site.url}/admin/sign-ins?outcome=refused&app=platform&period=day`);
  expect(filtered.body.match(/<tr>/g)).toHaveLength(2);
  expect(filtered.body).toContain('did not consent');
  expect(filtered.body).not.toContain('Failures by cause');
  const ofCause = await agent.get(`${site.url}/admin/sign-ins?app=platform&cause=access_denied`);
  expect(page.body).toContain('?app=platform&amp;cause=access_denied');
  expect(ofCause.body).toContain('<option value="access_denied" selected>');
  expect(ofCause.body.match(/<tr>/g)).toHaveLength(2);
});

test('the audit trail has the same periods', async () => {
  const { json: hour } = await admin.call('GET', '/audit?period=hour&event=sign_in.succeeded');
  const { json: week } = await admin.call('GET', '/audit?period=week&event=sign_in.succeeded');
  expect([hour.items, week.items].map((items) => (items as unknown[]).length)).toEqual([1, 3]);
  expect((await agent.get(`${site.url}/admin/audit?period=hour`)).body).toContain('<option value="hour" selected>');
});
