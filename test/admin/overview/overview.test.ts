/** The overview: what is counted, the tables that its charts are drawn from, and their sums. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createUserAgent, type UserAgent } from '../../support/browserless.ts';
import { getJson, PASSWORD, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';

let site: TestSite;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  ({ agent } = await signIn(site, 'admin@example.test'));
  await signIn(site);
  const denied = createUserAgent();
  const form = await denied.get(`${site.url}/sign-in`);
  const consent = await denied.submit(form, { login: 'second@example.test', password: PASSWORD });
  await denied.submit(consent, {}, { button: 'Deny' });
});
afterAll(() => site.close());

const overview = async (query = '') => (await getJson(agent, `${site.url}/admin/api/overview${query}`)).json;

test('counts users, sessions and connections, and what happened in each hour of a day', async () => {
  const json = await overview();
  expect(json).toMatchObject({ range: 'day', users: 2, sessions: 2, connections: { total: 2, active: 2 } });
  const spans = json.spans as { at: string; counts: Record<string, number> }[];
  expect(spans).toHaveLength(24);
  const sum = (name: string) => spans.reduce((total, { counts }) => total + (counts[name] ?? 0), 0);
  expect([sum('sign_in.succeeded'), sum('sign_in.refused'), sum('sign_in.failed')]).toEqual([2, 1, 0]);
  expect((await getJson(agent, `${site.url}/admin/api/overview?range=week`)).status).toBe(400);
});

test.each([
  ['', 'day', 24, 'Hour (UTC)'],
  ['?range=day', 'day', 24, 'Hour (UTC)'],
  ['?range=month', 'month', 30, 'Day (UTC)'],
  ['?range=week', 'day', 24, 'Hour (UTC)'],
])('the page%s shows a %s, each chart as a table of %i rows', async (query, range, count, head) => {
  const { body } = await agent.get(`${site.url}/admin${query}`);
  expect(body).toContain(`href="?range=${range === 'day' ? 'month' : 'day'}"`);
  const sums = [...body.matchAll(/class="chart-key-(\w+)">([^:]+): <strong>(\d+)</g)].map(([, ...one]) => one);
  expect(sums).toEqual([
    ...[
      ['good', 'Succeeded', '2'],
      ['notice', 'Refused', '1'],
      ['bad', 'Failed', '0'],
    ],
    ...[
      ['good', 'Done', '0'],
      ['bad', 'Failed', '0'],
    ],
    ...[
      ['good', 'Answered', '0'],
      ['notice', 'Refused by policy', '0'],
      ['bad', 'Failed', '0'],
    ],
  ]);
  for (const id of ['sign-ins', 'refreshes', 'relay']) {
    const [, table = ''] = new RegExp(`id="${id}-table">(.*?)</table>`, 's').exec(body) ?? [];
    expect([id, table.match(/<th scope="row">/g)?.length]).toEqual([id, count]);
    expect(table).toContain(head);
  }
});
