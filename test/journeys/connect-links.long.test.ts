/** A service sends its user a connect link: the user signs in, consents and returns. Others cannot use it. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { openStorageOf, type StorageAccess, sessionOf } from '../gatehouse/grants/storage-access.ts';
import { type Administrator, bearer, createAdministrator } from '../gatehouse/relay/service.ts';
import { useBrowser } from '../support/browser.ts';
import { type StoreKind, startFleet } from '../support/fleet.ts';
import { PASSWORD, sandboxApp, signIn, type TestSite } from '../support/gatehouse.ts';
import { checkOnAllScreens, completeProviderSignIn, navigateBy, signInWithBrowser } from '../support/journey.ts';
import { skipIfMissing } from '../support/missing.ts';
import { startDocumentedSite } from '../support/recorded-responses.ts';
import { missingRedis } from '../support/redis-server.ts';
import { JSON_BODY, sendRequest } from '../support/send-request.ts';
import { until } from '../support/until.ts';

const UMA = 'user@example.test';
const SVEN = 'second@example.test';
/** The console error of pages that refuse. */
const REFUSED = /Failed to load resource: the server responded with a status of 40[34]/;

const openPage = useBrowser();
/** Receives webhook messages, and users who return. */
let service: Server;
let serviceUrl: string;
const messages: { type: string; data: Record<string, string> }[] = [];
let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let token: string;
let uma: string;
let sven: string;
beforeAll(async () => {
  service = createServer(async (req, res) => {
    let body = '';
    for await (const chunk of req) body += chunk;
    if (req.url === '/hook') messages.push(JSON.parse(body));
    res
      .setHeader('Content-Type', 'text/html')
      .end('<!doctype html><title>Service</title><link rel="icon" href="data:,">');
  }).listen(0, '127.0.0.1');
  await once(service, 'listening');
  serviceUrl = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;
  site = await startDocumentedSite({
    app: { returnUrls: [`${serviceUrl}/connected`] },
    sandbox: { accessTokenSeconds: 3_600 },
  });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ token } = await admin.createRelayToken({ scopes: ['connect_links:create'], assertUser: true }));
  await admin.call('POST', '/webhooks', { url: `${serviceUrl}/hook`, events: ['connection.created'] });
  const idOf = async (login: string) => (await sessionOf(site, (await signIn(site, login)).agent)).userId;
  uma = await idOf(UMA);
  sven = await idOf(SVEN);
});
afterAll(async () => {
  await storage.close();
  await site.close();
  service.close();
});

async function createLink(target = { url: site.url, token, userId: uma }): Promise<{ id: string; url: string }> {
  const response = await sendRequest(`${target.url}/relay/connect-links`, {
    method: 'POST',
    headers: { ...bearer(target.token), ...JSON_BODY },
    body: JSON.stringify({ userId: target.userId, app: 'platform', returnUrl: `${serviceUrl}/connected` }),
  });
  return JSON.parse(response.body);
}
const usedLinks = async () =>
  Number(
    /^gatehouse_connect_links_used_total (\d+)/m.exec((await sendRequest(`${site.managementUrl}/metrics`)).body)?.[1],
  );
const messageOf = (id: string) => messages.find(({ data }) => data.connectLink === id);
const words = (page: Page) => page.locator('main').innerText();
const press = (page: Page, name: string) =>
  navigateBy(page, () => page.getByRole('button', { name, exact: true }).click());
/** Signs in at the provider, where another account is signed in. */
async function chooseAccount(page: Page, login: string): Promise<void> {
  await page.locator('input[name=login]').fill(login);
  await page.locator('input[name=password]').fill(PASSWORD);
  await press(page, 'Sign in');
  await press(page, 'Switch');
}
async function allow(page: Page): Promise<void> {
  await completeProviderSignIn(page, { url: serviceUrl });
  expect(page.url()).toBe(`${serviceUrl}/connected`);
}

test('R114 the user signs in, consents and returns to the service, which receives a webhook message with the link', async () => {
  const { id, url } = await createLink();
  const before = await storage.readGrant(uma);
  const usedBefore = await usedLinks();
  const page = await openPage({}, REFUSED);
  await page.goto(url);
  await completeProviderSignIn(page, site);
  expect(page.url()).toBe(url);
  await checkOnAllScreens(page, 'connect-link');
  expect(await words(page)).toContain('reports asks you to connect');
  expect(messageOf(id)).toBeUndefined();
  await press(page, 'Connect');
  await allow(page);
  expect((await storage.readGrant(uma)).accessToken).not.toBe(before.accessToken);
  await until(() => messageOf(id) !== undefined);
  expect(messageOf(id)).toMatchObject({ type: 'connection.created', data: { userId: uma, app: 'platform' } });
  expect(await usedLinks()).toBe(usedBefore + 1);
  await page.goto(url);
  expect(await words(page)).toContain('This link no longer works');
});

