/** R92: calls that anonymous requests cause leave three quarters of a provider’s slots to refreshes and code exchanges. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openStorageOf, type StorageAccess, sessionOf } from '../../gatehouse/grants/storage-access.ts';
import { createUserAgent } from '../../support/browserless.ts';
import { getJson, PASSWORD, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_HTML, ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { until } from '../../support/until.ts';

const STARTS = 1_100;
/** Few enough to be all in use before the first call times out, even on a slow machine. */
const SLOTS = { OUTBOUND_CONCURRENT_CALLS: '8', OUTBOUND_WAITING_CALLS: '40' };

let site: TestSite;
let storage: StorageAccess;
beforeAll(async () => {
  site = await startSite({
    env: { ...SLOTS, RATE_LIMIT_SIGN_INS_PER_ADDRESS_PER_MINUTE: '0' },
    app: { par: 'required' },
  });
  storage = await openStorageOf(site);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

/** The number of calls that found every slot and the queue full. */
async function countRefusedCalls({ managementUrl }: TestSite): Promise<number> {
  const { body } = await sendRequest(`${managementUrl}/metrics`);
  return Number(/^gatehouse_outbound_refused_total (\d+)$/m.exec(body)?.[1]);
}

test('R92 1,100 anonymous sign-ins at a slow PAR endpoint delay neither refreshes nor code exchanges', async () => {
  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  await storage.changeGrant(userId, () => ({ expiresAt: Date.now() - 1_000 }));
  const otherAgent = createUserAgent();
  const form = await otherAgent.get(`${site.url}/sign-in`);
  site.sandbox.requests.reset();
  const parRelease = Promise.withResolvers<void>();
  site.sandbox.faults.set({ listener: 'identity-provider', path: '/par', kind: 'hold', until: parRelease.promise });

  const starts = Promise.all(
    // On a busy machine some request heads arrive late, and the server refuses them by closing their connections.
    Array.from({ length: STARTS }, () =>
      sendRequest(`${site.url}/sign-in`, { headers: ACCEPT_HTML }).then(
        ({ status }) => status,
        () => 503,
      ),
    ),
  );
  await until(async () => (await countRefusedCalls(site)) > 0);

  const thread = await getJson(agent, `${site.url}/threads/current`);
  expect([thread.status, site.sandbox.requests.count('POST /token')]).toEqual([200, 1]);

  let page = await otherAgent.submit(form, { login: 'admin@example.test', password: PASSWORD });
  while (page.forms.some(({ buttons }) => buttons.some(({ text }) => text === 'Allow')))
    page = await otherAgent.submit(page, {}, { button: 'Allow' });
  const session = await sendRequest(`${site.url}/session`, {
    headers: { ...ACCEPT_JSON, cookie: otherAgent.cookies.header(site.url) },
  });
  expect([JSON.parse(session.body).signedIn, site.sandbox.requests.count('POST /token')]).toEqual([true, 2]);

  parRelease.resolve();
  expect([...new Set(await starts)].sort()).toEqual([303, 503]);
});
