/** What a page says of a disconnect is what the provider said, and nobody's link can claim it. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { signIn, startSite, type TestSite } from '../support/gatehouse.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site.close());

const CONFIRMED = 'has confirmed';

test('R52: a page says "confirmed" after the provider confirmed, and to no link that merely says so', async () => {
  const { agent } = await signIn(site);
  const connection = await agent.get(`${site.url}/connections/platform`, { headers: { accept: 'text/html' } });
  const ended = await agent.submit(connection, {}, { button: 'Disconnect' });
  expect(ended.url).toMatch(/\?disconnected=revoked\.[\w-]{22}$/);
  expect(ended.body).toContain(CONFIRMED);

  for (const said of ['revoked', 'revoked.AAAAAAAAAAAAAAAAAAAAAA']) {
    const claimed = await agent.get(`${site.url}/connections/platform?disconnected=${said}`);
    expect(claimed.body).not.toContain(CONFIRMED);
  }
  const { agent: other } = await signIn(site, 'second@example.test');
  const ending = await other.submit(await other.get(`${site.url}/connections/platform`), {}, { button: 'Disconnect' });
  expect(ending.body).toContain(CONFIRMED);
  expect((await other.get(ended.url)).body).not.toContain(CONFIRMED);
});
