/** Lists of the administration search everything before they cut a page. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openVaultDesk, sessionOf, type VaultDesk } from '../grants/vault-desk.ts';
import { type Administrator, ANYTHING, administratorOf } from '../relay/service.ts';
import type { UserAgent } from '../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../support/gatehouse.ts';

let site: TestSite;
let desk: VaultDesk;
let admin: Administrator;
let agent: UserAgent;
let apiToken: string;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  desk = await openVaultDesk(site);
  admin = await administratorOf(site, desk);
  ({ agent } = await signIn(site, 'admin@example.test'));
  // The sandbox's platform takes any access token as an API token.
  apiToken = (await desk.read((await sessionOf(site, agent)).userId)).accessToken;
});
afterAll(async () => {
  await desk.close();
  await site.close();
});

const LISTS: [string, (name: string) => Record<string, unknown>][] = [
  ['relay-tokens', (name) => ({ ...ANYTHING, name })],
  ['admin-tokens', (name) => ({ name, scope: 'read', expiresAt: new Date(Date.now() + 86_400_000).toISOString() })],
  ['service-accounts', (name) => ({ name, app: 'platform', apiToken })],
  ['webhooks', (name) => ({ url: `${site.sandbox.platformUrl}/${name}`, events: ['connection.created'] })],
];

test.each(LISTS)(
  '%s: the oldest is found behind those of a whole page',
  async (path, body) => {
    for (const name of ['needle-1', 'needle-2', 'needle-3', ...Array.from({ length: 52 }, (_, at) => `hay-${at}`)]) {
      expect((await admin.call('POST', `/${path}`, body(name))).status).toBe(201);
    }
    const found: unknown[] = [];
    let next = '';
    do {
      const { json } = await admin.call('GET', `/${path}?q=NEEDLE&limit=2${next}`);
      expect(json.items).not.toEqual([]);
      found.push(...(json.items as { name?: string; url?: string }[]).map(({ name, url }) => name ?? url));
      next = json.next === undefined ? '' : `&after=${encodeURIComponent(String(json.next))}`;
    } while (next !== '');
    const wanted = ['needle-3', 'needle-2', 'needle-1'].map((name) => expect.stringContaining(name));
    expect(found).toEqual(wanted);
    expect((await admin.call('GET', `/${path}?q=straw`)).json).toEqual({ items: [] });

    const page = await agent.get(`${site.url}/admin/${path}?q=needle-1`);
    expect([page.body.includes('needle-1'), page.body.includes('Show more')]).toEqual([true, false]);
    expect((await agent.get(`${site.url}/admin/${path}?q=straw`)).body).toContain('Nothing matches');
  },
  60_000,
);

test('the policy page offers every relay token', async () => {
  const { json } = await admin.call('GET', '/relay-tokens?limit=200');
  const extra = 201 - (json.items as unknown[]).length;
  for (let at = 0; at < extra; at += 1) await admin.makeToken({ name: `more-${at}` });
  expect((await agent.get(`${site.url}/admin/policy`)).body).toContain('>needle-1</option>');
});
