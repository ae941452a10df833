/** The pages of connected apps: registered, mended, changed and deleted without a script; and whatever text lands in them. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createKeyRing, parseEncryptionKeys } from '../../src/storage/key-ring.ts';
import { keys } from '../../src/storage/keys.ts';
import { createSealer } from '../../src/storage/sealed.ts';
import { createSqliteStore } from '../../src/storage/sqlite-store.ts';
import type { Page, UserAgent } from '../support/browserless.ts';
import { CLIENT_SECRET, getJson, signIn, startSite, type TestSite } from '../support/gatehouse.ts';

let site: TestSite;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  ({ agent } = await signIn(site, 'admin@example.test'));
});
afterAll(() => site.close());

const open = (path: string) => agent.get(`${site.url}/admin/${path}`);
const SECOND = { id: 'second', name: 'Second', clientId: 'test-second', clientSecret: CLIENT_SECRET };

/** Sends the long form; `fields` may name one field several times. */
async function send(page: Page, button: string, fields: Record<string, string>, extra: [string, string][] = []) {
  const form = page.forms.find(({ names }) => names.includes('issuer'));
  if (!form) throw new Error(`No form on ${page.url}`);
  const body = new URLSearchParams(form.fields.filter(([name]) => !(name in fields)));
  for (const [name, value] of [...Object.entries(fields), ...extra]) body.append(name, value);
  body.set('do', button);
  return agent.request(new URL(form.action, page.url).href, { method: 'POST', body, headers: { origin: site.url } });
}

describe('somebody who has never seen it', () => {
  test('gives the issuer first, and the rest of it is read from there', async () => {
    const page = await send(await open('register-app'), 'read_provider', { ...SECOND, issuer: site.sandbox.issuer });
    expect(page.status).toBe(200);
    expect(page.body).toContain('The provider answered.');
    expect(page.body).toContain('revocation, end-session');
    expect(page.body).toContain('value="platform_read_only"');
    expect(page.body).toContain(`value="${site.url}/oauth/callback/second"`);
    expect(page.body).not.toContain(CLIENT_SECRET);
  });

  test.each([
    ['nothing', '', 'Give the issuer first'],
    ['a slash too many', '/', 'names another issuer'],
    ['a page that is no provider', '/nothing', 'no description of a provider'],
    ['a private address', 'https://10.0.0.1', 'private one'],
  ])('is told what is wrong with an issuer: %s', async (_name, given, words) => {
    const issuer = given.startsWith('/') ? site.sandbox.issuer + given : given;
    const page = await send(await open('register-app'), 'read_provider', { ...SECOND, issuer });
    expect(page.body).toContain(words);
  });

  test('R71 is told beside each callback URL which rule it breaks, and nothing is saved', async () => {
    const page = await send(await open('register-app'), 'save', { ...SECOND, issuer: site.sandbox.issuer }, [
      ['callbackUrl', `${site.url}/oauth/callback/second`],
      ['callbackUrl', 'https://*.example.com/cb'],
      ['callbackUrl', 'https://a.example/cb#fragment'],
    ]);
    expect(page.status).toBe(400);
    expect(page.body).toContain('Nothing was saved: 2 things have to be mended.');
    for (const [place, rule] of [
      ['1', 'wildcard'],
      ['2', 'fragment'],
    ]) {
      const fault = new RegExp(`id="callback-fault-${place}"[^>]*>[^]*?\\(${rule}\\)`);
      expect(page.body).toMatch(fault);
    }
    expect(page.body).not.toContain(CLIENT_SECRET);
    expect((await open('connected-apps/second')).status).toBe(404);
  });

  test('registers it, and sees what to enter at the provider', async () => {
    const page = await send(await open('register-app'), 'save', {
      ...SECOND,
      issuer: site.sandbox.issuer,
      signIn: 'everyone',
      apiBaseUrl: site.sandbox.platformUrl,
      moreScopes: 'platform_read_only',
    });
    expect(page.status).toBe(200);
    expect(page.body).toContain('The app is registered.');
    for (const url of [
      `${site.url}/oauth/callback/second`,
      `${site.url}/`,
      `${site.url}/oauth/backchannel-logout/second`,
    ])
      expect(page.body).toContain(`<code data-copy-source>${url}</code>`);
    expect(page.body).toContain('Set today.');
    const { page: signedIn } = await signIn(site, 'user@example.test', { path: '/sign-in?app=second' });
    expect(signedIn.status).toBe(200);
  });

  test('breaks its callback URL, and learns from the page alone what is wrong', async () => {
    const page = await send(await open('connected-apps/second'), 'save', {
      callbackUrl: 'https://elsewhere.example/cb',
    });
    expect(page.status).toBe(200);
    expect(page.body).toContain('add it here and at the provider');
    expect((await open('connected-apps')).body).toContain('Callback URL missing');
    const before = site.sandbox.hits.all();
    const { page: refused } = await signIn(site, 'user@example.test', { path: '/sign-in?app=second' });
    expect(refused.body).toContain('The callback URL of this app is not in its registration');
    expect(site.sandbox.hits.all()).toEqual(before);
    await send(await open('connected-apps/second'), 'save', { callbackUrl: `${site.url}/oauth/callback/second` });
  });
});

