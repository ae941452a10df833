/** Pages of connected apps without a script: register, correct, change and delete, and hostile text. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PRESETS, type Preset, presetLimits, signsIn } from '../../../../src/gatehouse/connected-apps/presets.ts';
import { parseEncryptionKeys } from '../../../../src/shared/storage/key-ring.ts';
import { keys } from '../../../../src/shared/storage/keys.ts';
import { createSealer } from '../../../../src/shared/storage/sealed.ts';
import { createSqliteStore } from '../../../../src/shared/storage/sqlite/store.ts';
import { linkOn, type Page, type UserAgent } from '../../../support/browserless.ts';
import { CLIENT_SECRET, getJson, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { disconnect } from '../../grants/storage-access.ts';

let site: TestSite;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  ({ agent } = await signIn(site, 'admin@example.test'));
});
afterAll(() => site.close());

const open = (path: string) => agent.get(`${site.url}/admin/${path}`);
const NEW_CALLBACK_URL = 'Add each new callback URL at the provider, too.';
const SECOND = { id: 'second', name: 'Second', clientId: 'test-second', clientSecret: CLIENT_SECRET };

/** Sends the long form; `fields` may name one field several times. */
async function submitForm(page: Page, button: string, fields: Record<string, string>, extra: [string, string][] = []) {
  const form = page.forms.find(({ names }) => names.includes('issuer'));
  if (!form) throw new Error(`No form on ${page.url}`);
  const body = new URLSearchParams(form.fields.filter(([name]) => !(name in fields)));
  for (const [name, value] of [...Object.entries(fields), ...extra]) body.append(name, value);
  body.set('do', button);
  return agent.request(new URL(form.action, page.url).href, { method: 'POST', body, headers: { origin: site.url } });
}

async function deleteApp(id: string, name: string): Promise<void> {
  const question = await agent.follow(await open(`connected-apps/${id}/settings`), 'Delete app…');
  const refused = await agent.submit(question, { typed: `not ${name}` }, { button: 'Delete app' });
  expect(refused.status).toBe(400);
  const after = await agent.submit(refused, { typed: name }, { button: 'Delete app' });
  expect(after.body).toContain('The app is deleted.');
}

