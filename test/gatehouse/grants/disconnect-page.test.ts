/** The page after a disconnect reports the provider's response, and a link cannot fake it. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { getJson, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite({
    apps: (parts) => [sandboxApp(parts, 'platform'), sandboxApp(parts, 'second', { signIn: undefined })],
  });
});
afterAll(() => site.close());

const CONFIRMED = 'has confirmed';
const OTHER_RESULTS = /not confirm|keep asking/;

test('R52: the page says "confirmed" only after the provider confirmed, whatever the URL says', async () => {
  const { agent } = await signIn(site);
  const connection = await agent.get(`${site.url}/connections/platform`, { headers: { accept: 'text/html' } });

  const resultPage = await agent.submit(connection, {}, { button: 'Disconnect' });
  expect(resultPage.url).toMatch(/\?done=[\w-]{22}$/);
  expect(resultPage.body).toContain(CONFIRMED);

  // The audit trail has the user, the address and the request.
  const removalEntry = { event: 'connection.removed', address: '127.0.0.1', requestId: expect.stringMatching(/-/) };
  const auditEntries = () => site.logs().map((line) => JSON.parse(line).audit);

  await expect.poll(auditEntries).toContainEqual(expect.objectContaining(removalEntry));

  // The notice is shown once, and a link cannot show it.
  for (const url of [resultPage.url, `${site.url}/connections/platform?done=revoked`]) {
    const page = await agent.get(url);
    expect(page.body).not.toContain(CONFIRMED);
    expect(page.body).not.toMatch(OTHER_RESULTS);
  }

  const { agent: otherAgent } = await signIn(site, 'second@example.test');
  const connectionOfOther = await otherAgent.get(`${site.url}/connections/platform`);
  const resultPageOfOther = await otherAgent.submit(connectionOfOther, {}, { button: 'Disconnect' });
  expect(resultPageOfOther.body).toContain(CONFIRMED);
  expect((await agent.get(resultPageOfOther.url)).body).not.toContain(CONFIRMED);
});

test('an app that does not exist has no connection page', async () => {
  const { agent } = await signIn(site);
  const { status, json } = await getJson(agent, `${site.url}/connections/nothing`);
  expect([status, json.code, json.detail]).toEqual([404, 'not_found', 'There is no connected app with this id.']);
});

test('the list names every app, and the page of a connection keeps the return path and the hints of its URL', async () => {
  const { agent } = await signIn(site);
  const { json } = await getJson(agent, `${site.url}/connections`);
  expect(json.items).toMatchObject([{ app: 'platform', connectUrl: `${site.url}/connections/platform` }]);

  const list = await agent.get(`${site.url}/connections`, { headers: { accept: 'text/html' } });
  expect(list.body).toContain('Your connections');
  for (const id of ['platform', 'second']) expect(list.body).toContain(`/connections/${id}`);

  const query = 'return_to=%2Faccount&login_hint=ada%40example.test';
  const page = await agent.get(`${site.url}/connections/second?${query}`);
  const form = page.forms.find(({ names }) => names.includes('return_to'));

  expect(form?.fields).toEqual(
    expect.arrayContaining([
      ['return_to', '/account'],
      ['login_hint', 'ada@example.test'],
    ]),
  );
});
