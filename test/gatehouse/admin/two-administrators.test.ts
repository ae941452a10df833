/** R146: two administrators change one record, with forms that both opened before either saved. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectedAppSchema } from '../../../src/shared/provider/connected-app.ts';
import type { Page, UserAgent } from '../../support/browserless.ts';
import { CLIENT_SECRET, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';

let site: TestSite;
let storage: StorageAccess;
/** An admin token, which is another actor. */
let api: Administrator;
let ada: UserAgent;
let uma: UserAgent;
beforeAll(async () => {
  site = await startSite({
    sandbox: { accessTokenSeconds: 3_600 },
    env: { ADMIN_CLAIM: 'sub', ADMIN_VALUES: 'sbx-00u1,sbx-00u3' },
  });
  storage = await openStorageOf(site);
  api = await createAdministrator(site, storage);
  ({ agent: ada } = await signIn(site, 'admin@example.test'));
  ({ agent: uma } = await signIn(site, 'user@example.test', { path: '/sign-in?return_to=/admin' }));
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});

const TIME = String.raw`at \d\d:\d\d UTC`;
const UMA = 'Uma Okafor';
const urlOf = (path: string) => `${site.url}/admin/${path}`;
/** Opens the form in both browsers before either saves. */
const openTwice = (path: string) =>
  Promise.all([ada, uma].map((agent) => agent.get(urlOf(path)))) as Promise<[Page, Page]>;
const read = async (path: string) => (await api.call('GET', `/${path}`)).json;
/** The text of the notice or summary at the top of a page. */
const topOf = ({ body }: Page) =>
  (
    /<div class="notice notice-(?:success|warning)" role[\s\S]*?<\/div>\s*<\/?(?:section|div|nav|form)/.exec(
      body,
    )?.[0] ?? ''
  )
    .replaceAll(/<[^>]+>/g, ' ')
    .replaceAll(/\s+/g, ' ');

let count = 0;
async function createApp(changes: object = {}): Promise<string> {
  count += 1;
  const id = `app-${count}`;
  const registration = sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET, name: 'Board', ...changes });
  const app = { ...registration, id, callbackUrls: [`${site.url}/oauth/callback/${id}`] };
  expect((await api.call('POST', '/connected-apps', app)).status).toBe(201);
  return `connected-apps/${id}`;
}
const save = (agent: UserAgent, page: Page, fields: Record<string, string>) =>
  agent.submit(page, fields, { button: 'Save' });

