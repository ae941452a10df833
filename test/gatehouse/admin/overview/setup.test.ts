/** What is left to set up: each step is on the overview until a fact shows that it is done, or until it is dismissed. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { auditOperator } from '../../../../src/gatehouse/commands/operator-trail.ts';
import type { UserAgent } from '../../../support/browserless.ts';
import { CLIENT_SECRET, getJson, sandboxApp, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { openStorageOf, type StorageAccess } from '../../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../../relay/service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});

/** The steps in this state, in the order of the page. */
async function stepsThatAre(state: string): Promise<unknown[]> {
  const { setup } = (await admin.call('GET', '/overview')).json as { setup: { step: string; state: string }[] };
  return setup.filter((entry) => entry.state === state).map(({ step }) => step);
}

/** The open steps of the page, each with the path of its link. */
async function stepsOnPage(): Promise<(string | undefined)[][]> {
  const { body } = await agent.get(`${site.url}/admin`);
  const [, panel = ''] = /<section[^>]*aria-labelledby="setup-title">(.*?)<\/section>/s.exec(body) ?? [];
  return [...panel.matchAll(/<li>.*?<p>(.*?) <span(.*?)<form/gs)].map(([, text, rest = '']) => [
    text,
    /href="([^"]*)"/.exec(rest)?.[1],
  ]);
}

const APP_CHECK = ['Check a connected app', '/admin/connected-apps/platform/check'];
const SIGN_IN = ['Let a first user sign in', '/docs/your-front-end'];
const WEBHOOK = ['Create a webhook', '/admin/webhooks/new'];
const BACKUP = ['Make a backup', '/docs/backup'];
const ALERTS = ['Set up alerts', '/docs/operating#alerts-what-to-do'];

test('before the first sign-in, nothing is done', async () => {
  expect(await stepsThatAre('open')).toEqual([
    ...['app_check', 'sign_in', 'connection', 'webhook', 'backup', 'alerts'],
  ]);
});

test('the sign-in of the administrator is not yet that of a user', async () => {
  ({ agent } = await signIn(site, 'admin@example.test'));

  // With one app for both, a sign-in is also the first connection.
  expect(await stepsThatAre('done')).toEqual(['connection']);
  expect(await stepsOnPage()).toEqual([APP_CHECK, SIGN_IN, WEBHOOK, BACKUP, ALERTS]);
});

test('the connection is a step again once the last one has ended', async () => {
  const { items } = (await admin.call('GET', '/connections')).json as { items: { id: string }[] };
  await admin.call('DELETE', `/connections/${items[0]?.id}`);
  expect(await stepsOnPage()).toContainEqual(['Connect a first account', '/connections']);
});

test('another user completes the first sign-in', async () => {
  await signIn(site);
  expect(await stepsThatAre('done')).toEqual(['sign_in', 'connection']);
  expect(await stepsOnPage()).toEqual([APP_CHECK, WEBHOOK, BACKUP, ALERTS]);
});

test('an app counts once it has passed its check; with several apps, the step leads to their list', async () => {
  const failing = sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET, clientId: 'unknown-to-the-provider' });
  expect((await admin.call('POST', '/connected-apps', failing)).status).toBe(201);
  expect((await admin.call('POST', '/connected-apps/second/check')).status).toBe(200);
  expect(await stepsOnPage()).toContainEqual(['Check a connected app', '/admin/connected-apps']);

  expect((await admin.call('POST', '/connected-apps/platform/check')).status).toBe(200);
  expect(await stepsOnPage()).toEqual([WEBHOOK, BACKUP, ALERTS]);
});

test('a webhook and a backup are found', async () => {
  const webhook = { url: 'http://127.0.0.1:1/hook', events: ['connection.created'] };
  expect((await admin.call('POST', '/webhooks', webhook)).status).toBe(201);
  expect(await stepsOnPage()).toEqual([BACKUP, ALERTS]);

  // As `backup` does.
  await auditOperator(storage.store, { event: 'storage.backed_up', facts: { items: 1 } });
  expect(await stepsOnPage()).toEqual([ALERTS]);
});

test('a step that no fact shows is dismissed once for the installation, and the list is gone', async () => {
  const page = await agent.submit(await agent.get(`${site.url}/admin`), {}, { button: 'Dismiss Set up alerts' });

  expect(page.body).toContain('“Set up alerts” is dismissed.');
  expect(page.body).not.toContain('Finish setting up');
  expect(await stepsThatAre('dismissed')).toEqual(['alerts']);
  expect((await admin.call('GET', '/audit?event=setup.step_dismissed')).json.items).toMatchObject([
    { target: { kind: 'setup_step', id: 'alerts' }, actor: { kind: 'administrator', name: 'admin@example.test' } },
  ]);
});

test('only known steps can be dismissed, and only with the CSRF token', async () => {
  const { csrfToken } = (await getJson(agent, `${site.url}/session`)).json;
  const post = async (step: string, token: unknown) => {
    const body = new URLSearchParams({ _csrf: String(token) }).toString();
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const url = `${site.url}/admin/setup/${step}/dismiss`;
    return (await agent.request(url, { method: 'POST', follow: false, headers, body })).status;
  };
  expect([await post('nothing', csrfToken), await post('backup', 'wrong')]).toEqual([404, 403]);
  expect(await stepsThatAre('dismissed')).toEqual(['alerts']);
});
