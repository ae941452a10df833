/** R113: pages and JSON of a connection that was neither used nor checked for two check intervals. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { notCheckedSince } from '../../../src/gatehouse/grants/connection.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { DAY_MS } from '../../../src/shared/time.ts';
import { useBrowser } from '../../support/browser.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { checkOnAllScreens, signInWithBrowser } from '../../support/journey.ts';
import { openStorageOf, type StorageAccess, sessionOf } from './storage-access.ts';

const NOW = 1_800_000_000_000;

describe('R113 a connection is not checked', () => {
  const AGO = (days: number) => NOW - days * DAY_MS;
  test.each([
    ['nor used or made for more than two intervals', { checkedAt: AGO(2.1), lastUsedAt: AGO(5) }, AGO(2.1)],
    ['but used since', { checkedAt: AGO(9), lastUsedAt: AGO(1) }, undefined],
    ['but refreshed since', { checkedAt: AGO(1.9) }, undefined],
    ['at all, and was made long ago', { connectedAt: AGO(3) }, AGO(3)],
  ])('%s', (_words, times, since) => {
    expect(notCheckedSince(times, NOW, 86_400)).toBe(since);
    // Without checks, a day is used as the interval.
    expect(notCheckedSince(times, NOW, 0)).toBe(since);
  });

  test('after two intervals of whatever length', () => {
    expect(notCheckedSince({ checkedAt: NOW - 121_000 }, NOW, 60)).toBe(NOW - 121_000);
    expect(notCheckedSince({ checkedAt: NOW - 119_000 }, NOW, 60)).toBeUndefined();
  });
});

describe('R113 without checks', () => {
  const newPage = useBrowser();
  let site: TestSite;
  let storage: StorageAccess;
  let user: UserAgent;
  let admin: UserAgent;
  let userId: string;
  beforeAll(async () => {
    site = await startSite({ env: { CONNECTION_CHECK_SECONDS: '0' }, sandbox: { accessTokenSeconds: 40 * 86_400 } });
    storage = await openStorageOf(site);
    ({ agent: admin } = await signIn(site, 'admin@example.test'));
    ({ agent: user } = await signIn(site));
    ({ userId } = await sessionOf(site, user));
  });
  afterAll(async () => {
    await storage.close();
    await site.close();
  });

  const pagesOfUser = async () => [
    (await user.get(`${site.url}/connections`)).body,
    (await user.get(`${site.url}/connections/platform`)).body,
  ];
  const pagesOfAdmin = async () => [
    (await admin.get(`${site.url}/admin/connections?q=user@example.test`)).body,
    // The user is active as well.
    (await admin.get(`${site.url}/admin/users/${userId}`)).body.replace('</span>Active</span>', ''),
  ];
  const everyPage = async () => [...(await pagesOfUser()), ...(await pagesOfAdmin())];
  const connection = async () => {
    const { json } = await getJson(user, `${site.url}/connections`);
    return (json.connections as Record<string, unknown>[])[0];
  };
  const columns = (page: string) => [...page.matchAll(/<td data-label="Checked">(.*?)<\/td>/g)].map(([, cell]) => cell);

  /** Moves the times of the connection back by days, as if it had not been used. */
  const leaveAlone = async () => {
    const since = Date.now() - 2.5 * DAY_MS;
    await storage.changeGrant(userId, () => ({ obtainedAt: since, connectedAt: since - DAY_MS }));
    await storage.store.write([{ delete: keys.lastUse(userId, 'platform') }]);
    return since;
  };

  test('no page shows it as working after two days, and each page says since when', async () => {
    for (const page of await everyPage()) expect(page).toContain('</span>Active</span>');
    expect(await connection()).toMatchObject({ health: 'active', notCheckedSince: null });

    const since = await leaveAlone();
    const words = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' });
    for (const page of await everyPage()) {
      expect(page).not.toContain('Active');
      expect(page).not.toContain('The connection works');
      expect(page).toContain(`</span>Not checked since ${words.format(since)} UTC</span>`);
    }
    const checkedAt = new Date(since).toISOString();
    // Its counts have no times, and say so.
    const overview = (await admin.get(`${site.url}/admin`)).body;
    expect(overview).toContain('The health is the last known one');
    for (const page of await pagesOfAdmin()) {
      expect(columns(page)).toEqual([
        expect.stringMatching(`^<time datetime="${checkedAt}" title=".* UTC">2 days ago</time>$`),
      ]);
    }
    expect(await connection()).toMatchObject({ health: 'active', checkedAt, notCheckedSince: checkedAt });
    const path = `/admin/api/connections/${userId}.platform`;
    expect((await getJson(admin, site.url + path)).json).toMatchObject({
      health: 'active',
      notCheckedSince: checkedAt,
    });
  });

  test('a successful use shows it as working again, and a failed one does not', async () => {
    // A process saves the use of a connection once in five minutes.
    await site.restart();
    site.sandbox.faults.set({ listener: 'platform', kind: 'error' });
    const failed = await getJson(user, `${site.url}/threads/current`);
    expect([failed.status, failed.json.code]).toEqual([502, 'upstream_error']);
    for (const page of await pagesOfUser()) expect(page).not.toContain('Active');
    site.sandbox.faults.clear();
    // The start page reads the thread.
    await user.get(`${site.url}/`);
    // The use is saved after the response.
    await expect.poll(connection).toMatchObject({ notCheckedSince: null });
    for (const page of await everyPage()) expect(page).toContain('</span>Active</span>');
  });

  test('the text fits every screen', async () => {
    const page = await newPage();
    await signInWithBrowser(page, site);
    await leaveAlone();
    for (const path of ['/connections', '/connections/platform']) {
      await page.goto(site.url + path);
      await page.getByText(/^Not checked since/).waitFor();
      await checkOnAllScreens(page, `not-checked${path.replaceAll('/', '-')}`);
    }
  });
});
