/** `apps apply`: changes registered apps to match a file, all or none, while Gatehouse runs. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CLIENT_SECRET, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { createAdminToken, runCommand } from '../../support/terminal.ts';
import { until } from '../../support/until.ts';

let site: TestSite;
let token: string;
let folder: string;
let file: string;
const app = (id: string, changes: Record<string, unknown> = {}) => ({
  ...sandboxApp(site, 'second', { callbackUrls: [`${site.url}/oauth/callback/${id}`], signIn: undefined }),
  id,
  ...changes,
});
const writeFile = (...apps: Record<string, unknown>[]) => writeFileSync(file, JSON.stringify(apps));
const apply = async (...options: string[]) => {
  const { status, stdout, stderr } = await runCommand(['apps', 'apply', file, ...options, '--json'], {
    ...site.env,
    OTHER_SECRET: 'another-client-secret',
  });
  return { status, stderr, ...(stdout.startsWith('{') ? JSON.parse(stdout) : {}) };
};
const readApp = async (id: string) => {
  const headers = { ...ACCEPT_JSON, authorization: `Bearer ${token}` };
  const { status, body } = await sendRequest(`${site.url}/admin/api/connected-apps/${id}`, { headers });
  return status === 200 ? JSON.parse(body) : undefined;
};
const readEntries = async (event: string) =>
  (await runCommand(['audit', 'export'], site.env)).stdout
    .split('\n')
    .filter((line) => line.includes(`"${event}"`))
    .map((line) => JSON.parse(line));

beforeAll(async () => {
  site = await startSite();
  token = await createAdminToken(site);
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-apply-'));
  file = join(folder, 'apps.json');
});
afterAll(async () => {
  await site?.close();
  if (folder) rmSync(folder, { recursive: true });
});

test('R71 a callback URL that is nearly that of Gatehouse is refused', async () => {
  writeFile(app('one', { callbackUrls: [`${site.url}/oauth/callback/One`] }));
  const { status, faults } = await apply('--dry-run');
  expect([status, faults]).toEqual([1, [expect.stringContaining(`Did you mean ${site.url}/oauth/callback/one?`)]]);
});

test('--dry-run shows the changes, and makes none', async () => {
  writeFile(app('one'), app('two'));
  const expected = [
    { app: 'one', action: 'create', changed: [] },
    { app: 'two', action: 'create', changed: [] },
  ];
  expect(await apply('--dry-run')).toEqual({
    status: 0,
    stderr: '',
    applied: false,
    apps: expected,
    faults: [],
    warnings: [],
  });
  expect(await readApp('one')).toBeUndefined();
  expect(await readEntries('connected_app.created')).toEqual([]);
  const { stdout } = await runCommand(['apps', 'apply', file, '--dry-run'], site.env);
  expect(stdout).toBe('create  one\ncreate  two\nNothing was changed: this was a dry run.\n');
});

test('registers apps that running processes then use', async () => {
  expect(await apply()).toMatchObject({ status: 0, applied: true, faults: [] });
  await until(async () => (await readApp('two')) !== undefined);
  expect(await readApp('one')).toMatchObject({ name: 'Collaboration second', hasClientSecret: true, unusable: null });
  const entries = await readEntries('connected_app.created');
  expect(entries.map(({ target }) => target.id)).toEqual(['one', 'two']);
  for (const { actor } of entries) expect(actor).toEqual({ kind: 'operator' });
  expect(JSON.stringify(entries)).not.toContain(CLIENT_SECRET);
  expect(await apply()).toMatchObject({ applied: true, apps: [{ action: 'leave' }, { action: 'leave' }] });
  expect(await readEntries('connected_app.created')).toHaveLength(2);
});

test('changes members that differ, including the secret, and leaves other apps unchanged', async () => {
  writeFile(app('one', { name: 'New name', clientSecret: { env: 'OTHER_SECRET' } }), app('three'));
  expect(await apply()).toMatchObject({
    applied: true,
    apps: [
      { app: 'one', action: 'change', changed: ['name', 'clientSecret'] },
      { app: 'three', action: 'create' },
    ],
  });
  await until(async () => (await readApp('one')).name === 'New name');
  expect(await readApp('two')).toBeDefined();
  const [entry] = await readEntries('connected_app.changed');
  expect(entry).toMatchObject({ actor: { kind: 'operator' }, facts: { changed: ['name', 'clientSecret'] } });
  writeFile(app('one', { name: 'New name' }));
  expect(await apply()).toMatchObject({ apps: [{ changed: ['clientSecret'] }] });
  expect(await readEntries('connected_app.secret_replaced')).toHaveLength(1);
});

test('the audit trail names the routes that were added, changed and removed', async () => {
  const route = (name: string, path = `/${name}`) => ({ name, method: 'GET', path });
  const two = (...routes: object[]) => writeFile(app('two', { apiBaseUrl: 'https://api.example.com', routes }));
  two(route('list'), route('thread'));
  expect(await apply()).toMatchObject({ applied: true, apps: [{ changed: ['apiBaseUrl', 'routes'] }] });
  two(route('list', '/1/list'), route('message'));
  expect(await apply()).toMatchObject({ applied: true, apps: [{ changed: ['routes'] }] });
  const facts = (await readEntries('connected_app.changed')).slice(-2).map((entry) => entry.facts);
  expect(facts).toEqual([
    { changed: ['apiBaseUrl', 'routes'], routesAdded: ['list', 'thread'] },
    { changed: ['routes'], routesAdded: ['message'], routesChanged: ['list'], routesRemoved: ['thread'] },
  ]);
  writeFile(app('two'));
  expect(await apply()).toMatchObject({ applied: true });
});

test('stores no secret that the method does not use', async () => {
  writeFile(app('two', { tokenEndpointAuthMethod: 'none' }));
  expect(await apply()).toMatchObject({ applied: true, apps: [{ changed: ['tokenEndpointAuthMethod'] }] });
  await until(async () => (await readApp('two')).hasClientSecret === false);
  expect(await apply()).toMatchObject({ apps: [{ app: 'two', action: 'leave' }] });
});

test('changes nothing if there is a fault', async () => {
  const appBefore = await readApp('one');
  writeFile(
    app('one', { name: 'Not this name' }),
    app('platform'),
    // Users sign in with this issuer by the app of the file. Another discovery URL could name other keys.
    app('four', { signIn: { allow: 'everyone' }, discoveryUrl: `${site.sandbox.issuer}/other` }),
  );
  const { status, applied, faults } = await apply();
  expect({ status, applied }).toEqual({ status: 1, applied: false });
  expect(faults).toEqual([
    'platform: it is in CONNECTED_APPS_FILE. Change it there.',
    expect.stringMatching(/^four, \/issuer: Users already sign in with this issuer/),
  ]);
  writeFile(app('one', { name: 'Not this name' }), { id: 'five' });
  expect((await apply()).faults.join()).toMatch(/app 2 \(five\), /);
  expect((await apply()).faults.join()).not.toContain('CONNECTED_APPS_FILE');
  expect(await readApp('one')).toEqual(appBefore);
  expect(await readApp('four')).toBeUndefined();
});

test('warns about a claim that is probably meant as a path, and so does the start', async () => {
  const warning =
    'the claim in signIn of the app "three": “realm_access.roles” is read as the name of one claim. To name a nested claim, write a JSON Pointer (RFC 6901): /realm_access/roles.';
  writeFile(app('three', { signIn: { allow: { claim: 'realm_access.roles', values: ['staff'] } } }));
  const { stdout } = await runCommand(['apps', 'apply', file, '--dry-run'], site.env);
  expect(stdout).toBe(`change  three  signIn\nWarning: ${warning}\nNothing was changed: this was a dry run.\n`);
  expect(await apply()).toMatchObject({ applied: true, warnings: [warning] });
  await site.restart();
  const lines = site.logs().map((line) => JSON.parse(line));
  expect(lines.filter(({ msg }) => msg.includes('claim in signIn'))).toMatchObject([{ level: 40, msg: warning }]);
});

test('sends the tokens of connected users to no other provider', async () => {
  writeFile(app('second', { signIn: { allow: 'everyone' } }));
  expect(await apply()).toMatchObject({ applied: true });
  writeFile(app('second', { signIn: undefined, issuer: 'https://example.com' }));
  expect(await apply('--dry-run')).toMatchObject({ status: 0, apps: [{ changed: ['issuer', 'signIn'] }] });
  // A running process uses the app a moment after it is stored.
  await until(
    async () => (await signIn(site, 'user@example.test', { path: '/sign-in?app=second' })).page.status === 200,
  );
  expect(await apply()).toMatchObject({
    status: 1,
    applied: false,
    faults: [expect.stringMatching(/^second, \/issuer: One user is connected with the current registration/)],
  });
  expect((await readApp('second')).issuer).toBe(site.sandbox.issuer);
});

test('says that the file does not exist', async () => {
  const { status, stderr } = await runCommand(['apps', 'apply', join(folder, 'none')], site.env);
  expect(status).toBe(1);
  expect(stderr).toMatch(/none: there is no such file or folder\. Check the path\.\n$/);
});
