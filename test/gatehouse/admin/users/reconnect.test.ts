/** An administrator finds a connection that needs reconnecting and copies a link with which its user reconnects. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RefreshFailure } from '../../../../src/gatehouse/grants/refresh-failure.ts';
import type { UserAgent } from '../../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../../grants/storage-access.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: UserAgent;
let userAgent: UserAgent;
let userId: string;
beforeAll(async () => {
  site = await startSite();
  storage = await openStorageOf(site);
  ({ agent: admin } = await signIn(site, 'admin@example.test'));
  ({ agent: userAgent } = await signIn(site));
  ({ userId } = await sessionOf(site, userAgent));
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});

const bodyOf = async (path: string) => (await admin.get(`${site.url}/admin/${path}`)).body;

test('the row of a connection that needs reconnecting has the link to the page where its user reconnects', async () => {
  const link = `${site.url}/connections/platform`;
  expect(await bodyOf('connections')).not.toContain('Copy reconnect link');
  expect(await bodyOf(`users/${userId}`)).not.toContain(link);

  const failure = {
    kind: 'reconnect_needed',
    cause: 'grant_refused',
    since: Date.now(),
    failures: 1,
    retryAt: 0,
  } satisfies RefreshFailure;
  await storage.changeGrant(userId, () => ({ failure }), 'platform');

  expect(await bodyOf('connections')).toContain('#reconnect">Copy reconnect link');
  const page = await bodyOf(`users/${userId}`);
  expect(page).toContain('id="reconnect"');
  expect(page).toContain(link);
  const reconnectPage = await userAgent.get(link);
  expect(reconnectPage.status).toBe(200);
  expect(reconnectPage.body).toContain('Reconnect');
});
