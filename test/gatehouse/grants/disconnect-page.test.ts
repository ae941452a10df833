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
const OTHERWISE = /not confirm|keep asking/;

test('R52: the page says "confirmed" only after the provider confirmed, whatever the URL says', async () => {
  const { agent } = await signIn(site);
  const connection = await agent.get(`${site.url}/connections/platform`, { headers: { accept: 'text/html' } });
  const ended = await agent.submit(connection, {}, { button: 'Disconnect' });
  expect(ended.url).toMatch(/\?done=[\w-]{22}$/);
  expect(ended.body).toContain(CONFIRMED);
  // The audit trail has the user, the address and the request.
  const removed = { event: 'connection.removed', address: '127.0.0.1', requestId: expect.stringMatching(/-/) };
  const audited = () => site.logs().map((line) => JSON.parse(line).audit);
  await expect.poll(audited).toContainEqual(expect.objectContaining(removed));

  // The notice is shown once, and a link cannot show it.
  for (const claim of [ended.url, `${site.url}/connections/platform?done=revoked`]) {
    const claimed = await agent.get(claim);
    expect(claimed.body).not.toContain(CONFIRMED);
    expect(claimed.body).not.toMatch(OTHERWISE);
  }
  const { agent: other } = await signIn(site, 'second@example.test');
  const ending = await other.submit(await other.get(`${site.url}/connections/platform`), {}, { button: 'Disconnect' });
  expect(ending.body).toContain(CONFIRMED);
  expect((await agent.get(ending.url)).body).not.toContain(CONFIRMED);
});

test('an app that does not exist has no connection page', async () => {
  const { agent } = await signIn(site);
  const { status, json } = await getJson(agent, `${site.url}/connections/nothing`);
  expect([status, json.code, json.detail]).toEqual([404, 'not_found', 'There is no connected app with this id.']);
});

test('the list names every app, and the page of a connection keeps the return path and the hints of its URL', async () => {
  const { agent } = await signIn(site);
  const { json } = await getJson(agent, `${site.url}/connections`);
  expect(json.connections).toMatchObject([{ app: 'platform', connectUrl: `${site.url}/connections/platform` }]);
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
