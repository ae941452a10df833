/** SIGHUP: the apps file and the files of secrets are read again, all or none, while requests run. */
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { createAdministrator } from '../gatehouse/relay/service.ts';
import {
  createMember,
  type Fleet,
  LOGINS,
  type Member,
  openSharedStorage,
  type StoreKind,
  startFleet,
} from '../support/fleet.ts';
import { CLIENT_SECRET, sandboxApp } from '../support/gatehouse.ts';
import { skipIfMissing } from '../support/missing.ts';
import { freePort } from '../support/ports.ts';
import { missingRedis } from '../support/redis-server.ts';
import { sendRequest } from '../support/send-request.ts';
import { runCommand } from '../support/terminal.ts';
import { until } from '../support/until.ts';

const [UMA = '', OTHER = ''] = LOGINS;
const newSecret = () => randomBytes(48).toString('base64');

const linesOf = ({ program }: Member) =>
  program
    .stdout()
    .split('\n')
    // The text after the last line break may be half a line.
    .slice(0, -1)
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
const reloadLines = (member: Member) => linesOf(member).filter(({ msg }) => /^settings (not )?reloaded/.test(msg));

/** Sends SIGHUP to a process, and returns the log line of the result. */
async function reload(member: Member) {
  const countBefore = reloadLines(member).length;
  member.signal('SIGHUP');
  await until(() => reloadLines(member).length > countBefore);
  return reloadLines(member).at(-1);
}