describe('starting from a provider', () => {
  const openPreset = (preset: string) => open(`register-app?preset=${preset}`);
  const fieldsOf = (page: Page) =>
    Object.fromEntries(page.forms.find(({ names }) => names.includes('issuer'))?.fields ?? []);

  test('fills the form from the preset, and shows facts with their sources', async () => {
    const page = await openPreset('zoom');
    expect(page.url).toBe(`${site.url}/admin/register-app?preset=zoom`);
    expect(fieldsOf(page)).toMatchObject({
      ...{ id: 'zoom', name: 'Zoom', issuer: 'https://zoom.us', refresh: 'rotating' },
      ...{ apiBaseUrl: 'https://api.zoom.us', 'endpoints-token': 'https://zoom.us/oauth/token' },
    });
    expect(page.body).toContain('<a href="https://github.com/kyleboe/zoom_rb/pull/385" rel="noreferrer">Source</a>');
    expect(page.body).toContain('<em>Not confirmed.</em>');
  });

  test('shows for each preset whether users can sign in', async () => {
    const { body } = await open('register-app');
    const [, forSignIn = '', onlyToConnect = ''] = body.split(/<h3>.*<\/h3>/);
    for (const preset of PRESETS) {
      const group = signsIn(preset) ? forSignIn : onlyToConnect;
      expect([preset.id, group.includes(`preset=${preset.id}">${preset.name}</a>`)]).toEqual([preset.id, true]);
    }
    expect(onlyToConnect).toContain('GitHub App');
    const { body: chosen } = await openPreset('github-app');
    expect(chosen).toContain('not sign in with it');
    for (const text of presetLimits(PRESETS.find(({ id }) => id === 'github-app') as Preset))
      expect(chosen).toContain(text);
  });

  test('asks for the placeholders of the preset, and fills them in', async () => {
    const page = await openPreset('auth0');
    expect(page.body).toContain('placeholder="');
    const missing = await submitForm(page, 'read_provider', {});
    expect([missing.status, missing.body]).toEqual([400, expect.stringContaining('href="#placeholder-0"')]);
    expect(missing.body).toMatch(/href="#placeholder-0">Enter \w/);
    expect(missing.body).not.toContain('href="#issuer"');
    // The provider cannot be reached, so the form stays and the issuer can be corrected.
    const fields = { placeholder: '127.0.0.1:9' };
    const filled = await submitForm(missing, 'read_provider', fields, [['placeholder', 'https://api.example.com']]);
    expect([filled.status, fieldsOf(filled)]).toEqual([
      400,
      expect.objectContaining({ issuer: 'https://127.0.0.1:9/', parameters: 'audience=https://api.example.com' }),
    ]);
    expect(filled.body).not.toContain('placeholder-0');
  });

  test.each<[string, Record<string, string>]>([
    ['google', { prompt: 'consent', parameters: 'access_type=offline' }],
    ['salesforce', { 'apiBaseUrlFrom-member': 'instance_url', 'apiBaseUrlFrom-hosts': '.my.salesforce.com' }],
    ['slack', { tokenPath: 'authed_user', parameters: 'user_scope={scopes}' }],
    ['github-app', { 'account-field': 'id', 'account-url': 'https://api.github.com/user', refresh: 'rotating' }],
    ['entra-tenants', { signIn: 'claim', signInClaim: 'tid', signInValues: '{tenant}', prompt: 'off' }],
  ])('fills every kind of field: %s', async (preset, fields) => {
    expect(fieldsOf(await openPreset(preset))).toMatchObject(fields);
  });

  test('continues without reading metadata if the preset has the endpoints, and keeps its facts with a fault', async () => {
    const page = await submitForm(await openPreset('zoom'), 'read_provider', {});
    expect([page.status, page.body]).toEqual([200, expect.stringContaining(`${site.url}/oauth/callback/zoom`)]);
    expect(page.body).toContain('Endpoints</dt><dd>authorization, token, revocation');
    expect(page.body).toContain('Callback URL');
    expect(page.body).not.toContain('Post-logout redirect URL');
    const refused = await submitForm(page, 'save', { clientId: '' });
    expect([refused.status, fieldsOf(refused)]).toEqual([400, expect.objectContaining({ name: 'Zoom' })]);
    expect(refused.body).toContain('<em>Not confirmed.</em>');
    const back = await submitForm(refused, 'back', { name: 'Our Zoom', clientSecret: CLIENT_SECRET });
    expect(fieldsOf(back)).toMatchObject({ name: 'Our Zoom', 'endpoints-token': 'https://zoom.us/oauth/token' });
    expect(back.body).toContain('Enter it again in the next step');
    expect(back.body).not.toContain(CLIENT_SECRET);
  });

  test('an unknown preset leaves the form empty', async () => {
    expect(fieldsOf(await open('register-app?preset=nobody'))).toMatchObject({ id: '', issuer: '' });
  });
});