describe('R146 the form of a connected app', () => {
  test('keeps what only the other changed, and says so', async () => {
    const path = await createApp();
    const [own, theirs] = await openTwice(`${path}/settings`);
    expect(topOf(await save(uma, theirs, { name: 'Of Uma', returnUrls: 'https://uma.example.test/' }))).toContain(
      'Saved.',
    );
    const saved = await save(ada, own, { threadPath: '/of/ada' });
    expect(saved.status).toBe(200);
    expect(topOf(saved)).toMatch(new RegExp(`Saved\\..* Kept as ${UMA} changed it ${TIME}: Name, Return URLs\\.`));
    expect(await read(path)).toMatchObject({
      ...{ name: 'Of Uma', threadPath: '/of/ada', returnUrls: ['https://uma.example.test/'] },
    });
  });

  test('marks what both changed, with who and when, and replaces it only then', async () => {
    const path = await createApp();
    const [own, theirs] = await openTwice(`${path}/settings`);
    await save(uma, theirs, {
      name: 'Of Uma',
      returnUrls: 'https://uma.example.test/',
    });
    const late = await save(ada, own, { name: 'Of Ada', threadPath: '/of/ada' });
    expect(late.status).toBe(409);
    expect(topOf(late)).toMatch(
      new RegExp(
        `Nothing was saved yet.* ${UMA} changed “Name” to “Of Uma” ${TIME}\\. Save again to use your value\\.`,
      ),
    );
    expect(topOf(late)).toMatch(new RegExp(`Kept as ${UMA} changed it ${TIME}: Return URLs\\.`));
    expect(late.body).toMatch(/<li><a href="#name">Uma/);
    expect(late.body).toMatch(/id="name-fault">[\s\S]*?Uma Okafor changed/);
    expect(late.body).toContain('value="Of Ada"');
    expect(await read(path)).toMatchObject({ name: 'Of Uma' });

    expect((await save(ada, late, {})).status).toBe(200);
    const stored = await read(path);
    expect(stored).toMatchObject({
      ...{ name: 'Of Ada', threadPath: '/of/ada', returnUrls: ['https://uma.example.test/'] },
    });
  });

  test('shows a third change, too: the second try is not blind', async () => {
    const path = await createApp();
    const [own, theirs] = await openTwice(`${path}/settings`);
    await save(uma, theirs, { name: 'First' });
    const late = await save(ada, own, { name: 'Of Ada' });
    await save(uma, await uma.get(urlOf(`${path}/settings`)), { name: 'Second' });
    const later = await save(ada, late, {});
    expect([later.status, topOf(later)]).toEqual([409, expect.stringContaining('to “Second”')]);
    expect((await save(ada, later, {})).status).toBe(200);
    expect(await read(path)).toMatchObject({ name: 'Of Ada' });
  });

  test('shows the conflict of a value that is not valid, too', async () => {
    const path = await createApp();
    const [own, theirs] = await openTwice(`${path}/settings`);
    await save(uma, theirs, { name: 'Of Uma' });
    const late = await save(ada, own, { name: '' });
    expect(late.status).toBe(409);
    expect((await save(ada, late, {})).status).toBe(400);
    expect(await read(path)).toMatchObject({ name: 'Of Uma' });
  });

  test('merges callback URLs, scopes and routes', async () => {
    const route = (name: string, path: string) => ({ name, method: 'GET', path, query: [], scopes: [] });
    const { apiBaseUrl } = (await read('connected-apps/platform')) as { apiBaseUrl: string };
    const path = await createApp({ apiBaseUrl, routes: [route('one', '/1'), route('two', '/2')] });
    const id = path.split('/')[1];
    const [own] = await openTwice(`${path}/settings`);
    const before = await read(path);
    const theirs = {
      ...before,
      callbackUrls: [...(before.callbackUrls as string[]), 'https://theirs.example.test/cb'],
      scopes: [...(before.scopes as string[]), 'theirs'],
      routes: [route('one', '/changed'), route('two', '/2'), route('three', '/3')],
    };
    const { json, status } = await changeByApi(path, theirs);
    expect([status, json]).toMatchObject([200, { id }]);
    const form = own.forms.find(({ names }) => names.includes('routeName'));
    const body = new URLSearchParams([...(form?.fields ?? []), ['do', 'save']]);
    body.append('callbackUrl', 'https://own.example.test/cb');
    body.set('moreScopes', 'own');
    body.append('routeName', 'four');
    body.append('routeMethod', 'GET');
    body.append('routePath', '/4');
    body.append('routeQuery', '');
    body.append('routeScopes', '');
    const saved = await ada.request(urlOf(`${path}/settings`), { method: 'POST', body });
    expect(topOf(saved)).toMatch(/Kept as .* changed it .*: Scopes, Callback URLs, Routes\./);
    const after = await read(path);
    expect(after.scopes).toEqual([...(before.scopes as string[]), 'theirs', 'own']);
    expect(after.callbackUrls).toEqual([
      ...(before.callbackUrls as string[]),
      ...['https://theirs.example.test/cb', 'https://own.example.test/cb'],
    ]);
    expect(
      (after.routes as { name: string; path: string }[]).map(({ name, path: pattern }) => [name, pattern]),
    ).toEqual([
      ...[
        ['one', '/changed'],
        ['two', '/2'],
        ['three', '/3'],
        ['four', '/4'],
      ],
    ]);
  });

  test('marks the route that both changed, in its row', async () => {
    const { apiBaseUrl } = (await read('connected-apps/platform')) as { apiBaseUrl: string };
    const route = { name: 'one', method: 'GET', path: '/1', query: [], scopes: [] };
    const path = await createApp({ apiBaseUrl, routes: [{ ...route, name: 'other', path: '/o' }, route] });
    const [own] = await openTwice(`${path}/settings`);
    const before = await read(path);
    await changeByApi(path, { ...before, routes: [(before.routes as object[])[0], { ...route, path: '/theirs' }] });
    const body = new URLSearchParams(own.forms.find(({ names }) => names.includes('routeName'))?.fields ?? []);
    body.delete('routePath');
    for (const value of ['/o', '/own', '']) body.append('routePath', value);
    body.set('do', 'save');
    const late = await ada.request(urlOf(`${path}/settings`), { method: 'POST', body });
    expect([late.status, topOf(late)]).toEqual([
      409,
      expect.stringContaining('changed “Routes: one” to “GET /theirs”'),
    ]);
    expect(late.body).toMatch(/id="routeName-1-fault">/);
    expect((await save(ada, late, {})).status).toBe(200);
    expect(((await read(path)).routes as { path: string }[]).map(({ path: pattern }) => pattern)).toEqual([
      '/o',
      '/own',
    ]);
  });

  test('shows what would be saved, if that is not valid with what the other changed', async () => {
    const { apiBaseUrl } = (await read('connected-apps/platform')) as { apiBaseUrl: string };
    const path = await createApp({ apiBaseUrl });
    const [own, theirs] = await openTwice(`${path}/settings`);
    await save(uma, theirs, { apiBaseUrl: '', threadPath: '' });
    const route = { routeName: 'one', routeMethod: 'GET', routePath: '/1' };
    const late = await save(ada, own, route);
    expect([late.status, topOf(late)]).toEqual([409, expect.stringMatching(`Kept as ${UMA} .*API base URL`)]);
    expect(late.body).toMatch(/name="apiBaseUrl"[^>]*value=""/);
    const saved = await save(ada, late, { apiBaseUrl });
    expect([saved.status, topOf(saved)]).toEqual([200, expect.stringContaining('Saved.')]);
    expect(await read(path)).toMatchObject({ apiBaseUrl, routes: [{ name: 'one' }] });
  });

  test('names a choice as the page does', async () => {
    const path = await createApp();
    const [own, theirs] = await openTwice(`${path}/settings`);
    await save(uma, theirs, { dpop: 'off' });
    const late = await save(ada, own, { dpop: 'required' });
    expect([late.status, topOf(late)]).toEqual([409, expect.stringContaining('to “never” at')]);
  });

  test('says that the other replaced the client secret, without it', async () => {
    const path = await createApp();
    const [own, theirs] = await openTwice(`${path}/settings`);
    await save(uma, theirs, { clientSecret: 'secret of Uma' });
    const late = await save(ada, own, { clientSecret: 'secret of Ada', name: 'Of Ada' });
    expect(late.status).toBe(409);
    expect(topOf(late)).toMatch(new RegExp(`${UMA} changed “Client secret” ${TIME}\\. Enter yours again`));
    expect(late.body).not.toContain('secret of');
    // Left empty, the secret of the other stays.
    expect((await save(ada, late, {})).status).toBe(200);
    const [event] = (await read(`audit?target=${path.split('/')[1]}&event=connected_app.changed`)).items as {
      facts: object;
    }[];
    expect(event?.facts).toEqual({ changed: ['name'] });
  });

  test("has no conflict with one's own earlier save", async () => {
    const path = await createApp();
    const old = await ada.get(urlOf(`${path}/settings`));
    expect((await save(ada, old, { name: 'First', threadPath: '/first' })).status).toBe(200);
    const again = await save(ada, old, { name: 'Second' });
    expect([again.status, topOf(again)]).toEqual([200, expect.not.stringContaining('Kept')]);
    expect(await read(path)).toMatchObject({ name: 'Second', threadPath: '/first' });
  });

  test('names an admin token that changed it', async () => {
    const path = await createApp();
    const [own] = await openTwice(`${path}/settings`);
    await changeByApi(path, { ...(await read(path)), name: 'By API' });
    const late = await save(ada, own, { name: 'Of Ada' });
    expect(topOf(late)).toMatch(/ The admin token “test” changed “Name” to “By API” at/);
  });

  test('is enabled and disabled although something else was changed meanwhile', async () => {
    const path = await createApp();
    const question = await ada.get(urlOf(`${path}/disable`));
    await save(uma, await uma.get(urlOf(`${path}/settings`)), { name: 'First' });
    const disabled = await ada.submit(question, {}, { button: 'Disable app' });
    expect(disabled.status).toBe(200);
    await save(uma, await uma.get(urlOf(`${path}/settings`)), { name: 'Second' });
    expect((await ada.submit(disabled, {}, { button: 'Enable app' })).status).toBe(200);
    const { disabled: isDisabled = false, name } = await read(path);
    expect([isDisabled, name]).toEqual([false, 'Second']);
  });

  test('that has been deleted meanwhile says by whom', async () => {
    const path = await createApp();
    const [own] = await openTwice(`${path}/settings`);
    await uma.submit(await uma.get(urlOf(`${path}/delete`)), { typed: 'Board' }, { button: 'Delete app' });
    const late = await save(ada, own, { name: 'Of Ada' });
    expect(late.status).toBe(404);
    expect(late.body).toMatch(new RegExp(`${UMA} deleted this app ${TIME}\\. Your changes were not saved\\.`));
  });

  test.each(['', '7', '7 name', 'x name=abcdef', '7 name=<b>'])(
    'refuses %j in place of what it showed',
    async (base) => {
      const path = await createApp();
      const form = await ada.get(urlOf(`${path}/settings`));
      const refused = await save(ada, form, { base, name: 'Forged' });
      expect([refused.status, topOf(refused)]).toEqual([400, expect.stringContaining('Open the page again.')]);
    },
  );
});

