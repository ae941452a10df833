/** A restore lists the records that were ended after the backup, with lines that end them again. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UserAgent } from '../../support/browserless.ts';
import { APP_DEFAULTS, startWithoutSandbox, type TestGatehouse } from '../../support/gatehouse.ts';
import { missingCurl, skipIfMissing } from '../../support/missing.ts';
import { freePort } from '../../support/ports.ts';
import { JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { createAdminToken, runCommand } from '../../support/terminal.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, bearer, createAdministrator } from '../relay/service.ts';
import { attempt, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';

const folder = mkdtempSync(join(tmpdir(), 'gatehouse-restore-ended-'));
const backupFile = join(folder, 'one.backup');
const auditFile = join(folder, 'audit.ndjson');

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

/** Signs in a new user and connects the app `files`. */
async function signInUser(sub: string): Promise<{ agent: UserAgent; userId: string; csrfToken: string }> {
  site.provider.signInAs({ sub, email: `${sub}@example.test` });
  const { agent } = await attempt(site);
  await agent.submit(await agent.get(`${site.url}/connections/files`), {}, { button: 'Connect' });
  return { agent, ...(await sessionOf(site, agent)) };
}

/** Creates an item by the admin API. @returns its id */
async function create(path: string, body: object): Promise<string> {
  const { status, json } = await admin.call('POST', path, body);
  expect([path, status]).toEqual([path, 201]);
  return String(json.id);
}

async function callAdmin(method: string, path: string): Promise<void> {
  const { status } = await admin.call(method, path);
  expect([path, status < 300]).toEqual([path, true]);
}