describe('a new administrator', () => {
  test('enters the issuer, and the metadata is read from it', async () => {
    const page = await submitForm(await open('register-app'), 'read_provider', {
      ...SECOND,
      issuer: site.sandbox.issuer,
    });
    expect(page.status).toBe(200);
    expect(page.body).toContain('The provider responded with this metadata:');
    for (const words of ['Post-logout redirect URL', 'Back-channel logout URL', 'JWKS URL'])
      expect(page.body).toContain(words);
    for (const words of ['revocation', 'end-session', 'Revokes the grant at the provider', 'PKCE (S256)'])
      expect(page.body).toContain(words);
    expect(page.body).toContain('value="platform_read_only"');
    expect(page.body).toContain(`value="${site.url}/oauth/callback/second"`);
    expect(page.body).not.toContain(CLIENT_SECRET);
  });

  test.each([
    ['nothing', '', 'Enter the issuer'],
    ['a slash too many', '/', 'names another issuer'],
    ['a page that is no provider', '/nothing', 'no provider metadata'],
    ['a private address', 'https://10.0.0.1', 'address is private'],
  ])('sees what is wrong with an issuer: %s', async (_name, given, words) => {
    const issuer = given.startsWith('/') ? site.sandbox.issuer + given : given;
    const page = await submitForm(await open('register-app'), 'read_provider', { ...SECOND, issuer });
    expect(page.body).toContain(words);
  });

  test('can use the issuer in the metadata', async () => {
    const { issuer } = site.sandbox;
    const page = await submitForm(await open('register-app'), 'read_provider', { ...SECOND, issuer: `${issuer}/` });
    expect(page.body).toMatch(new RegExp(`<li><a href="#issuer">[^<]*names another issuer: enter ${issuer} if`));
    const used = await agent.submit(page, {}, { button: `Use ${issuer}` });
    expect([used.status, used.body]).toEqual([
      200,
      expect.stringContaining('The provider responded with this metadata:'),
    ]);
    expect(used.body).toContain(`name="issuer" value="${issuer}"`);
  });

  test('enters the endpoints by hand if the provider has no metadata', async () => {
    const page = await submitForm(await open('register-app'), 'read_provider', {
      ...SECOND,
      issuer: `${site.sandbox.issuer}/nothing`,
    });
    const byHand = await agent.submit(page, {}, { button: 'Enter the endpoints by hand' });
    expect(byHand.status).toBe(200);
    expect(byHand.body).toContain('Enter its endpoints below');
    expect(byHand.body).toMatch(/<details class="panel" open>/);
    expect(byHand.body).toContain(`${site.url}/oauth/callback/second`);
  });

  test('sees at once that the id is taken or invalid, or that the name is missing', async () => {
    const issuer = site.sandbox.issuer;
    const taken = await submitForm(await open('register-app'), 'read_provider', { ...SECOND, id: 'platform', issuer });
    expect([taken.status, taken.body]).toEqual([400, expect.stringContaining('Another app has this id')]);
    const empty = await submitForm(await open('register-app'), 'read_provider', { id: 'A b', name: '', issuer });
    expect([...empty.body.matchAll(/<li><a href="#(\w+)">/g)].map(([, field]) => field).toSorted()).toEqual([
      'id',
      'name',
    ]);
  });

  test.each([
    ['Équipe: Nord & Süd', 'equipe-nord-sud'],
    ['x'.repeat(39).concat(' y'), 'x'.repeat(39)],
  ])('can leave the id empty: it is derived from the name %s', async (name, id) => {
    const fields = { ...SECOND, id: '', name, issuer: site.sandbox.issuer };
    const page = await submitForm(await open('register-app'), 'read_provider', fields);
    expect(page.status).toBe(200);
    expect(page.body).toContain(`value="${site.url}/oauth/callback/${id}"`);
  });

  test('R71 sees next to each callback URL the rule that it breaks, and nothing is saved', async () => {
    const page = await submitForm(await open('register-app'), 'save', { ...SECOND, issuer: site.sandbox.issuer }, [
      ['callbackUrl', `${site.url}/oauth/callback/second`],
      ['callbackUrl', 'https://*.example.com/cb'],
      ['callbackUrl', 'https://a.example/cb#fragment'],
    ]);
    expect(page.status).toBe(400);
    expect(page.body).toContain('Nothing was saved.');
    for (const [place, words] of [
      ['1', 'Write out every callback URL'],
      ['2', 'Leave out &quot;#&quot; and what follows it.'],
    ]) {
      expect(page.body).toMatch(new RegExp(`id="callbackUrl-${place}-fault">[^]*?</span><span>${words}`));
      expect(page.body).toContain(`<li><a href="#callbackUrl-${place}">${words}`);
    }
    expect(page.body).not.toContain(CLIENT_SECRET);
    expect((await open('connected-apps/second/settings')).status).toBe(404);
  });

  test('registers the app, and sees what to enter at the provider', async () => {
    const page = await submitForm(await open('register-app'), 'save', {
      ...SECOND,
      issuer: site.sandbox.issuer,
      signIn: 'everyone',
      apiBaseUrl: site.sandbox.platformUrl,
      moreScopes: 'platform_read_only',
    });
    expect(page.status).toBe(200);
    expect(new URL(page.url).pathname).toBe('/admin/connected-apps/second/check');
    const link = `${site.url}/sign-in?app=second`;
    for (const words of [
      'The app is registered.',
      'No problems found',
      'The token endpoint accepts the client ID and secret',
      link,
    ])
      expect(page.body).toContain(words);
    const app = await open('connected-apps/second');
    for (const url of [
      `${site.url}/oauth/callback/second`,
      `${site.url}/`,
      `${site.url}/oauth/backchannel-logout/second`,
    ])
      expect(app.body).toContain(`<code data-copy-source>${url}</code>`);
    expect((await open('connected-apps/second/settings')).body).toContain('Set today.');
    const { page: signedIn } = await signIn(site, 'user@example.test', { path: '/sign-in?app=second' });
    expect(signedIn.status).toBe(200);
  });

  test('sees on the page what is wrong with a changed callback URL', async () => {
    const question = await submitForm(await open('connected-apps/second/settings'), 'save', {
      callbackUrl: 'https://elsewhere.example/cb',
    });
    const page = await agent.submit(question, {}, { button: 'Save' });
    expect(page.status).toBe(200);
    expect(page.body).toContain('Add it here and at the provider');
    expect(page.body).toContain(NEW_CALLBACK_URL);
    expect((await open('connected-apps')).body).toContain('Callback URL missing');
    const requestsBefore = site.sandbox.requests.counts();
    const { page: refused } = await signIn(site, 'user@example.test', { path: '/sign-in?app=second' });
    expect(refused.body).toContain('The callback URL of this app is not in its registration');
    expect(site.sandbox.requests.counts()).toEqual(requestsBefore);
    await submitForm(await open('connected-apps/second/settings'), 'save', {
      callbackUrl: `${site.url}/oauth/callback/second`,
    });
    const same = await submitForm(await open('connected-apps/second/settings'), 'save', {});
    expect(same.body).toContain('Saved.');
    expect(same.body).not.toContain(NEW_CALLBACK_URL);
  });
});