const changeByApi = (path: string, { clientSecret: _, ...record }: Record<string, unknown>) =>
  api.call('PUT', `/${path}`, onlyRegistration(record));

/** The members that a change takes. */
function onlyRegistration(record: Record<string, unknown>): Record<string, unknown> {
  const names = [...Object.keys(connectedAppSchema.shape), 'version'];
  return Object.fromEntries(Object.entries(record).filter(([name]) => names.includes(name)));
}

describe('R146 the form of a relay token', () => {
  test('keeps what only the other changed, and marks what both changed', async () => {
    const { id } = await api.createRelayToken({ name: 'Nightly' });
    const path = `relay-tokens/${id}`;
    const [own, theirs] = await openTwice(`${path}/edit`);
    await save(uma, theirs, { name: 'Of Uma', networks: '10.0.0.0/8', expiry: '30' });
    const late = await save(ada, own, { name: 'Of Ada', binCallsPerMonth: '5', expiry: '90' });
    expect(late.status).toBe(409);
    expect(topOf(late)).toMatch(new RegExp(`${UMA} changed “Name” to “Of Uma” ${TIME}`));
    expect(topOf(late)).toMatch(new RegExp(`${UMA} changed “Expiry” to “\\d+ \\w+ \\d{4}” ${TIME}`));
    expect(topOf(late)).toMatch(/Kept as Uma Okafor changed it .*: Networks\./);
    expect(late.body).toMatch(/id="expiresOn-fault">/);
    expect((await save(ada, late, {})).status).toBe(200);
    const stored = await read(path);
    expect(stored).toMatchObject({ name: 'Of Ada', binCallsPerMonth: 5, networks: ['10.0.0.0/8'] });
    expect(Date.parse(String(stored.expiresAt)) - Date.now()).toBeGreaterThan(89 * 86_400_000);
  });

  test('marks what both changed after a fault in the later form, too', async () => {
    const { id } = await api.createRelayToken();
    const [own, theirs] = await openTwice(`relay-tokens/${id}/edit`);
    await save(uma, theirs, { name: 'Of Uma' });
    const faulty = await save(ada, own, { name: '' });
    expect([faulty.status, topOf(faulty)]).toEqual([400, expect.stringContaining('Correct this and try again')]);
    const late = await save(ada, faulty, { name: 'Of Ada' });
    expect([late.status, topOf(late)]).toEqual([409, expect.stringContaining('to “Of Uma”')]);
  });

  test('never allows more than both wanted: each removed the network that the other kept', async () => {
    const { id } = await api.createRelayToken({ networks: ['10.0.0.0/8', '192.0.2.0/24'] });
    const path = `relay-tokens/${id}`;
    const [own, theirs] = await openTwice(`${path}/edit`);
    await save(uma, theirs, { networks: '10.0.0.0/8' });
    const late = await save(ada, own, { networks: '192.0.2.0/24' });
    expect([late.status, topOf(late)]).toEqual([409, expect.stringContaining('changed “Networks” to “10.0.0.0/8”')]);
    expect((await read(path)).networks).toEqual(['10.0.0.0/8']);
  });

  test('that has been revoked meanwhile says by whom', async () => {
    const { id } = await api.createRelayToken();
    const [own] = await openTwice(`relay-tokens/${id}/edit`);
    await uma.submit(await uma.get(urlOf(`relay-tokens/${id}/revoke`)), {}, { button: 'Revoke relay token' });
    const late = await save(ada, own, { name: 'Of Ada' });
    expect([late.status, late.body]).toEqual([404, expect.stringMatching(`${UMA} deleted this relay token at`)]);
  });
});

