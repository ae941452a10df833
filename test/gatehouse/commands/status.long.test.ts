/** `config check` before a start, and `status` if something is wrong. */
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest';
import { generateEncryptionKey } from '../../../src/shared/storage/key-ring.ts';
import { VERSION } from '../../../src/shared/version.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { freePort } from '../../support/ports.ts';
import { missingRedis, type RedisServer, startRedis } from '../../support/redis-server.ts';
import { runCommand } from '../../support/terminal.ts';

describe.each(['SQLite', 'Redis'])('on %s', (kind) => {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  let redis: RedisServer | undefined;
  let site: TestSite;
  const check = (name: string, work: () => Promise<void>) =>
    test(name, async (context: TestContext) => {
      skipIfMissing(context, missing);
      await work();
    });
  // These tests do not depend on the storage, so they run only on SQLite.
  const checkOnce: typeof check = kind === 'SQLite' ? check : () => undefined;
  const run = (args: string[], changes: Record<string, string> = {}) => runCommand(args, { ...site.env, ...changes });
  beforeAll(async () => {
    if (missing) return;
    redis = kind === 'Redis' ? await startRedis() : undefined;
    site = await startSite(redis ? { env: { REDIS_URL: redis.url } } : {});
    await signIn(site);
  });
  afterAll(async () => {
    await site?.close();
    await redis?.dispose();
  });

  check('status shows the running processes and the last backup', async () => {
    const { status, stdout } = await run(['status', '--json']);
    expect(status).toBe(0);
    const name = redis ? `Redis at ${new URL(redis.url).host}` : `SQLite in ${site.env.DATA_DIR}`;
    const kid = site.env.ENCRYPTION_KEYS?.split(':')[0];
    expect(JSON.parse(stdout)).toEqual({
      version: VERSION,
      storage: { name, schema: expect.any(Number), fault: null },
      management: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
      thisMachine: { ready: true },
      processes: [expect.objectContaining({ encryptsWith: kid, decryptsWith: [kid] })],
      encryptionKeys: [expect.objectContaining({ kid, encrypts: true, configured: true })],
      connections: expect.objectContaining({ active: 1, reconnect_needed: 0 }),
      sessions: 1,
      lastBackup: null,
    });
    await run(['backup', join(site.dataDirectory, '..', `${kind}.backup`)]);
    const text = (await run(['status'])).stdout;
    expect(text).toMatch(/^version +\d+\.\d+\.\d+.*\nstorage +\w+.*, responds, schema \d+\nthis machine +ready\n/);
    expect(text).toMatch(/\nprocesses +1 \(1 encrypts with \S+\)\nkeys +\S+ \(encrypts\)\nconnections +active: 1\n/);
    expect(text).toMatch(/\nlast backup +\d{4}-\d\d-\d\dT.*Z\n$/);
    expect(text).not.toContain(site.env.ENCRYPTION_KEYS?.split(':')[1] ?? '');
    if (redis) expect(text).not.toContain('redis://');
  });

  checkOnce('status says that nothing listens here, while another process runs', async () => {
    const port = String(await freePort());
    const { status, stdout } = await run(['status', '--json'], { MANAGEMENT_PORT: port });
    expect(status).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ thisMachine: null, management: `127.0.0.1:${port}`, processes: [{}] });
    const text = (await run(['status'], { MANAGEMENT_PORT: port })).stdout;
    expect(text).toContain(`nothing responds at 127.0.0.1:${port} (MANAGEMENT_HOST, MANAGEMENT_PORT)`);
  });

  checkOnce('status says that something responds here, but not as this version does', async () => {
    const otherServer = createServer((_request, response) => response.end('ready\n')).listen(0, '127.0.0.1');
    await once(otherServer, 'listening');
    const { port } = otherServer.address() as AddressInfo;
    try {
      const { status, stdout } = await run(['status'], { MANAGEMENT_PORT: String(port) });
      expect([status, stdout]).toEqual([
        1,
        expect.stringContaining(
          `\nthis machine  something responds at 127.0.0.1:${port}, but not as this version of Gatehouse does\n`,
        ),
      ]);
    } finally {
      otherServer.close();
    }
  });

  checkOnce('config check finds no fault in the settings of a running process', async () => {
    const { status, stdout } = await run(['config', 'check', '--json']);
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, faults: [], apps: ['platform'] });
    expect((await run(['config', 'check'])).stdout).toMatch(
      /^The settings are valid\. Storage: .*: platform\. Administrators: users of "platform" with gatehouse-admins in groups\.\n$/,
    );
  });

  checkOnce('config check warns of names that are no settings', async () => {
    const changes = { REDIS_URI: 'redis://:hidden-password@127.0.0.1', OTEL_PROPAGATORS: 'b3', HOSTNAME: 'web-1' };
    const { status, stdout } = await run(['config', 'check'], changes);
    expect(status).toBe(0);
    expect(stdout).toContain('Warning: REDIS_URI is ignored. Did you mean REDIS_URL?\n');
    expect(stdout).toContain(
      'Warning: OTEL_PROPAGATORS is ignored: docs/operating-reference.md lists the supported OTEL_ settings',
    );
    expect(stdout).not.toMatch(/HOSTNAME|hidden-password/);
  });

  checkOnce('config check warns of an app of the file whose callback URL is that of another host', async () => {
    const { status, stdout } = await run(['config', 'check'], { PUBLIC_URL: 'https://new.example.com' });
    expect(status).toBe(0);
    expect(stdout).toContain(
      'Warning: no user can use the app "platform" here: add https://new.example.com/oauth/callback/platform to its callbackUrls.\n',
    );
  });

  checkOnce('config check names every fault at once, and no secret', async () => {
    const faultyFile = join(site.dataDirectory, '..', 'wrong-apps.json');
    writeFileSync(faultyFile, '[{"id":"one"}]');
    const changes = { CONNECTED_APPS_FILE: faultyFile, SESSION_SECRETS: 'too-short-secret', PORT: 'x' };
    const { status, stdout, stderr } = await run(['config', 'check', '--json'], changes);
    expect(status).toBe(78);
    expect(stderr).toBe('');
    const { ok, faults } = JSON.parse(stdout);
    expect(ok).toBe(false);
    for (const part of ['PORT must be', 'SESSION_SECRETS', '(one)']) expect(faults.join('\n')).toContain(part);
    const text = await run(['config', 'check'], changes);
    expect(text.status).toBe(78);
    expect(text.stdout).toMatch(/^- /);
    expect(text.stdout).not.toContain('too-short-secret');
  });
});