test('an app without the callback URL of this Gatehouse is not called usable, and a button adds it', async () => {
  const page = await submitForm(await open('register-app'), 'save', {
    ...SECOND,
    id: 'broken',
    issuer: site.sandbox.issuer,
    callbackUrl: 'https://other.example.com/cb',
    signIn: 'everyone',
  });
  expect([page.status, page.body]).toEqual([200, expect.stringContaining('cannot be used yet')]);
  expect(page.body).toMatch(/\d problems? found/);
  expect(page.body).toContain(`Add ${site.url}/oauth/callback/broken to the callback URLs`);
  const added = await agent.submit(page, {}, { button: 'Add callback URL' });
  expect(added.body).toContain('The callback URL is added here.');
  const { json } = await getJson(agent, `${site.url}/admin/api/connected-apps/broken`);
  expect(json).toMatchObject({
    unusable: null,
    callbackUrls: ['https://other.example.com/cb', `${site.url}/oauth/callback/broken`],
  });
  await deleteApp('broken', SECOND.name);
});

describe('R71 callback URLs of a registered app', () => {
  const own = () => `${site.url}/oauth/callback/near`;
  const saved = async () => (await getJson(agent, `${site.url}/admin/api/connected-apps/near`)).json.callbackUrls;
  beforeAll(async () => {
    const page = await submitForm(await open('register-app'), 'save', {
      ...SECOND,
      id: 'near',
      issuer: site.sandbox.issuer,
    });
    expect(page.status).toBe(200);
  });
  afterAll(() => deleteApp('near', SECOND.name));

  test.each([
    ['a slash at the end', 'near/'],
    ['the id in upper case', 'NEAR'],
    ['the id of another app', 'second'],
    ['a letter too many', 'nears'],
  ])('are refused, and the right one is named: %s', async (_words, id) => {
    const refused = await submitForm(await open('connected-apps/near/settings'), 'save', {
      callbackUrl: `${site.url}/oauth/callback/${id}`,
    });
    expect([refused.status, refused.body]).toEqual([400, expect.stringContaining(`Did you mean ${own()}?`)]);
    expect(await saved()).toEqual([own()]);
  });

  test('are refused in another spelling than that of browsers', async () => {
    const refused = await submitForm(await open('connected-apps/near/settings'), 'save', { callbackUrl: own() }, [
      ['callbackUrl', 'HTTPS://Example.TEST:443/cb'],
      ['callbackUrl', 'https://ex\u0430mple.test/cb'],
      ['callbackUrl', 'https://example.test/%zz'],
    ]);
    expect(refused.status).toBe(400);
    for (const words of [
      'as https://example.test/cb,',
      'as https://xn--exmple-4nf.test/cb,',
      'After each &quot;%&quot;',
    ])
      expect(refused.body).toContain(words);
    expect(await saved()).toEqual([own()]);
  });

  test('become rows if a list is pasted into one', async () => {
    const pasted = `${own()}\r\nhttps://a.example/1, https://a.example/2,\n\nhttps://a.example/3`;
    const page = await submitForm(await open('connected-apps/near/settings'), 'save', { callbackUrl: pasted });
    expect([page.status, page.body]).toEqual([200, expect.stringContaining('Saved.')]);
    expect(await saved()).toEqual([own(), ...[1, 2, 3].map((number) => `https://a.example/${number}`)]);
    expect(page.body.match(/name="callbackUrl" value=""/g)).toHaveLength(3);
  });
});