test('R146 the form of a webhook keeps what only the other changed, and marks what both changed', async () => {
  const webhook = { url: 'http://127.0.0.1:1/hook', events: ['connection.created'] };
  const { id } = (await api.call('POST', '/webhooks', webhook)).json as { id: string };
  const path = `webhooks/${id}`;
  const [own, theirs] = await openTwice(`${path}/edit`);
  const third = await ada.get(urlOf(`${path}/edit`));
  await save(uma, theirs, { url: 'http://127.0.0.1:1/uma' });
  expect(topOf(await save(ada, own, { disabled: 'yes' }))).toMatch(
    new RegExp(`Kept as ${UMA} changed it ${TIME}: URL\\.`),
  );
  expect(await read(path)).toMatchObject({ url: 'http://127.0.0.1:1/uma', disabled: true });
  const late = await save(ada, third, { url: 'http://127.0.0.1:1/ada' });
  expect([late.status, topOf(late)]).toEqual([
    ...[409, expect.stringContaining(`${UMA} changed “URL” to “http://127.0.0.1:1/uma” at`)],
  ]);
  expect((await save(ada, late, {})).status).toBe(200);
  expect(await read(path)).toMatchObject({ url: 'http://127.0.0.1:1/ada', disabled: true });
});

/** The forms that replace a secret: how to create the record, the form with its button, and what it replaces. */
const SECRETS = [
  ['relay-tokens', () => api.createRelayToken(), 'rotate', 'Create new secret', 'Secret'],
  ['webhooks', () => create('webhooks', WEBHOOK), 'rotate', 'Create new secret', 'Secret'],
  ['service-accounts', createAccount, 'replace', 'Replace API token', 'API token'],
] as const;
const WEBHOOK = { url: 'http://127.0.0.1:1/hook', events: ['connection.created'] };
const create = async (path: string, record: object) =>
  (await api.call('POST', `/${path}`, record)).json as { id: string };