test('without Redis, status shows what needs no storage, and a backup names host and setting', async () => {
  const site = await startSite();
  const port = await freePort();
  const env = { ...site.env, REDIS_URL: `redis://:a-hidden-password@127.0.0.1:${port}` };
  const cause = `Redis at 127.0.0.1:${port} (REDIS_URL) cannot be reached: ECONNREFUSED`;
  const { status, stdout } = await runCommand(['status'], env);
  expect(status).toBe(1);
  expect(stdout).toContain(`, DOES NOT RESPOND: ${cause}\nthis machine  ready\n`);
  const json = await runCommand(['status', '--json'], env);
  expect([json.status, JSON.parse(json.stdout)]).toMatchObject([1, { storage: { fault: cause }, processes: null }]);
  const backup = await runCommand(['backup', join(tmpdir(), 'gatehouse-never-written')], env);
  expect([backup.status, backup.stdout]).toEqual([1, '']);
  expect(backup.stderr).toContain(`This cannot be done: ${cause}. Try again once`);
  expect(stdout + json.stdout + backup.stderr).not.toContain('a-hidden-password');
  await site.close();
});

test.each(['REDIS_URL', 'REDIS_CLUSTER'])('a malformed %s is named alone, with what to do', async (name) => {
  const env = { DATA_DIR: tmpdir(), ENCRYPTION_KEYS: generateEncryptionKey(new Date()) };
  const { status, stderr } = await runCommand(['status'], { ...env, [name]: 'redis://:hid#den@host' });
  expect(status).toBe(78);
  expect(stderr).toMatch(
    new RegExp(`- ${name} cannot be read\\. .* percent-encode special characters of the password`),
  );
  expect(stderr).not.toMatch(/hid#den|SENTINELS/);
});

test('status without a running process says so, with status 1', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-status-'));
  const dataDirectory = join(folder, 'data');
  const site = await startSite({ env: { DATA_DIR: dataDirectory } });
  await site.close();
  const { status, stdout } = await runCommand(['status'], site.env);
  expect(stdout).toMatch(/\nthis machine +nothing responds.*\nprocesses +NONE RUNNING\n/);
  expect(status).toBe(1);

  rmSync(dataDirectory, { recursive: true });
  for (const args of [
    ['status'],
    ['admin-tokens', 'list'],
    ['admin-tokens', 'revoke', 'some-id'],
    ['sessions', 'end', '--all'],
  ]) {
    const result = await runCommand(args, site.env);
    expect([args, result.status, result.stdout]).toEqual([args, 78, '']);
    expect(result.stderr).toContain(`There is no database in ${dataDirectory}`);
    expect(result.stderr).toContain('or start Gatehouse once, which creates it');
    expect(existsSync(dataDirectory)).toBe(false);
  }
  rmSync(folder, { recursive: true });
});

test('doctor lists the existing ids for an unknown id, with status 1', async () => {
  const site = await startSite();
  const unknown = await runCommand(['doctor', 'misspelt'], site.env);
  expect([unknown.status, unknown.stdout]).toEqual([1, '']);
  expect(unknown.stderr).toMatch(/There is no connected app with the id "misspelt"\. The ids are: [a-z]/);
  expect(unknown.stderr).not.toContain('.env.example');
  const none = await runCommand(['doctor', 'platform'], { ...site.env, CONNECTED_APPS_FILE: '' });
  expect([none.status, none.stdout]).toEqual([1, '']);
  expect(none.stderr).toContain('There is no connected app: set CONNECTED_APPS_FILE, or');
  await site.close();
});
