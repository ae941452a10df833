/** R92: what anonymous requests cause at a provider leaves half of its slots to refreshes and code exchanges. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openVaultDesk, sessionOf, type VaultDesk } from '../../gatehouse/grants/vault-desk.ts';
import { ask, DATA, PAGE } from '../../support/ask.ts';
import { createUserAgent } from '../../support/browserless.ts';
import { getJson, PASSWORD, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { until } from '../../support/until.ts';

const STARTS = 1_100;
/** Few, so that they are all taken long before the first call gives up, however slow the machine is. */
const SLOTS = { UPSTREAM_CONCURRENCY: '8', UPSTREAM_WAITING: '40' };

let site: TestSite;
let desk: VaultDesk;
beforeAll(async () => {
  site = await startSite({
    env: { ...SLOTS, RATE_LIMIT_SIGN_INS_PER_ADDRESS: '0' },
    app: { par: 'required' },
  });
  desk = await openVaultDesk(site);
});
afterAll(async () => {
  await desk.close();
  await site.close();
});

/** Calls for which every slot and every place to wait was taken. */
async function refusedBy({ managementUrl }: TestSite): Promise<number> {
  const { body } = await ask(`${managementUrl}/metrics`);
  return Number(/^gatehouse_outbound_refused_total (\d+)$/m.exec(body)?.[1]);
}

test('R92 1,100 anonymous starts at a slow PAR endpoint hold up no refresh and no code exchange', async () => {
  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  await desk.change(userId, () => ({ expiresAt: Date.now() - 1_000 }));
  const other = createUserAgent();
  const form = await other.get(`${site.url}/sign-in`);
  site.sandbox.hits.reset();
  const held = Promise.withResolvers<void>();
  site.sandbox.faults.set({ on: 'identity-provider', path: '/par', kind: 'hold', until: held.promise });

  const starts = Promise.all(
    // On a busy machine some heads arrive too late, and the server cuts their connections: that is a refusal, too.
    Array.from({ length: STARTS }, () =>
      ask(`${site.url}/sign-in`, { headers: PAGE }).then(
        ({ status }) => status,
        () => 503,
      ),
    ),
  );
  await until(async () => (await refusedBy(site)) > 0);

  const thread = await getJson(agent, `${site.url}/threads/current`);
  expect([thread.status, site.sandbox.hits.count('POST /token')]).toEqual([200, 1]);
  let page = await other.submit(form, { login: 'admin@example.test', password: PASSWORD });
  while (page.forms.some(({ buttons }) => buttons.some(({ text }) => text === 'Allow')))
    page = await other.submit(page, {}, { button: 'Allow' });
  const session = await ask(`${site.url}/session`, {
    headers: { ...DATA, cookie: other.cookies.header(site.url) },
  });
  expect([JSON.parse(session.body).signedIn, site.sandbox.hits.count('POST /token')]).toEqual([true, 2]);

  held.resolve();
  expect([...new Set(await starts)].sort()).toEqual([303, 503]);
});
