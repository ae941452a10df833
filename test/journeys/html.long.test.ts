/** Valid HTML of pages after a form or an error, and of the sandbox. accessibility.long.test.ts has linked pages. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBinSiteWithAccounts } from '../bin-lookup-service/site.ts';
import { openStorageOf, sessionOf } from '../gatehouse/grants/storage-access.ts';
import { bearer, createAdministrator, PERMISSIVE_POLICY } from '../gatehouse/relay/service.ts';
import { createUserAgent } from '../support/browserless.ts';
import { crawl } from '../support/crawl.ts';
import { PASSWORD, sandboxApp, signIn, type TestSite } from '../support/gatehouse.ts';
import { startDocumentedSite } from '../support/recorded-responses.ts';
import { JSON_BODY, sendRequest } from '../support/send-request.ts';
import { expectValid } from '../support/valid-html.ts';

const PATH = { path: '/sign-in?app=platform' };

let site: TestSite;
beforeAll(async () => {
  site = await startDocumentedSite({
    apps: (urls) => [
      sandboxApp(urls, 'platform'),
      sandboxApp(urls, 'second', { callbackUrls: ['https://other.example.com/cb'] }),
    ],
    env: { ADMIN_APP: 'platform' },
  });
});
afterAll(() => site?.close());

test('pages before the sign-in and of failed sign-ins are valid', async () => {
  const agent = createUserAgent();
  const paths = ['/', '/sign-in', '/docs', '/nowhere', '/problems/not_found', '/oauth/callback/platform?state=x'];
  await expectValid(...(await Promise.all(paths.map((path) => agent.get(site.url + path)))));
  const login = await agent.get(`${site.url}/sign-in?app=platform`);
  const wrong = await agent.submit(login, { login: 'user@example.test', password: 'wrong' });
  const consent = await agent.submit(wrong, { login: 'user@example.test', password: PASSWORD });
  const denied = await agent.submit(consent, {}, { button: 'Deny' });
  expect(denied.body).toContain('data-copy-source');
  await expectValid(login, wrong, consent, denied);
});

test('pages of users after a form are valid', async () => {
  const { agent, page } = await signIn(site, 'user@example.test', PATH);
  const card = await agent.submit(page, { bin: '45717360' });
  const refused = await agent.submit(page, { bin: '4' });
  const forbidden = await agent.get(`${site.url}/admin`);
  const ended = await agent.submit(await agent.get(`${site.url}/connections/platform`), {}, { button: 'Disconnect' });
  expect([card.status, refused.status, forbidden.status, ended.status]).toEqual([200, 400, 403, 200]);
  await expectValid(card, refused, forbidden, ended);
});

test('pages of administrators after a form or a call of a service are valid', async () => {
  const storage = await openStorageOf(site);
  const admin = await createAdministrator(site, storage);
  const { token } = await admin.createRelayToken({ ...PERMISSIVE_POLICY, assertUser: true });
  await admin.call('POST', '/webhooks', { url: `${site.sandbox.platformUrl}/hook`, events: ['connection.created'] });
  await storage.close();
  const { agent } = await signIn(site, 'admin@example.test', PATH);
  const { userId: user } = await sessionOf(site, agent);
  const link = await sendRequest(`${site.url}/relay/connect-links`, {
    method: 'POST',
    headers: { ...bearer(token), ...JSON_BODY },
    body: JSON.stringify({ userId: user, app: 'platform' }),
  });
  const { id, url } = JSON.parse(link.body);
  const open = (path: string) => agent.get(`${site.url}/admin/${path}`);
  const appInput = (end: string) => ({ id: 'third', name: 'Third', issuer: site.sandbox.issuer + end });
  await expectValid(
    await agent.get(url),
    await open('connect-links'),
    await open(`connect-links/${id}/revoke`),
    await open('connected-apps/platform'),
    await open('connected-apps/platform/settings'),
    await open('connected-apps/second'),
    await open('connected-apps/second/settings'),
    await open('connected-apps/second/activity'),
    await agent.submit(await open('connected-apps/second'), {}, { button: 'Check now' }),
    await agent.submit(await open('register-app'), { id: 'A b' }),
    await agent.submit(await open('register-app?preset=auth0'), {}, { button: 'Continue' }),
    await agent.submit(await open('register-app'), appInput(''), { button: 'Continue' }),
    await agent.submit(await open('register-app'), appInput('/'), { button: 'Continue' }),
    await open('connected-apps/second/check'),
    await agent.submit(await open('relay-tokens/new'), { name: '', expiry: 'date', networks: '10.0.0.0/99' }),
    await agent.submit(await open('relay-tokens/new'), { name: 'Made', apps: 'platform', expiry: '30' }),
    await agent.submit(await open('admin-tokens/new'), { name: '', expiry: 'date' }),
    await agent.submit(await open('webhooks/new'), { url: 'nowhere' }),
    await agent.submit(await open('service-accounts/new'), { name: '', apiToken: '' }),
    await agent.submit(await open('policy'), { address: '10.0.0.1' }),
    await open('users?q=nobody-is-called-so'),
    await open('search?q=a'),
    await open('search?q=nobody-is-called-so'),
  );
});

test('pages of the sandbox are valid', async () => {
  const { agent } = await signIn(site, 'admin@example.test', PATH);
  const { origin } = new URL(site.sandbox.issuer);
  const open = (path: string) => agent.get(`${origin}/console${path}`);
  const codePage = await open('');
  await agent.submit(codePage, { code: site.sandbox.secondFactorCode('admin@example.test') ?? '' });
  const pages = [...(await crawl(agent, `${origin}/`)), ...(await crawl(agent, `${origin}/console`))];
  expect(pages.length).toBeGreaterThan(10);
  await expectValid(codePage, ...pages);
  await expectValid(
    await agent.submit(await open('/apps/new'), { name: '' }),
    await agent.submit(await open('/apps/new'), { name: 'Board', callbackUrls: 'https://board.example/cb' }),
    await agent.submit(await open('/tokens'), { name: '' }),
    await agent.submit(await open('/tokens'), { name: 'Reports' }),
    await agent.submit(await open('/users'), { login: '' }),
    await agent.submit(await open('/registration'), {}, { button: 'Create an initial access token' }),
    await open('/apps/nobody'),
  );
});

test('pages of the BIN lookup service are valid', async () => {
  const service = await startBinSiteWithAccounts({ PLANS: 'small:50' });
  try {
    const { agent, page } = await signIn(service, 'user@example.test', { path: '/account/sign-in' });
    const created = await agent.submit(page, { name: 'mine', networks: '' });
    const faulty = await agent.submit(created, { name: ' ', networks: 'x' });
    const planned = await agent.submit(created, { plan: 'small' });
    const notFound = await agent.get(`${service.url}/account/nowhere`);
    await expectValid(await createUserAgent().get(`${service.url}/account`), page, created, faulty, planned, notFound);
  } finally {
    await service.close();
  }
});