describe('an app that is there', () => {
  test('says before it is saved how many connections that affects', async () => {
    expect((await open('connected-apps/second')).body).toContain('Saving affects one connection.');
    expect((await open('connected-apps/platform')).body).toContain('CONNECTED_APPS_FILE');
    expect((await open('connected-apps/platform')).forms.some(({ names }) => names.includes('issuer'))).toBe(false);
  });

  test('two administrators cannot silently overwrite each other', async () => {
    const [mine, theirs] = [await open('connected-apps/second'), await open('connected-apps/second')];
    expect((await send(theirs, 'save', { name: 'Theirs' })).body).toContain('Saved.');
    const late = await send(mine, 'save', { name: 'Mine' });
    expect(late.status).toBe(409);
    expect(late.body).toContain('Somebody else changed this app');
    expect(late.body).toContain('value="Mine"');
    expect((await open('connected-apps/second')).body).toContain('<bdi>Theirs</bdi>');
    expect((await send(late, 'save', { name: 'Second' })).body).toContain('Saved.');
  });

  test('is disabled and enabled, and cannot be deleted while somebody is connected', async () => {
    const page = await open('connected-apps/second');
    expect(page.forms.some(({ buttons }) => buttons.some(({ text }) => text === 'Delete'))).toBe(false);
    const disabled = await agent.submit(page, {}, { button: 'Disable' });
    expect(disabled.body).toContain('The app is disabled');
    expect((await agent.submit(disabled, {}, { button: 'Enable' })).body).toContain('The app is enabled again.');
    const forced = await send(await open('connected-apps/second'), 'delete', {});
    expect(forced.body).toContain('disconnect everyone first');
  });

  test('reminds of a client secret that is older than 180 days', async () => {
    const key = keys.connectedApp('second');
    await onStorage(async (store, sealer) => {
      const stored = await store.get(key);
      const kept = JSON.parse(await sealer.open(stored?.value ?? '', key));
      kept.secretSetAt = Date.now() - 190 * 86_400_000;
      await store.write([{ put: key, value: await sealer.seal(JSON.stringify(kept), key) }]);
    });
    expect((await open('connected-apps/second')).body).toContain('The client secret was set 190 days ago.');
    expect((await open('connected-apps')).body).toContain('Old secret');
    const replaced = await send(await open('connected-apps/second'), 'save', { clientSecret: CLIENT_SECRET });
    expect(replaced.body).not.toContain('190 days ago');
  });

  test('R49 one that no key opens costs no other anything, and can be deleted', async () => {
    const key = keys.connectedApp('broken');
    await onStorage((store) =>
      store.write([
        { put: key, value: 'x' },
        { index: keys.connectedApps, add: 'broken', score: 1 },
        { put: keys.connectedAppsChange, value: 'x' },
      ]),
    );
    const list = await open('connected-apps');
    expect(list.body).toContain('Cannot be opened');
    expect(list.body).toContain('<bdi>Second</bdi>');
    expect((await open('connected-apps/broken')).status).toBe(404);
    const form = list.forms.find(({ action }) => action.endsWith('/broken'));
    expect(form).toBeDefined();
    const body = new URLSearchParams([...(form?.fields ?? []), ['do', 'delete_unreadable']]);
    const after = await agent.request(`${site.url}/admin/connected-apps/broken`, { method: 'POST', body });
    expect(after.body).not.toContain('Cannot be opened');
  });
});