const tokenOfPlatform = async () => (await storage.readGrant((await sessionOf(site, ada)).userId)).accessToken;
async function createAccount() {
  return create('service-accounts', { name: 'Nightly', app: 'platform', apiToken: await tokenOfPlatform() });
}

describe.each(SECRETS)('R146 the secret of %s', (kind, createRecord, form, button, label) => {
  const replace = async (agent: UserAgent, page: Page) =>
    agent.submit(page, form === 'rotate' ? {} : { apiToken: await tokenOfPlatform() }, { button });
  async function openForms() {
    const path = `${kind}/${(await createRecord()).id}`;
    return { path, pages: await openTwice(`${path}/${form}`) };
  }

  test('is not replaced unseen after the other replaced it', async () => {
    const { path, pages } = await openForms();
    expect((await replace(uma, pages[1])).status).toBe(200);
    const { version } = await read(path);
    const late = await replace(ada, pages[0]);
    expect([late.status, topOf(late)]).toEqual([409, expect.stringMatching(`${UMA} changed “${label}” ${TIME}\\.`)]);
    expect(await read(path)).toMatchObject({ version });
    expect(late.body).not.toContain(await tokenOfPlatform());
    expect((await replace(ada, late)).status).toBe(200);
    expect(await read(path)).not.toMatchObject({ version });
  });

  test('is replaced by only one of two at the same instant', async () => {
    const { pages } = await openForms();
    const replaced = await Promise.all([replace(ada, pages[0]), replace(uma, pages[1])]);
    expect(replaced.map(({ status }) => status).toSorted()).toEqual([200, 409]);
  });

  test("is replaced again after one's own replacement, and after a change of something else", async () => {
    const { path, pages } = await openForms();
    const again = await ada.get(urlOf(`${path}/${form}`));
    if (kind === 'relay-tokens') await save(uma, await uma.get(urlOf(`${path}/edit`)), { name: 'Of Uma' });
    if (kind === 'webhooks') await save(uma, await uma.get(urlOf(`${path}/edit`)), { url: 'http://127.0.0.1:1/uma' });
    const { version } = await read(path);
    expect((await replace(ada, pages[0])).status).toBe(200);
    expect(await read(path)).not.toMatchObject({ version });
    expect((await replace(ada, again)).status).toBe(200);
  });

  test('of a record that has been deleted meanwhile says by whom', async () => {
    const { path, pages } = await openForms();
    const question = await uma.get(urlOf(`${path}/${kind === 'relay-tokens' ? 'revoke' : 'remove'}`));
    expect(question.status).toBe(200);
    await uma.submit(question, {}, { button: /<button[^>]*button-worst[^>]*>([^<]*)/.exec(question.body)?.[1] ?? '' });
    const late = await replace(ada, pages[0]);
    const words = `${UMA} deleted this ${kind.replace('-', ' ').slice(0, -1)} ${TIME}`;
    expect([late.status, late.body]).toEqual([404, expect.stringMatching(words)]);
  });
});

