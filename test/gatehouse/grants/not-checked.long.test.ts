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

describe('R113 a connection counts as unchecked', () => {
  const timeBefore = (days: number) => NOW - days * DAY_MS;
  test.each([
    [
      'if it was neither used nor checked for more than two intervals',
      { checkedAt: timeBefore(2.1), lastUsedAt: timeBefore(5) },
      timeBefore(2.1),
    ],
    ['but not if it was used since', { checkedAt: timeBefore(9), lastUsedAt: timeBefore(1) }, undefined],
    ['but not if it was refreshed since', { checkedAt: timeBefore(1.9) }, undefined],
    ['if it was created long ago and never checked', { connectedAt: timeBefore(3) }, timeBefore(3)],
  ])('%s', (_description, times, since) => {
    expect(notCheckedSince(times, NOW, 86_400)).toBe(since);
    // Without checks, a day is used as the interval.
    expect(notCheckedSince(times, NOW, 0)).toBe(since);
  });

  test('after two intervals of another length, too', () => {
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

  const readPagesOfUser = async () => [
    (await user.get(`${site.url}/connections`)).body,
    (await user.get(`${site.url}/connections/platform`)).body,
  ];
  const readPagesOfAdmin = async () => [
    (await admin.get(`${site.url}/admin/connections?q=user@example.test`)).body,
    // The page shows the user, too, as active.
    (await admin.get(`${site.url}/admin/users/${userId}`)).body.replace('</span>Active</span>', ''),
  ];
  const readAllPages = async () => [...(await readPagesOfUser()), ...(await readPagesOfAdmin())];
  const readConnection = async () => {
    const { json } = await getJson(user, `${site.url}/connections`);
    return (json.items as Record<string, unknown>[])[0];
  };
  const checkedColumns = (page: string) =>
    [...page.matchAll(/<td data-label="Checked">(.*?)<\/td>/g)].map(([, cell]) => cell);

  /** Moves the times of the connection back by days, as if it had not been used. */
  const makeUnused = async () => {
    const since = Date.now() - 2.5 * DAY_MS;
    await storage.changeGrant(userId, () => ({ obtainedAt: since, connectedAt: since - DAY_MS }));
    await storage.store.write([{ delete: keys.lastUse(userId, 'platform') }]);
    return since;
  };

  test('no page shows it as working after two days, and each page says since when', async () => {
    for (const page of await readAllPages()) expect(page).toContain('</span>Active</span>');
    expect(await readConnection()).toMatchObject({ health: 'active', notCheckedSince: null });

    const since = await makeUnused();
    const dateFormat = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' });
    for (const page of await readAllPages()) {
      expect(page).not.toContain('Active');
      expect(page).not.toContain('The connection works');
      expect(page).toContain(`</span>Not checked since ${dateFormat.format(since)} UTC</span>`);
    }
    const checkedAt = new Date(since).toISOString();

    // The counts of the overview do not depend on the time of the last check, and the page says so.
    const overview = (await admin.get(`${site.url}/admin`)).body;
    expect(overview).toContain('The health is the last known one');

    for (const page of await readPagesOfAdmin()) {
      expect(checkedColumns(page)).toEqual([
        expect.stringMatching(`^<time datetime="${checkedAt}" title=".* UTC">3 days ago</time>$`),
      ]);
    }
    expect(await readConnection()).toMatchObject({ health: 'active', checkedAt, notCheckedSince: checkedAt });

    const path = `/admin/api/connections/${userId}.platform`;
    expect((await getJson(admin, site.url + path)).json).toMatchObject({
      health: 'active',
      notCheckedSince: checkedAt,
    });
  });

  test('a successful use shows it as working again, and a failed one does not', async () => {
    // A process saves the use of a connection once in five minutes, so a new process is needed.
    await site.restart();
    site.sandbox.faults.set({ listener: 'platform', kind: 'error' });

    const failedUse = await getJson(user, `${site.url}/threads/current`);
    expect([failedUse.status, failedUse.json.code]).toEqual([502, 'platform_error']);
    for (const page of await readPagesOfUser()) expect(page).not.toContain('Active');

    site.sandbox.faults.clear();
    // The start page reads the thread.
    await user.get(`${site.url}/`);

    // The use is saved after the response.
    await expect.poll(readConnection).toMatchObject({ notCheckedSince: null });
    for (const page of await readAllPages()) expect(page).toContain('</span>Active</span>');
  });

  test('the pages of an unchecked connection fit every screen', async () => {
    const page = await newPage();
    await signInWithBrowser(page, site);
    await makeUnused();
    for (const path of ['/connections', '/connections/platform']) {
      await page.goto(site.url + path);
      await page.getByText(/^Not checked since/).waitFor();
      await checkOnAllScreens(page, `not-checked${path.replaceAll('/', '-')}`);
    }
  });
});
