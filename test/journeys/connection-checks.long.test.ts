/** A user revokes access at the provider. A check finds this without a call and notifies the service. */
import { afterEach, expect, test } from 'vitest';
import { bearer, createAdministrator } from '../gatehouse/relay/service.ts';
import { useBrowser } from '../support/browser.ts';
import { openSharedStorage } from '../support/fleet.ts';
import { getJson, signIn } from '../support/gatehouse.ts';
import {
  checkOnAllScreens,
  completeProviderSignIn,
  navigateBy,
  signInWithBrowser,
  userIdOf,
} from '../support/journey.ts';
import { startDocumentedSite } from '../support/recorded-responses.ts';
import { sendRequest } from '../support/send-request.ts';
import { advanceClock, resetClock } from '../support/test-clock.ts';
import { until } from '../support/until.ts';
import { signedMessages, startReceiver } from '../support/webhook-receiver.ts';

const INTERVAL_SECONDS = 120;
/** Called in reverse order, even after a failure. */
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  resetClock();
});
const newPage = useBrowser();

/** Starts Gatehouse and its provider with a connected user, a service with a webhook, and an administrator. */
async function start() {
  const env = { CONNECTION_CHECK_SECONDS: String(INTERVAL_SECONDS) };
  // The access token expires before the check, so that the health shows a failed check.
  const site = await startDocumentedSite({ env, sandbox: { accessTokenSeconds: 60 } });
  closing.push(site.close);
  const vault = await openSharedStorage(site.env);
  closing.push(() => vault.store.close());
  const admin = await createAdministrator(site, vault);
  const receiver = await startReceiver();
  closing.push(async () => receiver.close());
  const events = ['connection.reconnect_needed', 'connection.recovered'];
  const { json: webhook } = await admin.call('POST', '/webhooks', { url: receiver.url, events });
  const page = await newPage();
  await signInWithBrowser(page, site);
  const userId = await userIdOf(page, site);
  const { token } = await admin.createRelayToken({ scopes: ['threads:read', 'connections:read'], assertUser: true });
  const connection = async () => {
    const response = await sendRequest(`${site.url}/relay/connections?user=${userId}`, { headers: bearer(token) });
    return JSON.parse(response.body).items[0];
  };
  /** Lets time pass until a check is due. */
  const untilCheck = async () => {
    const { obtainedAt } = await vault.readGrant(userId);
    advanceClock(0.8 * INTERVAL_SECONDS - (Date.now() - obtainedAt) / 1000);
    return obtainedAt;
  };
  const messages = () => signedMessages(receiver, String(webhook.secret));
  return { site, messages, page, userId, connection, untilCheck };
}

test('R113 a revocation at the provider is announced within the interval without a call, and the user can reconnect', async () => {
  const { site, messages, page, userId, connection, untilCheck } = await start();
  expect(await connection()).toMatchObject({ health: 'active', notCheckedSince: null });

  await page.goto(`${site.sandbox.issuer}/account`);
  await navigateBy(page, () => page.getByRole('button', { name: 'Revoke access' }).first().click());
  const checkedAt = await untilCheck();
  await until(() => messages().length > 0);
  const [message] = messages();
  const data = { userId, app: 'platform', cause: 'grant_refused' };
  expect(message).toMatchObject({ type: 'connection.reconnect_needed', data });
  expect(Date.parse(message?.timestamp ?? '')).toBeLessThanOrEqual(checkedAt + INTERVAL_SECONDS * 1000);

  const broken = await connection();
  expect(broken).toMatchObject({ health: 'reconnect_needed', cause: 'grant_refused' });
  expect(Date.parse(broken.checkedAt)).toBeGreaterThan(checkedAt);
  const { agent } = await signIn(site, 'admin@example.test');
  for (const path of ['/admin/connections?health=reconnect_needed', `/admin/users/${userId}`]) {
    const { body } = await agent.get(site.url + path);
    expect(body).toContain('Reconnect needed');
    expect(body).toContain('The provider has ended this connection.');
    expect(body).toContain(`<td data-label="Checked"><time datetime="${broken.checkedAt}"`);
  }

  await page.goto(broken.connectUrl);
  await page.getByText('Reconnect needed').waitFor();
  await page.getByText('The provider has ended this connection.').waitFor();
  await page.locator(`dd time[datetime="${broken.checkedAt}"]`).waitFor();
  await checkOnAllScreens(page, 'connection-check-broken');
  await navigateBy(page, () => page.getByRole('button', { name: 'Reconnect with these permissions' }).click());
  await completeProviderSignIn(page, site);
  await page.goto(`${site.url}/connections/platform`);
  await page.getByText('Active', { exact: true }).waitFor();
  expect(await connection()).toMatchObject({ health: 'active', cause: null, notCheckedSince: null });
  await until(() => messages().length > 1);
  expect(messages().map(({ type }) => type)).toEqual(['connection.reconnect_needed', 'connection.recovered']);
});

test('R113 R41 a connection whose check fails in an outage is unverified until the provider recovers, without a call', async () => {
  const { site, messages, page, connection, untilCheck } = await start();
  site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', kind: 'error' });
  await untilCheck();
  await until(async () => (await connection()).health === 'unverified');
  expect(await connection()).toMatchObject({ cause: 'provider_unavailable' });
  await page.goto(`${site.url}/connections`);
  await page.getByText('Unverified').first().waitFor();

  site.sandbox.faults.clear();
  // The longest pause.
  advanceClock(75);
  await until(async () => (await connection()).health === 'active');
  await page.reload();
  await page.getByText('Active', { exact: true }).first().waitFor();
  expect(messages()).toEqual([]);
  expect(
    (await getJson((await signIn(site, 'admin@example.test')).agent, `${site.url}/admin/api/overview`)).json,
  ).toMatchObject({ connections: { unverified: 0, reconnect_needed: 0 } });
});