test('the lines of restore --audit end only the records that were ended since', async (context) => {
  skipIfMissing(context, missingCurl);
  const ann = await signInUser('ann');
  const bob = await signInUser('bob');
  const cleo = await signInUser('cleo');
  const dan = await signInUser('dan');
  const expiresAt = new Date(Date.now() + 86_400_000).toISOString();
  const relayToken = await admin.createRelayToken({ apps: ['files'], assertUser: true });
  const keptToken = await admin.createRelayToken({ name: 'other', apps: ['files'] });
  const adminToken = await create('/admin-tokens', { name: 'old', scope: 'read', expiresAt });
  const webhook = await create('/webhooks', { url: `${site.provider.issuer}/hook`, events: ['connection.removed'] });
  const { accessToken: apiToken } = await storage.readGrant(cleo.userId, 'files');
  const account = await create('/service-accounts', { name: 'Batch', app: 'files', apiToken });
  const appOf = (id: string) => {
    const { clientSecret: _, ...app } = site.provider.app(site.url, { id, name: `It's ${id}`, signIn: undefined });
    return { ...app, clientSecret: site.provider.clientSecret };
  };
  for (const id of ['gone', 'off']) await create('/connected-apps', appOf(id));
  const createdLink = await sendRequest(`${site.url}/relay/connect-links`, {
    method: 'POST',
    headers: { ...bearer(relayToken.token), ...JSON_BODY },
    body: JSON.stringify({ userId: dan.userId, app: 'files' }),
  });
  const link = String(JSON.parse(createdLink.body).id);

  expect((await runCommand(['backup', backupFile], site.env)).status).toBe(0);

  await callAdmin('DELETE', `/connect-links/${link}`);
  await callAdmin('DELETE', `/relay-tokens/${relayToken.id}`);
  await callAdmin('DELETE', `/admin-tokens/${adminToken}`);
  await callAdmin('DELETE', `/webhooks/${webhook}`);
  await callAdmin('DELETE', `/service-accounts/${account}`);
  await callAdmin('DELETE', '/connected-apps/gone');
  const { version } = (await admin.call('GET', '/connected-apps/off')).json;
  const { clientSecret: _, ...appOff } = appOf('off');
  expect(
    (await admin.call('PUT', '/connected-apps/off', { ...APP_DEFAULTS, ...appOff, disabled: true, version })).status,
  ).toBe(200);
  await callAdmin('POST', `/users/${ann.userId}/disable`);
  await callAdmin('DELETE', `/users/${bob.userId}`);
  await callAdmin('POST', `/users/${cleo.userId}/sign-out`);
  await callAdmin('DELETE', `/connections/${dan.userId}.files`);
  await callAdmin('POST', `/users/${dan.userId}/disable`);
  await callAdmin('POST', `/users/${dan.userId}/enable`);

  const exportAudit = async () => (await runCommand(['audit', 'export'], site.env)).stdout;
  await expect.poll(exportAudit).toContain('user.deleted');
  writeFileSync(auditFile, await exportAudit());

  // The backup is restored to another storage, which a process on another port will use.
  const port = await freePort();
  const env = { ...site.env, DATA_DIR: join(folder, 'data'), PORT: String(port), MANAGEMENT_PORT: '0' };
  const restoreResult = await runCommand(['restore', backupFile, '--audit', auditFile], env);
  expect([restoreResult.status, restoreResult.stderr]).toEqual([0, '']);
  const outputLines = restoreResult.stdout.split('\n');
  const commandLines = outputLines.filter((line) => /^(curl|npm) /.test(line));
  expect(commandLines).toHaveLength(11);
  for (const line of commandLines) {
    const { length } = outputLines.filter((outputLine) => outputLine === line);
    expect(length).toBe(1);
  }
  expect(restoreResult.stdout).not.toContain(keptToken.id);
  expect(restoreResult.stdout).toMatch(/^# 20\S+Z User disabled\ncurl .*\/disable"$/m);
  const json = await runCommand(['restore', backupFile, '--replace', '--audit', auditFile, '--json'], env);
  expect(JSON.parse(json.stdout).ended.map(({ line }: { line: string }) => line)).toEqual(commandLines);

  const apps = [
    site.provider.app(site.url),
    site.provider.app(site.url, { id: 'files', name: 'Files', signIn: undefined }),
  ];
  restored = await startWithoutSandbox({ port, apps, env: { ...env, PUBLIC_URL: `http://127.0.0.1:${port}` } });
  const token = await createAdminToken(restored);
  const readStates = async () => {
    const get = async (path: string) =>
      sendRequest(`${restored?.url}/admin/api${path}`, {
        headers: { accept: 'application/json', authorization: `Bearer ${token}` },
      });
    const exists = async (path: string) => (await get(path)).status === 200;
    const isDisabled = async (path: string) => JSON.parse((await get(path)).body).disabled === true;
    const countItems = async (path: string) => JSON.parse((await get(path)).body).items.length;
    const endedRecords = [
      `/relay-tokens/${relayToken.id}`,
      `/admin-tokens/${adminToken}`,
      `/connect-links/${link}`,
      '/connected-apps/gone',
      `/users/${bob.userId}`,
      `/connections/${dan.userId}.files`,
    ];
    return {
      ended: await Promise.all(endedRecords.map(exists)),
      keptToken: await exists(`/relay-tokens/${keptToken.id}`),
      isAnnDisabled: await isDisabled(`/users/${ann.userId}`),
      isDanDisabled: await isDisabled(`/users/${dan.userId}`),
      isAppDisabled: await isDisabled('/connected-apps/off'),
      webhooks: await countItems('/webhooks'),
      serviceAccounts: await countItems('/service-accounts'),
      sessionsOfCleo: await countItems(`/sessions?q=${cleo.userId}`),
    };
  };
  expect(await readStates()).toEqual({
    ...{ ended: Array(6).fill(true), keptToken: true },
    ...{ isAnnDisabled: false, isDanDisabled: false, isAppDisabled: false },
    ...{ webhooks: 1, serviceAccounts: 1, sessionsOfCleo: 1 },
  });

  for (const line of commandLines) {
    if (line.startsWith('npm ')) {
      const args = line.replace('npm run -s gatehouse -- ', '').split(' ');
      expect([line, (await runCommand(args, restored.env)).status]).toEqual([line, 0]);
    } else {
      await promisify(execFile)('sh', ['-c', line], {
        env: { PATH: process.env.PATH, GATEHOUSE: restored.url, ADMIN_TOKEN: token },
      });
    }
  }

  expect(await readStates()).toEqual({
    ...{ ended: Array(6).fill(false), keptToken: true },
    ...{ isAnnDisabled: true, isDanDisabled: false, isAppDisabled: true },
    ...{ webhooks: 0, serviceAccounts: 0, sessionsOfCleo: 0 },
  });
});

test('refuses a file that is not an export before anything is written', async () => {
  const env = { ...site.env, DATA_DIR: join(folder, 'untouched') };
  writeFileSync(auditFile, 'Gatehouse is ready\n');
  expect((await runCommand(['backup', backupFile, '--force'], site.env)).status).toBe(0);
  const { status, stdout, stderr } = await runCommand(['restore', backupFile, '--audit', auditFile], env);
  expect([status, stdout]).toEqual([1, '']);
  expect(stderr).toContain(`${auditFile} is not an export of the audit trail: line 1 is not an entry.`);
  expect((await runCommand(['restore', backupFile], env)).status).toBe(0);
});