describe.each<StoreKind>(['SQLite', 'Redis'])('SIGHUP with %s', (kind) => {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  let fleet: Fleet;
  const printed: (() => string)[] = [];
  let files: Record<'apps' | 'sessions' | 'keys' | 'client' | 'redis' | 'bins' | 'traces', string>;
  /** A server in place of the BIN lookup service and of the collector of traces. */
  let receiver: Server;
  const received: { path: string; authorization: string | undefined }[] = [];
  const write = (file: keyof typeof files, text: string) => writeFileSync(files[file], text);
  const read = (file: keyof typeof files) => readFileSync(files[file], 'utf8');
  const app = (id: 'platform' | 'second', changes: Record<string, unknown> = {}) =>
    sandboxApp(fleet, id, { clientSecret: { file: files.client }, ...changes });
  const writeApps = (...apps: Record<string, unknown>[]) => write('apps', JSON.stringify(apps));
  const auditEntriesOf = async (event: string) => {
    const { stdout } = await runCommand(['audit', 'export'], settings());
    const lines = stdout.split('\n').filter((line) => line.includes(event));
    return lines.map((line) => JSON.parse(line));
  };
  const settings = () => fleet.member(0).env;
  const testReload = (name: string, work: () => Promise<void>) =>
    test(name, async (context: TestContext) => {
      skipIfMissing(context, missing);
      await work();
    });

  beforeAll(async () => {
    if (missing) return;
    receiver = createServer((request, response) => {
      received.push({ path: request.url ?? '', authorization: request.headers.authorization });
      request.resume().on('end', () => response.writeHead(404, { 'content-type': 'application/json' }).end('{}'));
    }).listen(0, '127.0.0.1');
    // The processes are started below, once the files are written that their settings name.
    fleet = await startFleet({ kind, processes: 0 });
    const folder = dirname(fleet.dataDirectory);
    const pathOf = (name: string) => join(folder, name);
    files = {
      apps: fleet.env.CONNECTED_APPS_FILE ?? '',
      sessions: pathOf('sessions'),
      keys: pathOf('keys'),
      client: pathOf('client'),
      redis: pathOf('redis'),
      bins: pathOf('bins'),
      traces: pathOf('traces'),
    };
    write('sessions', fleet.env.SESSION_SECRETS ?? '');
    write('keys', fleet.env.ENCRYPTION_KEYS ?? '');
    write('client', CLIENT_SECRET);
    write('bins', 'first-key');
    write('traces', 'authorization=first-token');
    writeApps(app('platform'));
    const receiverUrl = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
    const fileSettings: Record<string, string> = {
      SESSION_SECRETS: '',
      SESSION_SECRETS_FILE: files.sessions,
      ENCRYPTION_KEYS: '',
      ENCRYPTION_KEYS_FILE: files.keys,
      BIN_SERVICE_URL: `${receiverUrl}/bins`,
      BIN_SERVICE_API_KEY_FILE: files.bins,
      OTEL_EXPORTER_OTLP_ENDPOINT: receiverUrl,
      OTEL_EXPORTER_OTLP_HEADERS_FILE: files.traces,
    };
    if (fleet.redis) {
      write('redis', fleet.redis.url);
      Object.assign(fileSettings, { REDIS_URL: '', REDIS_URL_FILE: files.redis });
    }
    for (const PORT of [new URL(fleet.url).port, String(await freePort())]) {
      const ports = { PORT, MANAGEMENT_PORT: String(await freePort()) };
      (fleet.members as Member[]).push(createMember({ ...fleet.env, ...fileSettings, ...ports }, printed));
    }
    await Promise.all(fleet.members.map((member) => member.start()));
  });
  afterAll(async () => {
    await fleet?.close();
    receiver?.close();
  });

  testReload('of unchanged files changes nothing, and the audit trail gets no entry', async () => {
    expect(await reload(fleet.member(0))).toMatchObject({ level: 30, msg: 'settings reloaded' });
    expect(await auditEntriesOf('settings.reloaded')).toEqual([]);
  });

  testReload('uses the new apps file in the process that got it, and names what changed', async () => {
    writeApps(app('platform', { name: 'Renamed' }), app('second', { signIn: undefined }));
    expect(await reload(fleet.member(0))).toMatchObject({ appsAdded: ['second'], appsChanged: ['platform'] });
    const user = await fleet.signIn(UMA);
    const namesShownBy = async (member: Member) => {
      const { body } = await fleet.get(member, '/connections', user);
      const { items } = JSON.parse(body) as { items: { appName: string }[] };
      return items.map(({ appName }) => appName);
    };
    expect(await namesShownBy(fleet.member(0))).toContain('Renamed');
    expect(await namesShownBy(fleet.member(1))).not.toContain('Renamed');
    expect(await reload(fleet.member(1))).toMatchObject({ appsAdded: ['second'], appsChanged: ['platform'] });
    expect(await namesShownBy(fleet.member(1))).toContain('Renamed');

    const entries = await auditEntriesOf('settings.reloaded');
    expect(entries).toHaveLength(2);
    const pids = fleet.members.map(({ program }) => program.pid);
    for (const [index, { actor, facts }] of entries.entries()) {
      expect(actor).toEqual({ kind: 'operator' });
      expect(facts).toMatchObject({ appsAdded: ['second'], appsChanged: ['platform'] });
      expect(facts.process).toContain(String(pids[index]));
    }

    writeApps(app('platform'));
    for (const member of fleet.members)
      expect(await reload(member)).toMatchObject({ appsRemoved: ['second'], appsChanged: ['platform'] });
    expect(await namesShownBy(fleet.member(0))).not.toContain('Renamed');
  });

  testReload('uses a client secret from its file at the next call', async () => {
    write('client', 'not-the-secret-that-the-provider-knows');
    expect(await reload(fleet.member(0))).toMatchObject({ appsChanged: ['platform'] });
    await expect(fleet.signIn(OTHER)).rejects.toThrow();
    write('client', CLIENT_SECRET);
    expect(await reload(fleet.member(0))).toMatchObject({ appsChanged: ['platform'] });
    await fleet.signIn(OTHER);
  });

  testReload('with one fault changes nothing, and reports all faults', async () => {
    const sessions = read('sessions');
    const apps = read('apps');
    const user = await fleet.signIn(UMA);
    const entries = await auditEntriesOf('settings.reloaded');
    write('sessions', newSecret());
    writeApps(app('platform', { name: 'Renamed', issuer: 'no URL' }), app('second', { colour: 'red' }));
    const line = await reload(fleet.member(0));
    expect(line).toMatchObject({ level: 50, msg: 'settings not reloaded: nothing has changed' });
    expect(line.faults).toHaveLength(2);
    expect(line.faults.join()).toMatch(/\(platform\), \/issuer: .*\(second\), .*"colour"/);
    expect((await fleet.thread(fleet.member(0), user)).status).toBe(200);
    expect((await fleet.get(fleet.member(0), '/connections', user)).body).not.toContain('Renamed');
    // A fault in another file also refuses the reload.
    write('apps', apps);
    write('sessions', 'short');
    expect((await reload(fleet.member(0))).faults.join()).toMatch(/^SESSION_SECRETS: number 1 /);
    write('sessions', sessions);
    write('apps', '[');
    expect((await reload(fleet.member(0))).faults.join()).toMatch(/is not valid JSON/);
    write('apps', apps);
    expect(await reload(fleet.member(0))).toMatchObject({ level: 30 });
    expect(await auditEntriesOf('settings.reloaded')).toEqual(entries);
  });

  testReload('rotates the session secrets, and sessions live as long as their secret is listed', async () => {
    const old = read('sessions');
    const member = fleet.member(0);
    const earlierUser = await fleet.signIn(UMA);
    const next = newSecret();
    write('sessions', `${next},${old}`);
    expect(await reload(member)).toMatchObject({ settings: ['SESSION_SECRETS'] });
    const laterUser = await fleet.signIn(OTHER);
    expect((await fleet.thread(member, earlierUser)).status).toBe(200);
    expect((await fleet.thread(member, laterUser)).status).toBe(200);
    // The other process has not read the new file yet.
    expect((await fleet.thread(fleet.member(1), laterUser)).status).toBe(401);
    await reload(fleet.member(1));
    expect((await fleet.thread(fleet.member(1), laterUser)).status).toBe(200);
    write('sessions', next);
    await reload(member);
    expect((await fleet.thread(member, earlierUser)).status).toBe(401);
    expect((await fleet.thread(member, laterUser)).status).toBe(200);
    await reload(fleet.member(1));
    expect(printed.map((text) => text()).join('\n')).not.toContain(next);
  });

  testReload('rotates the encryption keys without a restart, and refuses to drop one in use', async () => {
    const old = read('keys');
    const next = generateEncryptionKey(new Date());
    const kidOf = (key: string) => key.split(':')[0] ?? '';
    const user = await fleet.signIn(UMA);
    const reloadAll = async () => {
      for (const member of fleet.members) expect(await reload(member)).toMatchObject({ settings: ['ENCRYPTION_KEYS'] });
    };
    const listProcesses = async () => {
      const { stdout } = await runCommand(['keys', 'status', '--json'], settings());
      return JSON.parse(stdout).processes;
    };

    write('keys', next);
    const refused = await reload(fleet.member(0));
    expect(refused).toMatchObject({ level: 50 });
    expect(refused.faults.join()).toContain(kidOf(old));
    write('keys', `${old},${next}`);
    await reloadAll();
    write('keys', `${next},${old}`);
    await reloadAll();
    expect(await listProcesses()).toEqual([
      expect.objectContaining({ encryptsWith: kidOf(next), decryptsWith: [kidOf(next), kidOf(old)] }),
      expect.objectContaining({ encryptsWith: kidOf(next), decryptsWith: [kidOf(next), kidOf(old)] }),
    ]);
    const rotated = await runCommand(['keys', 'rotate', '--json'], settings());
    expect(JSON.parse(rotated.stdout)).toMatchObject({ kid: kidOf(next), removable: [kidOf(old)] });
    write('keys', next);
    await reloadAll();
    expect((await listProcesses()).map(({ decryptsWith }: { decryptsWith: string[] }) => decryptsWith)).toEqual([
      [kidOf(next)],
      [kidOf(next)],
    ]);
    for (const member of fleet.members) expect((await fleet.thread(member, user)).status).toBe(200);
  });

  testReload('uses an app that another process sealed with a key that this one got only now', async () => {
    const member = fleet.member(0);
    const sealingMember = fleet.member(1);
    const old = read('keys');
    write('keys', `${generateEncryptionKey(new Date())},${old}`);
    await reload(sealingMember);
    const storage = await openSharedStorage({ ...fleet.env, ENCRYPTION_KEYS: old });
    const admin = await createAdministrator({ url: sealingMember.url }, storage);
    await storage.store.close();
    const registered = { ...sandboxApp(fleet, 'second'), clientSecret: CLIENT_SECRET };
    expect((await admin.call('POST', '/connected-apps', registered)).status).toBe(201);
    const headers = { host: new URL(fleet.url).host };
    const statusAt = async ({ url }: Member) => (await sendRequest(`${url}/sign-in?app=second`, { headers })).status;
    expect(await until(async () => (await statusAt(sealingMember)) === 303)).toBeLessThan(3_000);
    await sleep(1_000);
    expect(await statusAt(member)).toBe(404);
    expect(await reload(member)).toMatchObject({ settings: ['ENCRYPTION_KEYS'] });
    expect(await until(async () => (await statusAt(member)) === 303)).toBeLessThan(3_000);
    expect((await admin.call('DELETE', '/connected-apps/second')).status).toBeLessThan(300);
    await until(async () => (await statusAt(member)) === 404);
  });

  testReload('uses new keys of the BIN lookup service and the collector at their next calls', async () => {
    const member = fleet.member(0);
    const user = await fleet.signIn(UMA);
    /** Returns the last key that was sent to this path. */
    const keySentTo = (path: string) => received.filter((call) => call.path.startsWith(path)).at(-1)?.authorization;
    await fleet.get(member, '/bin/999999', user);
    expect(keySentTo('/bins')).toBe('Bearer first-key');
    // Spans that a busy machine sends too late are lost: each request makes new ones.
    const untilTraced = (token: string) =>
      until(async () => {
        await fleet.get(member, '/session', user);
        return keySentTo('/v1/traces') === token;
      });
    await untilTraced('first-token');
    write('bins', 'second-key');
    write('traces', 'authorization=second-token');
    const settings = ['BIN_SERVICE_API_KEY', 'OTEL_EXPORTER_OTLP_HEADERS'];
    expect(await reload(member)).toMatchObject({ settings });
    await fleet.get(member, '/bin/999998', user);
    expect(keySentTo('/bins')).toBe('Bearer second-key');
    await untilTraced('second-token');
  });

  testReload('disturbs no request in flight', async () => {
    const user = await fleet.signIn(UMA);
    const member = fleet.member(0);
    const statuses: number[] = [];
    let isDone = false;
    const callers = Array.from({ length: 8 }, async () => {
      while (!isDone) statuses.push((await fleet.thread(member, user)).status);
    });
    for (let round = 0; round < 10; round += 1) {
      writeApps(app('platform', { name: `Round ${round}` }));
      write('sessions', `${read('sessions').split(',')[0]},${newSecret()}`);
      expect(await reload(member)).toMatchObject({ appsChanged: ['platform'], settings: ['SESSION_SECRETS'] });
    }
    isDone = true;
    await Promise.all(callers);
    expect(statuses.length).toBeGreaterThan(10);
    expect(new Set(statuses)).toEqual(new Set([200]));
  });

  if (kind === 'Redis') {
    testReload('names a setting of the storage that waits for a restart, each time', async () => {
      write('redis', `${fleet.redis?.url}/0`);
      const waiting = { level: 40, restartNeeded: ['REDIS_URL'] };
      expect(await reload(fleet.member(0))).toMatchObject(waiting);
      expect(await reload(fleet.member(0))).toMatchObject(waiting);
      write('redis', fleet.redis?.url ?? '');
      expect((await reload(fleet.member(0))).restartNeeded).toBeUndefined();
    });
  }
});
