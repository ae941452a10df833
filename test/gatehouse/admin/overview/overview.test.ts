/** The overview: key figures with links to lists, charts with tables, and causes of failed sign-ins. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTallies } from '../../../../src/gatehouse/audit/tallies.ts';
import { createUserAgent, type UserAgent } from '../../../support/browserless.ts';
import { getJson, PASSWORD, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { openStorageOf } from '../../grants/storage-access.ts';

const DAY = 86_400_000;

let site: TestSite;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  ({ agent } = await signIn(site, 'admin@example.test'));
  await signIn(site);
  const denied = createUserAgent();
  const form = await denied.get(`${site.url}/sign-in`);
  const consent = await denied.submit(form, { login: 'second@example.test', password: PASSWORD });
  const refusal = await denied.submit(consent, {}, { button: 'Deny' });
  // A reload of the callback is no further sign-in.
  await denied.get(refusal.url);
  const storage = await openStorageOf(site);
  // 36 hours ago is before the period of a day.
  const yesterday = createTallies({ store: storage.store, clock: () => Date.now() - 1.5 * DAY });
  for (let count = 0; count < 8; count += 1) yesterday.count('sign_in.succeeded');
  await yesterday.close();
  await storage.close();
});
afterAll(() => site.close());

interface Overview {
  period: string;
  from: string;
  intervals: { at: string; counts: Record<string, number> }[];
  total: Record<string, number>;
  previousTotal: Record<string, number>;
  causes: { cause: string; count: number; signInId: string }[];
}
const readOverview = async (query = '') =>
  (await getJson(agent, `${site.url}/admin/api/overview${query}`)).json as unknown as Overview;

test('counts users, sessions and connections, and the events in each interval of a period', async () => {
  expect(await readOverview()).toMatchObject({
    period: 'day',
    users: 2,
    sessions: 2,
    connections: { total: 2, active: 2 },
  });

  // The eight sign-ins of 36 hours ago are only in the longer ranges.
  for (const [period, intervalCount, signIns] of [
    ['hour', 12, 2],
    ['day', 24, 2],
    ['week', 7, 10],
    ['month', 30, 10],
  ] as const) {
    const { intervals, total, from } = await readOverview(`?period=${period}`);
    expect([period, intervals.length, from]).toEqual([period, intervalCount, intervals[0]?.at]);

    const events = ['sign_in.succeeded', 'sign_in.refused', 'sign_in.failed'];
    const sumOf = (event: string) => intervals.reduce((sum, { counts }) => sum + (counts[event] ?? 0), 0);
    expect([period, ...events.map(sumOf)]).toEqual([period, signIns, 1, 0]);
    expect(events.map((event) => total[event] ?? 0)).toEqual([signIns, 1, 0]);
  }

  expect((await getJson(agent, `${site.url}/admin/api/overview?period=year`)).status).toBe(400);
});

test('compares key figures with the time before, and links them to lists', async () => {
  expect((await readOverview()).previousTotal).toEqual({ 'sign_in.succeeded': 8 });
  const { body } = await agent.get(`${site.url}/admin`);
  const [, panels = ''] = /class="overview-figures">(.*?)<\/div>/s.exec(body) ?? [];
  const figures = [...panels.matchAll(/<a href="([^"]+)">(.*?)<\/a>/g)].map(([, href = '', html = '']) => ({
    href: href.replaceAll('&amp;', '&'),
    text: html.replace(/<[^>]*>/g, ''),
  }));
  expect(figures.map(({ text }) => text)).toEqual([
    ...['Sign-ins 2', '1 refused', 'Refreshes 0', 'Relay calls 0'],
    ...['Users 2', '2 sessions', 'Connections 2', '2 active', 'BIN calls 0'],
  ]);
  expect(body).toContain('title="8 in the 24 hours before">▼ 75 %<');
  for (const { href } of figures) {
    const page = await agent.get(new URL(href, site.url).href);
    expect([href, page.status]).toEqual([href, 200]);
  }
});

test('the figure, the chart, the causes and the lists agree on the number of refused sign-ins', async () => {
  const { intervals, total, causes } = await readOverview();
  const inIntervals = intervals.reduce((sum, { counts }) => sum + (counts['sign_in.refused'] ?? 0), 0);
  const inCauses = causes.reduce((sum, { count }) => sum + count, 0);
  const lengthOf = async (path: string) => {
    const { json } = await getJson(agent, `${site.url}/admin/api/${path}`);
    return (json as unknown as { items: unknown[] }).items.length;
  };
  const inLists = [await lengthOf('sign-ins?outcome=unsuccessful'), await lengthOf('audit?event=sign_in.refused')];
  expect([total['sign_in.refused'], inIntervals, inCauses, ...inLists]).toEqual([1, 1, 1, 1, 1]);
  expect((await agent.get(`${site.url}/admin`)).body).not.toContain('Other causes');
});

test('shows the causes of failed sign-ins, and links to the latest of each', async () => {
  const { causes } = await readOverview();
  expect(causes).toMatchObject([
    { text: 'The user or their organization did not consent.', count: 1, app: 'platform' },
  ]);
  const { body } = await agent.get(`${site.url}/admin`);
  expect(body).toContain(
    `href="/admin/sign-ins/${causes[0]?.signInId}">The user or their organization did not consent.`,
  );
});

test.each([
  ['', 'day', 24, 'Hour (UTC)'],
  ['?period=hour', 'hour', 12, 'Time (UTC)'],
  ['?period=week', 'week', 7, 'Day (UTC)'],
  ['?period=month', 'month', 30, 'Day (UTC)'],
  ['?period=year', 'day', 24, 'Hour (UTC)'],
])('the page%s shows a %s with bars and a table of %i rows', async (query, period, intervalCount, head) => {
  const { body } = await agent.get(`${site.url}/admin${query}`);
  expect(body).toMatch(new RegExp(`href="\\?period=${period}"[^>]*aria-current="true"`));
  const [, table = ''] = /id="sign-ins-table">(.*?)<\/table>/s.exec(body) ?? [];
  expect(table.match(/<th scope="row">/g)?.length).toBe(intervalCount);
  expect(table).toContain(head);

  const [, chart = ''] = /<figure[^>]*aria-label="Sign-ins[^>]*>(.*?)<\/figure>/s.exec(body) ?? [];
  const bars = [...chart.matchAll(/<a href="([^"]*)" tabindex="-1">/g)].map(([, href]) => href);
  expect(bars).toHaveLength(intervalCount);
  expect([...table.matchAll(/<th scope="row"><a href="([^"]*)"/g)].map(([, href]) => href)).toEqual(bars);
  expect(chart).toContain('1 refused');
  // There were no refreshes, so there is no chart.
  expect(body).not.toContain('refreshes-table');
  expect(body).toContain('None in this time range.');
});