test.each(SECRETS.slice(0, 2))(
  'R146 the previous secret of %s is not ended unseen after the other rotated it',
  async (kind, createRecord) => {
    const path = `${kind}/${(await createRecord()).id}`;
    const rotate = async () =>
      uma.submit(await uma.get(urlOf(`${path}/rotate`)), { overlapHours: '2' }, { button: 'Create new secret' });
    await rotate();
    const end = (page: Page) => ada.submit(page, {}, { button: 'End previous secret' });
    const question = await ada.get(urlOf(`${path}/end-overlap`));
    await rotate();
    const { version } = await read(path);
    const late = await end(question);
    expect([late.status, topOf(late)]).toEqual([409, expect.stringMatching(`${UMA} changed “Secret” ${TIME}\\.`)]);
    expect(await read(path)).toMatchObject({ version, overlapEndsAt: expect.any(String) });
    expect((await end(late)).status).toBe(200);
    expect(await read(path)).toMatchObject({ overlapEndsAt: null });
  },
);

test('R146 the end of a previous secret hides no change of the name', async () => {
  const { id } = await api.createRelayToken();
  const path = `relay-tokens/${id}`;
  const [own, theirs] = await openTwice(`${path}/edit`);
  await save(uma, theirs, { name: 'Of Uma' });
  await api.call('POST', `/${path}/rotate`, { overlapSeconds: 60 });
  await ada.submit(await ada.get(urlOf(`${path}/end-overlap`)), {}, { button: 'End previous secret' });
  const late = await save(ada, own, { name: 'Of Ada' });
  expect([late.status, topOf(late)]).toEqual([409, expect.stringContaining(`${UMA} changed “Name” to “Of Uma”`)]);
});

test('R146 changes at the same instant are all made', async () => {
  const path = await createApp();
  const [own, theirs] = await openTwice(`${path}/settings`);
  const third = await ada.get(urlOf(`${path}/settings`));
  const saved = await Promise.all([
    save(ada, own, { name: 'At once' }),
    save(uma, theirs, { threadPath: '/at/once' }),
    save(ada, third, { moreScopes: 'at-once' }),
  ]);
  expect(saved.map(({ status }) => status)).toEqual([200, 200, 200]);
  const stored = await read(path);
  expect(stored).toMatchObject({ name: 'At once', threadPath: '/at/once' });
  expect(stored.scopes).toContain('at-once');
});