test('R114 for another user the page says why, and "Use another account" returns to the link', async () => {
  const { id, url } = await createLink();
  const [ofUma, ofSven] = [await storage.readGrant(uma), await storage.readGrant(sven)];
  const page = await openPage({}, REFUSED);
  await signInWithBrowser(page, site, SVEN);
  const signedIn = await storage.readGrant(sven);
  await page.goto(url);
  expect(await words(page)).toContain('This link is for another user');
  await checkOnAllScreens(page, 'connect-link-other-user');
  expect([await storage.readGrant(uma), await storage.readGrant(sven)]).toEqual([ofUma, signedIn]);
  expect(ofSven.account).toEqual(signedIn.account);
  const authorizationRequest = page.waitForRequest((request) => request.url().includes('/authorize?'));
  await press(page, 'Use another account');
  expect(new URL((await authorizationRequest).url()).searchParams.get('prompt')).toContain('select_account');
  await chooseAccount(page, UMA);
  await completeProviderSignIn(page, site);
  expect(page.url()).toBe(url);
  await press(page, 'Connect');
  await allow(page);
  await until(() => messageOf(id) !== undefined);
  expect(await storage.readGrant(sven)).toEqual(signedIn);
});

test('R114 another account at the provider stores nothing, and the link can still connect the user’s account', async () => {
  const { id, url } = await createLink();
  const page = await openPage({}, REFUSED);
  await signInWithBrowser(page, site, UMA);
  const before = await storage.readGrant(uma);
  await page.goto(`${url}?prompt=select_account`);
  await press(page, 'Connect');
  await chooseAccount(page, SVEN);
  await completeProviderSignIn(page, site);
  expect(await words(page)).toContain('a different account than the one that this link is for');
  await checkOnAllScreens(page, 'connect-link-other-account');
  expect(await storage.readGrant(uma)).toEqual(before);
  expect(messageOf(id)).toBeUndefined();
  await navigateBy(page, () => page.getByRole('link', { name: 'Use another account' }).click());
  await press(page, 'Connect');
  await chooseAccount(page, UMA);
  await allow(page);
  expect((await storage.readGrant(uma)).account).toMatchObject({ email: UMA });
});

test('R114 an administrator sees the links and revokes one, which then no longer works', async () => {
  const [{ id, url }, { id: otherId }] = [await createLink(), await createLink()];
  const user = await openPage({}, REFUSED);
  await signInWithBrowser(user, site);
  await user.goto(url);
  const page = await openPage();
  await page.goto(`${site.url}/sign-in?return_to=/admin/connect-links`);
  await completeProviderSignIn(page, site, 'admin@example.test');
  await checkOnAllScreens(page, 'admin-connect-links');
  const rowOf = (link: string) => page.getByRole('row').filter({ has: page.locator(`input[value="${link}"]`) });
  await rowOf(id).locator('summary').click();
  await rowOf(id).getByRole('link', { name: 'Revoke…' }).click();
  await page.getByRole('dialog', { name: /^Revoke the connect link/ }).waitFor();
  await press(page, 'Revoke connect link');
  expect(await words(page)).toContain('Connect link revoked.');
  expect([await rowOf(id).count(), await rowOf(otherId).count()]).toEqual([0, 1]);
  await press(user, 'Connect');
  expect(await words(user)).toContain('This link no longer works');
});

test.for<StoreKind>(['SQLite', 'Redis'])(
  'R114 two processes on %s: a link of one works at the other, even after a kill during the token response',
  async (kind, context) => {
    if (kind === 'Redis') skipIfMissing(context, missingRedis);
    const returnUrls = [`${serviceUrl}/connected`];
    const fleet = await startFleet({
      kind,
      processes: 2,
      apps: (urls) => [sandboxApp(urls, 'platform', { returnUrls })],
    });
    onTestFinished(fleet.close);
    const administrator = await createAdministrator(fleet.member(1), fleet.storage);
    await administrator.call('POST', '/webhooks', { url: `${serviceUrl}/hook`, events: ['connection.created'] });
    const { token: fleetToken } = await administrator.createRelayToken({
      scopes: ['connect_links:create'],
      assertUser: true,
    });
    const { userId } = await fleet.signIn(UMA);
    const { id, url } = await createLink({ url: fleet.member(1).url, token: fleetToken, userId });

    const page = await openPage({}, /net::ERR_(EMPTY_RESPONSE|CONNECTION_(RESET|REFUSED))/);
    await page.goto(url);
    await completeProviderSignIn(page, fleet);
    const before = await fleet.storage.readGrant(userId);
    // The provider has this user's consent, so it redirects the browser at once.
    const held = fleet.tokenEndpoint.holdNext();
    await page.getByRole('button', { name: 'Connect', exact: true }).click({ noWaitAfter: true });
    await held.prepared;
    await fleet.member(0).kill();
    held.release();
    await fleet.member(0).start();
    expect(await fleet.storage.readGrant(userId)).toEqual(before);
    expect(messageOf(id)).toBeUndefined();

    await page.goto(url);
    await press(page, 'Connect');
    await allow(page);
    expect((await fleet.storage.readGrant(userId)).accessToken).not.toBe(before.accessToken);
    await until(() => messageOf(id) !== undefined);
    expect(messages.filter(({ data }) => data.connectLink === id)).toHaveLength(1);
  },
);