describe('a form that is refused', () => {
  const faultsIn = (body: string) =>
    [...body.matchAll(/<li><a href="#([\w-]+)">([^<]+)</g)].flatMap(([, field, words]) =>
      words?.match(/[.?!]$/) ? [[field, words]] : [],
    );
  const read = async (fields: Record<string, string>) =>
    submitForm(await open('register-app'), 'read_provider', { name: 'Board', issuer: site.sandbox.issuer, ...fields });

  test('names its faults in the title and in a list, and focuses the first', async () => {
    const empty = { id: '', name: '', issuer: '' };
    const { body } = await submitForm(await open('register-app'), 'read_provider', empty);
    expect(body).toMatch(/<title>Error: Register an app/);
    expect(faultsIn(body)).toEqual([
      ['issuer', expect.stringContaining('Enter the issuer')],
      ['name', 'Enter a name.'],
    ]);
    expect(body.match(/<(?:input|textarea|select)[^>]* autofocus/g)).toEqual([expect.stringContaining('id="issuer"')]);
    expect(body).not.toContain('(invalid)');
    expect(faultsIn((await read({ id: '', name: '日本' })).body)).toEqual([
      ['id', 'Enter an ID: the name has no letters a to z and no digits.'],
    ]);
  });

  test('names a missing secret together with the other faults', async () => {
    const { body } = await submitForm(await read({ id: 'board' }), 'save', { clientId: '', apiBaseUrl: 'nowhere' });
    expect(faultsIn(body).map(([field]) => field)).toEqual(['clientId', 'clientSecret', 'apiBaseUrl']);
    expect(faultsIn(body)[1]).toEqual(['clientSecret', 'Enter the client secret.']);
  });

  test('keeps the entered values and the metadata, and asks for the secret again', async () => {
    const secondStep = await read({ id: 'board' });
    const typed = { clientSecret: CLIENT_SECRET, clientId: '', moreScopes: 'one two', apiBaseUrl: 'nowhere' };
    const page = await submitForm(secondStep, 'save', typed, [['scope', 'platform_read_only']]);
    expect(page.body).toMatch(/value="platform_read_only" checked/);
    expect(page.body).toContain('The provider responded with this metadata:');
    expect(page.body).toContain('Enter it again: secrets are not sent back.');
    expect(page.body).not.toContain(CLIENT_SECRET);
    const fields = page.forms.find(({ names }) => names.includes('issuer'))?.fields;
    expect(Object.fromEntries(fields ?? [])).toMatchObject({ ...typed, clientSecret: '', name: 'Board' });
  });

  test('reports an invalid id, and adapts the callback URL to the id', async () => {
    const wrong = await read({ id: 'Team Board' });
    expect([wrong.status, wrong.body]).toEqual([400, expect.stringContaining('id="id-fault"')]);
    expect(wrong.body).not.toContain('/oauth/callback/Team Board"');
    const right = await submitForm(wrong, 'read_provider', { id: 'board' });
    expect(right.body).toContain(`value="${site.url}/oauth/callback/board"`);
    const { clientId, clientSecret } = SECOND;
    expect((await submitForm(right, 'save', { id: 'team', clientId, clientSecret })).status).toBe(200);
    const { json } = await getJson(agent, `${site.url}/admin/api/connected-apps/team`);
    expect(json).toMatchObject({ unusable: null, callbackUrls: [`${site.url}/oauth/callback/team`] });
    await deleteApp('team', 'Board');
  });

  test('R106 counts once if it is sent several times', async () => {
    const page = await read({ id: 'twice' });
    const { clientId, clientSecret } = SECOND;
    const both = await Promise.all([1, 2].map(() => submitForm(page, 'save', { clientId, clientSecret })));
    expect(both.map(({ status, url }) => [status, new URL(url).pathname])).toEqual(
      both.map(() => [200, '/admin/connected-apps/twice/check']),
    );
    const { json } = await getJson(agent, `${site.url}/admin/api/audit?event=connected_app.created&target=twice`);
    expect(json.items).toHaveLength(1);
    await deleteApp('twice', 'Board');
  });
});

