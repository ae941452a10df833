/** An app gets a new scope: connections still work, a service sees the missing scope, and a user adds it. */
import { afterEach, expect, test } from 'vitest';
import { bearer, createAdministrator, relayThread } from '../gatehouse/relay/service.ts';
import { useBrowser } from '../support/browser.ts';
import { openSharedStorage } from '../support/fleet.ts';
import { CLIENT_SECRET, sandboxApp, signIn } from '../support/gatehouse.ts';
import { completeProviderSignIn, jsonOf, navigateBy, userIdOf } from '../support/journey.ts';
import { startDocumentedSite } from '../support/recorded-responses.ts';
import { sendRequest } from '../support/send-request.ts';
import { until } from '../support/until.ts';
import { signedMessages, startReceiver } from '../support/webhook-receiver.ts';

const FULL = 'platform_full_access';
/** Called in reverse order, even after a failure. */
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});
const openPage = useBrowser();

test('R4 R109 R115 a new scope is missing until the user reconnects, and the connection keeps working', async () => {
  // Without checks, so that only a use finds the missing scope.
  const env = { CONNECTION_CHECK_SECONDS: '0' };
  const site = await startDocumentedSite({ sandbox: { accessTokenSeconds: 3_600 }, env });
  closing.push(site.close);
  const vault = await openSharedStorage(site.env);
  closing.push(() => vault.store.close());
  const admin = await createAdministrator(site, vault);
  const registration = (scopes: string[]) =>
    sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET, scopes: ['openid', 'offline_access', ...scopes] });
  const created = await admin.call('POST', '/connected-apps', registration(['platform_read_only']));
  const receiver = await startReceiver();
  closing.push(async () => receiver.close());
  const events = ['connection.scopes_missing', 'connection.removed'];
  const webhook = await admin.call('POST', '/webhooks', { url: receiver.url, events });
  const messages = () => signedMessages(receiver, String(webhook.json.secret));
  const page = await openPage();
  await page.goto(`${site.url}/sign-in?app=second`);
  await completeProviderSignIn(page, site);
  const userId = await userIdOf(page, site);
  const policy = { scopes: ['threads:read', 'connections:read'], apps: ['second'], assertUser: true };
  const { token } = await admin.createRelayToken(policy);
  const serviceView = async () => {
    const response = await sendRequest(`${site.url}/relay/connections?user=${userId}`, { headers: bearer(token) });
    return JSON.parse(response.body).items[0];
  };
  const administratorView = async () => (await admin.call('GET', `/connections/${userId}.second`)).json;
  const userView = async () => (await jsonOf(page, `${site.url}/connections`)).items[0];
  const expectPages = async ({ offer }: { offer: boolean }) => {
    for (const path of ['/', '/connections', '/connections/second']) {
      await page.goto(site.url + path);
      expect(/needs more permissions/i.test(await page.locator('main').innerText()), path).toBe(offer);
    }
  };
  const expectAll = async (seen: object) => {
    for (const view of [serviceView, administratorView, userView]) expect(await view()).toMatchObject(seen);
  };
  await expectAll({ health: 'active', missingScopes: [] });
  await expectPages({ offer: false });

  const { version } = created.json;
  const extended = { ...registration(['platform_read_only', FULL]), version };
  expect((await admin.call('PUT', '/connected-apps/second', extended)).status).toBe(200);
  await expectAll({ health: 'active', missingScopes: [FULL] });
  expect((await serviceView()).connectUrl).toBe(`${site.url}/connections/second`);
  await expectPages({ offer: true });
  const use = async () => expect((await relayThread(site, token, { 'gatehouse-user': userId })).status).toBe(200);
  await use();
  await until(() => messages().length > 0);
  const scopesMessage = {
    type: 'connection.scopes_missing',
    timestamp: expect.any(String),
    data: { userId, app: 'second', connection: expect.stringMatching(/^cn/), missingScopes: [FULL] },
  };
  expect(messages()).toEqual([scopesMessage]);
  await use();

  const { agent: administrator } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' });
  const listPage = async () => (await administrator.get(`${site.url}/admin/connections?scopes=missing`)).body;
  expect(await listPage()).toContain(`Lacks ${FULL}`);
  expect(await listPage()).toContain('<option value="missing" selected>');

  await page.goto(`${site.url}/`);
  await navigateBy(page, () => page.getByRole('button', { name: 'Add permissions Collaboration second' }).click());
  expect(await page.locator('main').innerText()).toContain('Create documents and messages');
  await completeProviderSignIn(page, site);
  await expectAll({ health: 'active', missingScopes: [], scopes: expect.arrayContaining([FULL, 'offline_access']) });
  expect((await serviceView()).connectUrl).toBeNull();
  await expectPages({ offer: false });
  expect(await listPage()).not.toContain('Lacks');

  // The message is not repeated by later uses, or if the app loses the scope and gets it back.
  for (const scopes of [['platform_read_only'], ['platform_read_only', FULL]]) {
    const read = await admin.call('GET', '/connected-apps/second');
    const change = { ...registration(scopes), version: read.json.version };
    expect((await admin.call('PUT', '/connected-apps/second', change)).status).toBe(200);
    await use();
  }
  await page.goto(`${site.url}/connections/second`);
  await navigateBy(page, () => page.getByRole('button', { name: 'Disconnect' }).click());
  await until(() => messages().length > 1);
  expect(messages()).toEqual([scopesMessage, expect.objectContaining({ type: 'connection.removed' })]);
});
