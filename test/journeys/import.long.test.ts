/**
 * An operator imports connections from another system. A user signs in and has the connection without consenting again,
 * and a service calls for the user.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectionsOf, openStorageOf, type StorageAccess, sessionOf } from '../gatehouse/grants/storage-access.ts';
import { createAdministrator, relayThread } from '../gatehouse/relay/service.ts';
import { useBrowser } from '../support/browser.ts';
import { getJson, sandboxApp, signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { expectFitsWindow, signInWithBrowser } from '../support/journey.ts';
import { runCommand } from '../support/terminal.ts';
import { until } from '../support/until.ts';

const openPage = useBrowser();
let site: TestSite;
let storage: StorageAccess;
beforeAll(async () => {
  site = await startSite({
    apps: (urls) => [sandboxApp(urls, 'platform'), sandboxApp(urls, 'second', { signIn: undefined })],
  });
  storage = await openStorageOf(site);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

/** Returns the connection of a user as another system would have it, and removes it here. */
async function exportConnection(login?: string) {
  const { agent } = await signIn(site, login);
  const { userId } = await sessionOf(site, agent);
  let page = await agent.submit(await agent.get(`${site.url}/connections/second`), {}, { button: 'Connect' });
  while (page.forms.some((form) => form.buttons.some(({ text }) => text === 'Allow')))
    page = await agent.submit(page, {}, { button: 'Allow' });
  const stored = await storage.grants.loadStored(userId, 'second');
  if (!stored || 'unreadable' in stored) throw new Error('There is no grant.');
  await storage.grants.remove(userId, 'second', stored.version);
  const { refreshToken, account, scopes } = stored.grant;
  return { userId, refreshToken, subject: account.subject, scopes };
}

test('an operator imports a connection by command, and the user reads the thread', async () => {
  const { userId, refreshToken, subject, scopes } = await exportConnection();
  const file = join(site.dataDirectory, 'from-the-old-system.json');
  writeFileSync(file, JSON.stringify([{ user: { subject }, app: 'second', refreshToken, scopes }]));
  const result = await runCommand(['connections', 'import', file], site.env);
  expect(result).toMatchObject({
    status: 0,
    stderr: '',
    stdout: '1 imported, 0 already connected, 0 refused, 0 not checked, 0 not valid.\n',
  });

  const { agent } = await signIn(site);
  const authorizations = site.sandbox.requests.count('GET /authorize');
  const { status, json } = await getJson(agent, `${site.url}/threads/current?app=second`);
  expect([status, json.problem]).toEqual([200, undefined]);
  expect(site.sandbox.requests.count('GET /authorize')).toBe(authorizations);
  expect(await connectionsOf(site, agent)).toContainEqual(expect.objectContaining({ app: 'second', health: 'active' }));
  expect((await storage.readGrant(userId, 'second')).scopes.toSorted()).toEqual(scopes.toSorted());
});

test('R111 in Chromium: the report names failures, a service calls for the user, and the user sees the connection', async () => {
  const page = await openPage();
  const { userId, refreshToken, subject, scopes } = await exportConnection('second@example.test');
  const lines = [
    { user: { subject }, app: 'second', refreshToken, scopes },
    { user: { subject: 'somebody-else' }, app: 'second', refreshToken: 'never-issued' },
  ];
  const file = join(site.dataDirectory, 'grants.jsonl');
  writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const result = await runCommand(['connections', 'import', file], site.env);
  expect([result.status, result.stderr]).toEqual([1, '']);
  expect(result.stdout).toContain('1 imported, 0 already connected, 1 refused, 0 not checked, 0 not valid.');
  expect(result.stdout).toMatch(/2 +refused +second +\S+ +The provider has ended this connection\./);
  for (const { refreshToken: token } of lines) expect(result.stdout).not.toContain(token);

  const admin = await createAdministrator(site, storage);
  const policy = { name: 'Nightly reports', scopes: ['threads:read'], apps: ['second'], assertUser: true };
  const { token } = await admin.createRelayToken(policy);
  const authorizations = site.sandbox.requests.count('GET /authorize');
  expect((await relayThread(site, token, { 'gatehouse-user': userId })).status).toBe(200);

  await signInWithBrowser(page, site, 'second@example.test');
  // Only the sign-in.
  expect(site.sandbox.requests.count('GET /authorize')).toBe(authorizations + 1);
  const connectionText = async () => {
    await page.goto(`${site.url}/connections/second`);
    return page.locator('main').innerText();
  };
  expect(await connectionText()).toContain('Active');
  expect(await connectionText()).toContain(`Connected as ${subject}`);
  // Uses by services are stored with a delay.
  await until(async () => (await connectionText()).includes('Nightly reports'));
  await expectFitsWindow(page);
});