describe('a registered app', () => {
  test('shows how many connections saving affects', async () => {
    expect((await open('connected-apps/second/settings')).body).toContain('Saving affects one connection.');
    expect((await open('connected-apps/platform/settings')).body).toContain('CONNECTED_APPS_FILE');
    expect((await open('connected-apps/platform/settings')).forms.some(({ names }) => names.includes('issuer'))).toBe(
      false,
    );
  });

  test('R115 is saved with added scopes only after a question that says how many connections lack them', async () => {
    const settings = await open('connected-apps/second/settings');
    const question = await submitForm(settings, 'save', { moreScopes: 'files', name: 'Grown' });
    expect(question.status).toBe(200);
    for (const words of [
      'One connection lacks the scope files until its user consents again. It keeps working without it. Add it?',
      'value="Grown"',
      'name="moreScopes" type="text" value="files"',
    ])
      expect(question.body).toContain(words);
    expect(question.body).not.toContain('Nothing was saved');
    expect((await open('connected-apps/second/settings')).body).toContain('<bdi>Second</bdi>');

    const asked = await submitForm(question, 'save', { moreScopes: 'files mail' });
    expect(asked.body).toContain('One connection lacks some of the scopes files, mail until its user consents again.');
    expect((await submitForm(asked, 'save', {})).body).toContain('Saved.');
    const { json } = await getJson(agent, `${site.url}/admin/api/connected-apps/second?scopes=openid+files+video`);
    expect(json).toMatchObject({ name: 'Grown', scopes: expect.arrayContaining(['files', 'mail']) });
    expect(json.missingScopes).toEqual({ scopes: ['video'], connections: 1, exact: true });
    const scopes = (json.scopes as string[]).filter((scope) => !['files', 'mail'].includes(scope));
    const without = await submitForm(
      await open('connected-apps/second/settings'),
      'save',
      { name: 'Second', scope: scopes[0] ?? '' },
      scopes.slice(1).map((scope): [string, string] => ['scope', scope]),
    );
    expect([without.status, without.body]).toEqual([200, expect.stringContaining('Saved.')]);
  });

  test('names a scope that cannot be used', async () => {
    const typed = { moreScopes: 'files "mail" calendar' };
    const refused = await submitForm(await open('connected-apps/second/settings'), 'save', typed);
    expect([refused.status, refused.body]).toEqual([
      400,
      expect.stringContaining('“&quot;mail&quot;” cannot be used.'),
    ]);
  });

  test('R115 asks for a secret again that was entered with added scopes', async () => {
    const question = await submitForm(await open('connected-apps/second/settings'), 'save', {
      moreScopes: 'files',
      clientSecret: CLIENT_SECRET,
    });
    expect(question.body).not.toContain(CLIENT_SECRET);
    expect(question.body).toContain('Enter it again: secrets are not sent back.');
    expect(question.body).toMatch(/name="clientSecret"[^>]* required/);
    const saved = await submitForm(question, 'save', { clientSecret: CLIENT_SECRET });
    expect(saved.body).toContain('Saved.');
  });

  test('is checked again when it is saved, so its last check is not older than the change', async () => {
    const read = async () => (await getJson(agent, `${site.url}/admin/api/connected-apps/second`)).json;
    const saved = await submitForm(await open('connected-apps/second/settings'), 'save', {
      threadPath: '/1/threads/newest',
    });
    expect(saved.body).toContain('Saved.');
    const { changedAt, lastCheck } = (await read()) as { changedAt: string; lastCheck: { at: string } };
    expect(lastCheck).toMatchObject({ outdated: false });
    expect(lastCheck.at >= changedAt).toBe(true);

    const key = keys.appCheck('second');
    await withStorage(async (store) => {
      const stored = JSON.parse((await store.get(key))?.value ?? '');
      await store.write([{ put: key, value: JSON.stringify({ ...stored, at: stored.at - 60_000 }) }]);
    });
    expect((await read()).lastCheck).toMatchObject({ outdated: true });
    expect((await open('connected-apps/second')).body).toContain('Outdated');
    expect((await open('connected-apps/second/check')).body).toContain('The app has changed since then.');
    const again = await submitForm(await open('connected-apps/second/settings'), 'save', { threadPath: '' });
    expect(again.body).not.toContain('Outdated');
  });

  test('asks before its own callback URL is removed, and after that no more', async () => {
    const other = { callbackUrl: 'https://other.example/cb' };
    const question = await submitForm(await open('connected-apps/second/settings'), 'save', other);
    expect([question.status, question.body]).toEqual([
      200,
      expect.stringMatching('Users cannot sign in or connect with the app until .* Save the changes\\?'),
    ]);
    const removed = await agent.submit(question, {}, { button: 'Save' });
    expect(removed.body).toContain('Add it here and at the provider.');
    const same = await submitForm(removed, 'save', { callbackUrl: 'https://other.example/2' });
    expect(same.body).toContain('Saved.');
    await submitForm(same, 'save', { callbackUrl: `${site.url}/oauth/callback/second` });
  });

  test('is disabled and enabled, and cannot be deleted while users are connected', async () => {
    const page = await open('connected-apps/second/settings');
    expect(linkOn(page, 'Delete app…')).toBeUndefined();
    const question = await agent.follow(page, 'Disable app…');
    const disabled = await agent.submit(question, {}, { button: 'Disable app' });
    expect(disabled.body).toContain('The app is disabled');
    expect((await agent.submit(disabled, {}, { button: 'Enable app' })).body).toContain('The app is enabled again.');
    const forced = await open('connected-apps/second/delete');
    expect(forced.body).toContain('Disconnect everyone first');
    const [, typed = ''] = /Type “([^”]*)” to confirm/.exec(forced.body) ?? [];
    const refused = await agent.submit(forced, { typed }, { button: 'Delete app' });
    expect([refused.status, refused.body]).toEqual([400, expect.stringContaining('One user is connected')]);
  });

  test('reminds of a client secret that is older than 180 days', async () => {
    const key = keys.connectedApp('second');
    await withStorage(async (store, sealer) => {
      const stored = await store.get(key);
      const app = JSON.parse(await sealer.open(stored?.value ?? '', key));
      app.secretSetAt = Date.now() - 190 * 86_400_000;
      await store.write([{ put: key, value: await sealer.seal(JSON.stringify(app), key) }]);
    });
    expect((await open('connected-apps/second/settings')).body).toContain('The client secret was set 190 days ago.');
    expect((await open('connected-apps')).body).toContain('Old secret');
    const replaced = await submitForm(await open('connected-apps/second/settings'), 'save', {
      clientSecret: CLIENT_SECRET,
    });
    expect(replaced.body).not.toContain('190 days ago');
  });

  test('R49 an app that no key decrypts does not affect others, and can be deleted', async () => {
    const key = keys.connectedApp('broken');
    await withStorage((store) =>
      store.write([
        { put: key, value: 'x' },
        { index: keys.connectedApps, add: 'broken', score: 1 },
        { put: keys.connectedAppsChange, value: 'x' },
      ]),
    );
    const list = await open('connected-apps');
    expect(list.body).toContain('Cannot be decrypted');
    expect(list.body).toContain('<bdi>Second</bdi>');
    expect((await open('connected-apps/broken')).status).toBe(404);
    const after = await agent.submit(await agent.follow(list, 'Delete… broken'), { typed: 'broken' });
    expect(after.body).toContain('The app is deleted.');
    expect(after.body).not.toContain('Cannot be decrypted');
  });
});