describe('R88 hostile text', () => {
  const HOSTILE = {
    script: '</title></textarea><script>alert(1)</script>',
    quotes: `" autofocus onfocus="alert(1)" x='`,
    marks: 'safe\u202egnihsihp\u2066\u200f',
    template: '<%= it.page.csrfToken %>',
  };

  test.each(Object.entries(HOSTILE))('in names, client ids and claims breaks nothing: %s', async (_kind, text) => {
    const saved = await send(await open('connected-apps/second'), 'save', {
      name: text,
      clientId: text,
      signIn: 'claim',
      signInClaim: text,
      signInValues: text,
    });
    expect(saved.status).toBe(200);
    for (const path of ['connected-apps/second', 'connected-apps', 'audit']) expectWhole(await open(path), text);
    const shown = await send(await open('connected-apps/second'), 'save', {
      issuer: text,
      apiBaseUrl: text,
      returnUrls: text,
      callbackUrl: text,
      parameters: text,
      moreScopes: text,
    });
    expect(shown.status).toBe(400);
    expectWhole(shown, text);
  });

  test('10,000 characters in each field are refused, and the form stays usable', async () => {
    const text = 'W'.repeat(7_000);
    const page = await send(await open('connected-apps/second'), 'save', { name: text, clientId: text, issuer: text });
    expect([page.status, page.body.includes('things have to be mended')]).toEqual([400, true]);
    const search = await open(`connected-apps?q=${encodeURIComponent('<script>"')}`);
    expect([search.status, search.body.includes('value="&lt;script&gt;&quot;"')]).toEqual([200, true]);
    expect((await open(`connected-apps?q=${'x'.repeat(300)}`)).status).toBe(400);
  });

  function expectWhole({ body }: Page, text: string): void {
    expect(body).toMatch(/<\/html>\s*$/);
    expect(body).not.toMatch(/<script(?![^>]*src="\/assets\/[a-z-]+\.js")/);
    expect(body).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/);
    expect(body).not.toContain('onfocus="');
    if (text.includes('<script')) expect(body).not.toContain(text);
  }
});

test('nobody but administrators is shown the way there', async () => {
  expect((await agent.get(`${site.url}/connections`)).body).toContain('>Administration</a>');
  const other = await signIn(site, 'user@example.test', { path: '/sign-in?app=platform' });
  expect((await other.agent.get(`${site.url}/connections`)).body).not.toContain('Administration');
  expect((await getJson(other.agent, `${site.url}/session`)).json).toMatchObject({ user: { admin: false } });
});

async function onStorage(
  work: (
    store: Awaited<ReturnType<typeof createSqliteStore>>,
    sealer: ReturnType<typeof createSealer>,
  ) => Promise<unknown>,
): Promise<void> {
  const parsed = parseEncryptionKeys(site.env.ENCRYPTION_KEYS ?? '');
  if ('faults' in parsed) throw new Error(parsed.faults.join());
  const store = await createSqliteStore({ directory: site.dataDirectory, clock: Date.now, random: Math.random });
  try {
    await work(store, createSealer(createKeyRing(parsed.keys)));
  } finally {
    await store.close();
  }
}
