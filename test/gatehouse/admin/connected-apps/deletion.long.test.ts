/** Deleting an app with pending revocations: the confirmation page counts them, and they are abandoned. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { keys } from '../../../../src/shared/storage/keys.ts';
import { status } from '../../../support/broken-responses.ts';
import { createUserAgent, type UserAgent } from '../../../support/browserless.ts';
import { until } from '../../../support/until.ts';
import { disconnect, openStorageOf, type StorageAccess } from '../../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../../relay/service.ts';
import { attempt, type HostileSite, startHostileSite, textOf } from '../../sign-in/attempt.ts';

let site: HostileSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
beforeAll(async () => {
  site = await startHostileSite();
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  site.provider.signInAs({ sub: 'root', email: 'root@example.test', groups: ['gatehouse-admins'] });
  agent = (await attempt(site)).agent;
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});

async function register(id: string): Promise<void> {
  const { clientSecret: _, ...app } = site.provider.app(site.url, { id, name: `App ${id}`, signIn: undefined });
  const { clientSecret } = site.provider;
  expect((await admin.call('POST', '/connected-apps', { ...app, clientSecret })).status).toBe(201);
}

/** Connects as a new user and disconnects, while the provider does not confirm revocations. */
async function leavePendingRevocation(app: string, sub: string): Promise<void> {
  site.provider.reset();
  site.provider.signInAs({ sub });
  const user = createUserAgent();
  await attempt(site, { agent: user });
  const page = await user.get(`${site.url}/connections/${app}`);
  await user.submit(page, {}, { button: 'Connect' });
  site.provider.setModes({ responses: { revocation: status(503) } });
  expect(await disconnect(site, user, app)).toMatchObject({ revocation: 'pending' });
}

const openQuestion = async (app: string) => {
  const page = await agent.get(`${site.url}/admin/connected-apps/${app}/delete`);
  return { page, text: textOf(page.body) };
};

test('R52 the question counts pending revocations, which are abandoned with an audit entry', async () => {
  await register('files');
  await register('other');
  expect((await openQuestion('files')).text).not.toContain('revocation');
  await leavePendingRevocation('files', 'one');
  await leavePendingRevocation('other', 'one');
  expect((await openQuestion('files')).text).toContain(
    '1 pending revocation is abandoned. Its access remains at the provider.',
  );
  await leavePendingRevocation('files', 'two');
  const { page, text } = await openQuestion('files');
  expect(text).toContain('2 pending revocations are abandoned. Their access remains at the provider.');
  const deleted = await agent.submit(page, { typed: 'App files' }, { button: 'Delete app' });
  expect(textOf(deleted.body)).toContain('The app is deleted.');
  // Makes the pending revocations due now.
  const { items } = await storage.store.page(keys.revocations, { limit: 9 });
  await storage.store.write(items.map(({ member }) => ({ index: keys.revocations, add: member, score: 1 })));
  await site.restart();
  const readAbandoned = async () =>
    (await admin.call('GET', '/audit?event=revocation.abandoned')).json.items as { target: { id: string } }[];
  await until(async () => (await readAbandoned()).length === 2);
  expect((await readAbandoned()).map(({ target }) => target.id)).toEqual(
    Array(2).fill(expect.stringMatching(/\/files$/)),
  );
  const pending = (await admin.call('GET', '/revocations')).json.items;
  expect(pending).toMatchObject([{ app: 'other' }]);
});

test('R117 an app that cannot be opened is deleted once everyone has been disconnected on the page of its connections', async () => {
  await register('lost');
  site.provider.reset();
  site.provider.signInAs({ sub: 'kept' });
  const user = createUserAgent();
  await attempt(site, { agent: user });
  await user.submit(await user.get(`${site.url}/connections/lost`), {}, { button: 'Connect' });
  await storage.store.write([
    { put: keys.connectedApp('lost'), value: 'damaged' },
    { put: keys.connectedAppsChange, value: '1' },
  ]);
  const deleteApp = () => admin.call('DELETE', '/connected-apps/lost');
  await until(async () => (await user.get(`${site.url}/connections/lost`)).status === 404);
  expect(await deleteApp()).toMatchObject({ status: 400, json: { errors: [{ rule: 'has_connections' }] } });
  const page = await agent.get(`${site.url}/admin/connections?app=lost`);
  expect(page.body).toContain('/admin/connected-apps/lost/disconnect-everyone');
  const question = await agent.get(`${site.url}/admin/connected-apps/lost/disconnect-everyone`);
  await agent.submit(question, { typed: 'lost' }, { button: 'Disconnect all 1' });
  await until(async () => (await deleteApp()).status === 204);
});