describe('R88 hostile text', () => {
  const HOSTILE = {
    script: '</title></textarea><script>alert(1)</script>',
    quotes: `" autofocus onfocus="alert(1)" x='`,
    marks: 'safe\u202egnihsihp\u2066\u200f',
    template: '<%= it.page.csrfToken %>',
  };

  // The client ID can only be changed while no user is connected.
  beforeAll(async () => {
    const { agent: user } = await signIn(site, 'user@example.test', { path: '/sign-in?app=platform' });
    await disconnect(site, user, 'second');
  });

  test.each(Object.entries(HOSTILE))('in names, client ids and claims breaks nothing: %s', async (_kind, text) => {
    const saved = await submitForm(await open('connected-apps/second/settings'), 'save', {
      name: text,
      clientId: text,
      clientSecret: CLIENT_SECRET,
      signIn: 'claim',
      signInClaim: text,
      signInValues: text,
    });
    expect(saved.status).toBe(200);
    for (const path of ['connected-apps/second', 'connected-apps/second/settings', 'connected-apps', 'audit'])
      expectIntact(await open(path), text);
    const shown = await submitForm(await open('connected-apps/second/settings'), 'save', {
      issuer: text,
      apiBaseUrl: text,
      returnUrls: text,
      callbackUrl: text,
      parameters: text,
      moreScopes: text,
    });
    expect(shown.status).toBe(400);
    expectIntact(shown, text);
  });

  test('10,000 characters in each field are refused, and the form stays usable', async () => {
    const text = 'W'.repeat(7_000);
    const page = await submitForm(await open('connected-apps/second/settings'), 'save', {
      name: text,
      clientId: text,
      issuer: text,
    });
    expect([page.status, page.body.includes('Nothing was saved.')]).toEqual([400, true]);
    const search = await open(`connected-apps?q=${encodeURIComponent('<script>"')}`);
    expect([search.status, search.body.includes('value="&lt;script&gt;&quot;"')]).toEqual([200, true]);
    const long = await open(`connected-apps?q=${'x'.repeat(300)}`);
    expect([long.status, long.body.includes('x'.repeat(201))]).toEqual([200, false]);
  });

  function expectIntact({ body }: Page, text: string): void {
    expect(body).toMatch(/<\/html>\s*$/);
    expect(body).not.toMatch(/<script(?![^>]*src="\/assets\/[a-p]{16}\/[a-z-]+\.js")/);
    expect(body).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/);
    expect(body).not.toContain('onfocus="');
    if (text.includes('<script')) expect(body).not.toContain(text);
  }
});

test('only administrators see the link to the page', async () => {
  expect((await agent.get(`${site.url}/connections`)).body).toContain('>Administration</a>');
  const user = await signIn(site, 'user@example.test', { path: '/sign-in?app=platform' });
  expect((await user.agent.get(`${site.url}/connections`)).body).not.toContain('Administration');
  expect((await getJson(user.agent, `${site.url}/session`)).json).toMatchObject({ user: { admin: false } });
});

async function withStorage(
  work: (
    store: Awaited<ReturnType<typeof createSqliteStore>>,
    sealer: ReturnType<typeof createSealer>,
  ) => Promise<unknown>,
): Promise<void> {
  const parsed = parseEncryptionKeys(site.env.ENCRYPTION_KEYS ?? '');
  if ('faults' in parsed) throw new Error(parsed.faults.join());
  const store = await createSqliteStore({ directory: site.dataDirectory, clock: Date.now, random: Math.random });
  try {
    await work(store, createSealer(parsed.keys));
  } finally {
    await store.close();
  }
}
