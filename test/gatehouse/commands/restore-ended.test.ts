/** A restore lists the records that were ended after the backup, with lines that end them again. */
import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UserAgent } from '../../support/browserless.ts';
import { startWithoutSandbox, type TestGatehouse } from '../../support/gatehouse.ts';
import { skipWithout } from '../../support/missing.ts';
import { freePort } from '../../support/ports.ts';
import { JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { createAdminToken, runCommand } from '../../support/terminal.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, bearer, createAdministrator } from '../relay/service.ts';
import { attempt, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';

const missingCurl = spawnSync('curl', ['--version']).status === 0 ? undefined : 'curl';
const folder = mkdtempSync(join(tmpdir(), 'gatehouse-restore-ended-'));
const [backup, audit] = [join(folder, 'one.backup'), join(folder, 'audit.ndjson')];

let site: HostileSite;
let storage: StorageAccess;
let admin: Administrator;
let restored: TestGatehouse | undefined;
beforeAll(async () => {
  site = await startHostileSite({
    apps: (provider, url) => [provider.app(url), provider.app(url, { id: 'files', name: 'Files', signIn: undefined })],
  });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
});
afterAll(async () => {
  await restored?.close();
  await storage?.close();
  await site?.close();
  rmSync(folder, { recursive: true });
});

async function user(sub: string): Promise<{ agent: UserAgent; userId: string; csrfToken: string }> {
  site.provider.signInAs({ sub, email: `${sub}@example.test` });
  const { agent } = await attempt(site);
  await agent.submit(await agent.get(`${site.url}/connections/files`), {}, { button: 'Connect' });
  return { agent, ...(await sessionOf(site, agent)) };
}

async function made(path: string, body: object): Promise<string> {
  const { status, json } = await admin.call('POST', path, body);
  expect([path, status]).toEqual([path, 201]);
  return String(json.id);
}

async function called(method: string, path: string): Promise<void> {
  const { status } = await admin.call(method, path);
  expect([path, status < 300]).toEqual([path, true]);
}

test('the lines of restore --audit end only the records that were ended since', async (context) => {
  skipWithout(context, missingCurl);
  const [ann, bob, cleo, dan] = [await user('ann'), await user('bob'), await user('cleo'), await user('dan')];
  const expiresAt = new Date(Date.now() + 86_400_000).toISOString();
  const relayToken = await admin.createRelayToken({ apps: ['files'], assertUser: true });
  const other = await admin.createRelayToken({ name: 'other', apps: ['files'] });
  const adminToken = await made('/admin-tokens', { name: 'old', scope: 'read', expiresAt });
  const webhook = await made('/webhooks', { url: `${site.provider.issuer}/hook`, events: ['connection.removed'] });
  const { accessToken: apiToken } = await storage.readGrant(cleo.userId, 'files');
  const account = await made('/service-accounts', { name: 'Batch', app: 'files', apiToken });
  const appOf = (id: string) => {
    const { clientSecret: _, ...app } = site.provider.app(site.url, { id, name: `It's ${id}`, signIn: undefined });
    return { ...app, clientSecret: site.provider.clientSecret };
  };
  for (const id of ['gone', 'off']) await made('/connected-apps', appOf(id));
  const createdLink = await sendRequest(`${site.url}/relay/connect-links`, {
    method: 'POST',
    headers: { ...bearer(relayToken.token), ...JSON_BODY },
    body: JSON.stringify({ user: dan.userId, app: 'files' }),
  });
  const link = String(JSON.parse(createdLink.body).id);

  expect((await runCommand(['backup', backup], site.env)).status).toBe(0);

  await called('DELETE', `/connect-links/${link}`);
  await called('DELETE', `/relay-tokens/${relayToken.id}`);
  await called('DELETE', `/admin-tokens/${adminToken}`);
  await called('DELETE', `/webhooks/${webhook}`);
  await called('DELETE', `/service-accounts/${account}`);
  await called('DELETE', '/connected-apps/gone');
  const { version } = (await admin.call('GET', '/connected-apps/off')).json;
  const { clientSecret: _, ...off } = appOf('off');
  expect((await admin.call('PUT', '/connected-apps/off', { ...off, disabled: true, version })).status).toBe(200);
  await called('POST', `/users/${ann.userId}/disable`);
  await called('DELETE', `/users/${bob.userId}`);
  await called('POST', `/users/${cleo.userId}/sign-out`);
  await called('DELETE', `/connections/${dan.userId}.files`);
  await called('POST', `/users/${dan.userId}/disable`);
  await called('POST', `/users/${dan.userId}/enable`);

  let said = '';
  await expect
    .poll(async () => {
      said = (await runCommand(['audit', 'export'], site.env)).stdout;
      return said;
    })
    .toContain('user.deleted');
  writeFileSync(audit, said);

  // On a storage and a port of its own.
  const port = await freePort();
  const env = { ...site.env, DATA_DIR: join(folder, 'data'), PORT: String(port), MANAGEMENT_PORT: '0' };
  const done = await runCommand(['restore', backup, '--audit', audit], env);
  expect([done.status, done.stderr]).toEqual([0, '']);
  const listed = done.stdout.split('\n').filter((line) => /^(curl|npm) /.test(line));
  expect(listed).toHaveLength(11);
  for (const line of listed) {
    const { length } = done.stdout.split('\n').filter((one) => one === line);
    expect(length).toBe(1);
  }
  expect(done.stdout).not.toContain(other.id);
  expect(done.stdout).toMatch(/^# 20\S+Z User disabled\ncurl .*\/disable"$/m);
  const json = await runCommand(['restore', backup, '--replace', '--audit', audit, '--json'], env);
  expect(JSON.parse(json.stdout).ended.map(({ line }: { line: string }) => line)).toEqual(listed);

  const apps = [
    site.provider.app(site.url),
    site.provider.app(site.url, { id: 'files', name: 'Files', signIn: undefined }),
  ];
  restored = await startWithoutSandbox({ port, apps, env: { ...env, PUBLIC_URL: `http://127.0.0.1:${port}` } });
  const token = await createAdminToken(restored);
  const states = async () => {
    const statusOf = async (path: string) =>
      sendRequest(`${restored?.url}/admin/api${path}`, {
        headers: { accept: 'application/json', authorization: `Bearer ${token}` },
      });
    const paths = [
      ...[
        `/relay-tokens/${relayToken.id}`,
        `/admin-tokens/${adminToken}`,
        `/connect-links/${link}`,
        '/connected-apps/gone',
      ],
      ...[`/users/${bob.userId}`, `/connections/${dan.userId}.files`, `/relay-tokens/${other.id}`],
    ];
    const shown = await Promise.all(
      [`/users/${ann.userId}`, `/users/${dan.userId}`, '/connected-apps/off'].map(statusOf),
    );
    return {
      found: (await Promise.all(paths.map(statusOf))).map((one) => one.status === 200),
      disabled: shown.map(({ body }) => JSON.parse(body).disabled === true),
      listed: await Promise.all(
        ['/webhooks', '/service-accounts', `/sessions?q=${cleo.userId}`].map(
          async (path) => JSON.parse((await statusOf(path)).body).items.length,
        ),
      ),
    };
  };
  expect(await states()).toEqual({ found: Array(7).fill(true), disabled: [false, false, false], listed: [1, 1, 1] });
  for (const line of listed) {
    if (line.startsWith('npm ')) {
      const args = line.replace('npm run -s gatehouse -- ', '').split(' ');
      expect([line, (await runCommand(args, restored.env)).status]).toEqual([line, 0]);
    } else {
      await promisify(execFile)('sh', ['-c', line], {
        env: { PATH: process.env.PATH, GATEHOUSE: restored.url, ADMIN_TOKEN: token },
      });
    }
  }
  expect(await states()).toEqual({
    found: [...Array(6).fill(false), true],
    disabled: [true, false, true],
    listed: [0, 0, 0],
  });
});

test('refuses a file that is not an export before anything is written', async () => {
  const env = { ...site.env, DATA_DIR: join(folder, 'untouched') };
  writeFileSync(audit, 'Gatehouse is ready\n');
  expect((await runCommand(['backup', backup, '--force'], site.env)).status).toBe(0);
  const { status, stdout, stderr } = await runCommand(['restore', backup, '--audit', audit], env);
  expect([status, stdout]).toEqual([1, '']);
  expect(stderr).toContain(`${audit} is not an export of the audit trail: line 1 is not an entry.`);
  expect((await runCommand(['restore', backup], env)).status).toBe(0);
});
