/** The commands of docs/when-something-leaked.md run unchanged, with the effects that it describes. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { openConsole } from '../../sandbox/foreign-client.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { CLIENT_SECRET, getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { missingCurl, skipIfMissing } from '../../support/missing.ts';
import { type Operator, startOperator } from '../../support/operator.ts';
import { ACCEPT_JSON, JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { createAdminToken, runCommand } from '../../support/terminal.ts';
import { advanceClock, resetClock } from '../../support/test-clock.ts';
import { until } from '../../support/until.ts';
import { assertionOf, bearer, PERMISSIVE_POLICY, relayThread } from '../relay/service.ts';

const documentText = readFileSync(join(import.meta.dirname, '../../../docs/when-something-leaked.md'), 'utf8');
const block = (name: string) => {
  const [, steps] = new RegExp(`^\`\`\`sh ${name}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(documentText) ?? [];
  if (steps === undefined) throw new Error(`The document has no block "${name}".`);
  return steps;
};

const folder = mkdtempSync(join(tmpdir(), 'gatehouse-leaked-'));
let site: TestSite;
let operator: Operator;
/** A user who is signed in and connected before the leak. */
let userAgent: UserAgent;

beforeAll(async () => {
  writeFileSync(join(folder, 'client-secret'), CLIENT_SECRET);
  site = await startSite({ app: { clientSecret: { file: join(folder, 'client-secret') } } });
  operator = await startOperator(site, folder);
});
afterAll(async () => {
  await operator.close();
  await site.close();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(async (context) => {
  skipIfMissing(context, missingCurl);
  ({ agent: userAgent } = await signIn(site));
});

/** Runs the block with this name, after the two lines that the page begins with. */
async function follow(
  name: string,
  {
    change = (steps) => steps,
    ...options
  }: Parameters<Operator['run']>[1] & { change?: (steps: string) => string } = {},
): Promise<string> {
  const start = block('incident').replace('https://gatehouse.example.com', site.url);
  const { status, stdout, stderr } = await operator.run(`${start}\n${change(block(name))}`, options);
  expect([status, stderr], stdout).toEqual([0, '']);
  return stdout;
}

/** Reads the user's thread. @returns the status, or the code of the error */
const readThread = async () => {
  const { status, json } = await getJson(userAgent, `${site.url}/threads/current`);
  return json.code ?? status;
};

test('a relay token: the old one is refused, the service gets a new one, and its use is listed', async () => {
  const admin = bearer(await createAdminToken(site));
  const created = await sendRequest(`${site.url}/admin/api/relay-tokens`, {
    method: 'POST',
    headers: { ...admin, ...JSON_BODY },
    body: JSON.stringify(PERMISSIVE_POLICY),
  });
  const { token: leakedToken } = JSON.parse(created.body) as { token: string };
  const relayStatus = async (token: string) => {
    const proof = { 'gatehouse-user-assertion': await assertionOf(site, userAgent.cookies.header(site.url)) };
    return (await relayThread(site, token, proof)).status;
  };
  expect(await relayStatus(leakedToken)).toBe(200);
  const ID = leakedToken.slice('gthr_'.length).slice(0, 11);

  const [, newToken = ''] = /"token":"(gthr_\w+)"/.exec(await follow('relay-token', { env: { ID } })) ?? [];
  expect([await relayStatus(leakedToken), await relayStatus(newToken), await readThread()]).toEqual([401, 200, 200]);
  // The use is recorded after the response.
  await until(async () => (await runCommand(['audit', 'export'], site.env)).stdout.includes('"relay.used"'));
  const trail = (await follow('relay-token', { env: { ID } })).split('\n');
  for (const event of ['relay_token.created', 'relay.used', 'relay_token.rotated'])
    expect(trail).toContainEqual(expect.stringContaining(`"${event}"`));
});

test('an admin token: it is refused, and what it did is listed', async () => {
  const leakedToken = await createAdminToken(site);
  const call = () =>
    sendRequest(`${site.url}/admin/api/users`, { headers: { ...ACCEPT_JSON, ...bearer(leakedToken) } });
  expect((await call()).status).toBe(200);
  const created = await sendRequest(`${site.url}/admin/api/relay-tokens`, {
    method: 'POST',
    headers: { ...bearer(leakedToken), ...JSON_BODY },
    body: JSON.stringify({ ...PERMISSIVE_POLICY, name: 'of the attacker' }),
  });
  expect(created.status).toBe(201);
  const trail = await follow('admin-token', { env: { ID: leakedToken.slice('gtha_'.length).slice(0, 11) } });
  expect(trail).toMatch(/"relay_token\.created".*of the attacker/);
  expect([(await call()).status, await readThread()]).toEqual([401, 200]);
});

test('the client secret of an app: the new one is used after a reload, and no connection has ended', async () => {
  const { browser, open } = await openConsole(site);
  const { body } = await browser.submit(await open('/apps/test-platform'), {}, { button: 'Create a new secret' });
  const [, secret = ''] = /class="secret".*?<code>([^<]+)</s.exec(body) ?? [];
  const doctor = () => runCommand(['doctor', 'platform'], site.env);
  expect((await doctor()).status).toBe(1);
  // The access token has expired, and its refresh fails.
  advanceClock(90);
  expect(await readThread()).toBe('provider_unavailable');
  // The doctor compares the clocks, so this one must be right.
  resetClock();
  await follow('new-secret', { input: `${secret}\n` });
  await follow('client-secret');
  expect((await doctor()).status).toBe(0);
  // After a failure, refreshes wait for half a minute.
  advanceClock(150);
  expect(await readThread()).toBe(200);
  expect((await signIn(site)).page.url).toBe(`${site.url}/`);
});

test.each([
  ['a session', (steps: string) => steps.trim().split('\n').at(-1) ?? ''],
  ['the session secrets', (steps: string) => steps],
])('%s: everyone is signed out, and connected as before after the next sign-in', async (leaked, change) => {
  const secretsBefore = operator.file('session-secrets');
  await follow('sessions', { change });
  expect(operator.file('session-secrets') === secretsBefore).toBe(leaked === 'a session');
  expect(await readThread()).toBe('sign_in_required');
  ({ agent: userAgent } = await signIn(site));
  expect(await readThread()).toBe(200);
});

test('an encryption key: every record is sealed with a new one, and users notice nothing after the restart', async () => {
  const leakedKeys = operator.file('encryption-keys');
  const [, newKey = ''] = /^(\S+:\S+)\n/m.exec(await follow('encryption-key')) ?? [];
  expect(operator.file('encryption-keys')).toBe(newKey);
  expect(newKey).not.toBe(leakedKeys);
  expect(await readThread()).toBe(200);
  const { encryptionKeys } = JSON.parse((await runCommand(['keys', 'status', '--json'], site.env)).stdout);
  expect(encryptionKeys).toMatchObject([{ kid: newKey.split(':')[0], encrypts: true }]);
  expect((await runCommand(['keys', 'status'], { ...site.env, ENCRYPTION_KEYS: leakedKeys })).status).toBe(78);
});

test('the storage and a key: every connection is ended here and at the provider, and the user connects again', async () => {
  await follow('disconnect');
  const readProgress = async () =>
    JSON.parse(await follow('disconnect', { change: (steps) => steps.replace(' -X POST', '') }));
  await until(async () => (await readProgress()).finishedAt !== null);
  expect(await readProgress()).toMatchObject({ done: 1, results: { revoked: 1 } });
  expect(await readThread()).toBe('not_connected');
  ({ agent: userAgent } = await signIn(site));
  expect(await readThread()).toBe(200);
});

test('at the end: the token that the page began with is refused', async () => {
  const countIncidentTokens = async () => {
    const tokens = JSON.parse((await runCommand(['admin-tokens', 'list', '--json'], site.env)).stdout);
    return (tokens as { name: string }[]).filter(({ name }) => name === 'incident').length;
  };
  const countBefore = await countIncidentTokens();
  await follow('end');
  expect(await countIncidentTokens()).toBe(countBefore);
});
