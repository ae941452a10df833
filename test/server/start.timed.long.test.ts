/** `npm start`: refused settings, the start, and the stop. */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { createBinService } from '../../src/bin-lookup-service/service.ts';
import { startGatehouse } from '../../src/gatehouse/start.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { StartRefused } from '../../src/shared/errors.ts';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { DATABASE_FILE } from '../../src/shared/storage/sqlite/store.ts';
import { CLIENT_SECRET, sandboxApp, signIn } from '../support/gatehouse.ts';
import { freePort } from '../support/ports.ts';
import { isRunning, type Program, startProgram } from '../support/program.ts';
import { ACCEPT_JSON, sendRequest } from '../support/send-request.ts';
import { startStopwatch } from '../support/stopwatch.ts';

const NPM_START = ['npm', 'start'];
const NODE = ['node', 'src/server.ts'];

let directory: string;
let env: Record<string, string>;
let programs: Program[];
const prepareSettings = async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-start-'));
  const port = await freePort();
  env = {
    PUBLIC_URL: `http://127.0.0.1:${port}`,
    PORT: String(port),
    MANAGEMENT_PORT: String(await freePort()),
    DATA_DIR: join(directory, 'data'),
    SESSION_SECRETS: randomBytes(48).toString('base64'),
    ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
    INTERNAL_HOSTS: '127.0.0.1',
  };
  programs = [];
};
const endPrograms = async () => {
  for (const program of programs) {
    const pids = isRunning(program.pid) ? [...program.children(), program.pid] : [];
    for (const pid of pids) if (isRunning(pid)) program.signal('SIGKILL', pid);
    await program.ended;
  }
  rmSync(directory, { recursive: true, force: true });
};

function start(command: string[], changes: Record<string, string> = {}): Program {
  const program = startProgram(command, { ...env, ...changes });
  programs.push(program);
  return program;
}

/** Returns the output without the lines that npm prints first. */
const linesOf = (stdout: string) =>
  stdout
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('> '))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
const untilReady = (program: Program) => program.printed('Gatehouse is ready at');
/** Creates the database of an earlier start. */
const startAndStop = async () => (await startGatehouse(env, { write: () => undefined })).close();
const callManagement = (path: string) => sendRequest(`http://127.0.0.1:${env.MANAGEMENT_PORT}${path}`);

describe('invalid settings', () => {
  beforeEach(prepareSettings);
  afterEach(endPrograms);

  test('npm start reports all faults at once on standard error, ends with 78, and opens nothing', async () => {
    const appsFile = join(directory, 'apps.json');
    writeFileSync(
      appsFile,
      JSON.stringify([{ id: 'CONNECTED_APPS_FILE, app 1, /id', issuer: 'http://idp.example.com' }]),
    );
    const program = start(NPM_START, {
      PUBLIC_URL: 'http://gatehouse.example.com',
      PORT: '70000',
      SESSION_SECRETS: 'short',
      ENCRYPTION_KEYS: 'no key',
      CONNECTED_APPS_FILE: appsFile,
      BIN_DATASET_FILE: join(directory, 'none.csv'),
      LOG_LEVEL: 'loud',
    });
    expect((await program.ended).status).toBe(78);

    const errors = program.stderr();
    for (const name of [
      'PUBLIC_URL',
      'PORT',
      'SESSION_SECRETS',
      'ENCRYPTION_KEYS',
      'CONNECTED_APPS_FILE, app 1, /id',
      'BIN_DATASET_FILE',
      'LOG_LEVEL',
    ]) {
      expect(errors).toContain(name);
    }
    expect(errors).not.toMatch(/\n\s+at |node:internal/);
    expect(program.stdout()).not.toContain('ready');
    expect(existsSync(join(directory, 'data'))).toBe(false);
    await expect(callManagement('/healthz')).rejects.toThrow(/ECONNREFUSED/);
  });

  describe('the files and apps that settings name are checked despite other faults, and each fault is reported once', () => {
    const faultySettings = async (changes: Record<string, string>) => {
      const fault: unknown = await startGatehouse(
        { ...env, SESSION_SECRETS: 'short', ...changes },
        { write: () => undefined },
      ).catch((error: unknown) => error);
      if (!(fault instanceof StartRefused)) throw new Error('The start was not refused.');
      expect(fault.faults).toHaveLength(new Set(fault.faults).size);
      return fault.faults.map((text) => text.split(/[ :,]/)[0]);
    };

    test('ENCRYPTION_KEYS_FILE', async () => {
      writeFileSync(join(directory, 'keys'), 'no key\n');
      const changes = { ENCRYPTION_KEYS: '', ENCRYPTION_KEYS_FILE: join(directory, 'keys') };
      expect(await faultySettings(changes)).toEqual(['SESSION_SECRETS', 'ENCRYPTION_KEYS']);
    });

    test.each<Record<string, string>>([
      { ENCRYPTION_KEYS: ',' },
      { ADMIN_APP: 'nope' },
      // No app is for sign-ins, so no app can require the stronger sign-in.
      { ADMIN_ACR: 'mfa' },
      { CONNECTED_APPS_FILE: '/nowhere' },
      { BIN_DATASET_FILE: '/nowhere' },
      { REDIS_URL: 'http://a' },
      { BIN_SERVICE_URL: 'http://bins.example.com' },
      { BIN_SERVICE_URL: 'https://10.0.0.1' },
      { BIN_SERVICE_URL: 'bins' },
    ])('%o', async (changes) => {
      expect(await faultySettings(changes)).toEqual(['SESSION_SECRETS', ...Object.keys(changes)]);
    });

    test('an app with faults is not reported again as ADMIN_APP', async () => {
      const file = join(directory, 'apps.json');
      writeFileSync(file, JSON.stringify([{ id: 'platform' }]));
      expect(await faultySettings({ CONNECTED_APPS_FILE: file, ADMIN_APP: 'platform' })).not.toContain('ADMIN_APP');
      expect(await faultySettings({ CONNECTED_APPS_FILE: file, ADMIN_APP: 'nope' })).toContain('ADMIN_APP');
      expect(await faultySettings({ CONNECTED_APPS_FILE: file, ADMIN_ACR: 'mfa' })).not.toContain('ADMIN_ACR');
    });

    test('ADMIN_ACR with two apps for sign-ins needs ADMIN_APP', async () => {
      const file = join(directory, 'two-apps.json');
      const app = (id: string) => ({
        id,
        name: id,
        issuer: 'https://idp.example.com',
        clientId: id,
        scopes: ['openid'],
        tokenEndpointAuthMethod: 'none',
        callbackUrls: [`${env.PUBLIC_URL}/oauth/callback/${id}`],
        signIn: { allow: 'everyone' },
      });
      writeFileSync(file, JSON.stringify([app('one'), app('two')]));
      const settings = { CONNECTED_APPS_FILE: file, ADMIN_ACR: 'mfa' };
      expect(await faultySettings(settings)).toContain('ADMIN_ACR');
      expect(await faultySettings({ ...settings, ADMIN_APP: 'two' })).toEqual(['SESSION_SECRETS']);
    });
  });

  /** Starts in this process, and returns the faults. Other tests check that `npm start` then ends with 78. */
  const refusal = async (changes: Record<string, string> = {}, settings = env): Promise<string> => {
    const fault: unknown = await startGatehouse({ ...settings, ...changes }, { write: () => undefined }).catch(
      (error: unknown) => error,
    );
    if (!(fault instanceof StartRefused)) throw new Error('The start was not refused.');
    return fault.faults.map((text) => `- ${text}\n`).join('');
  };

  test('without any setting, the start is refused', async () => {
    const faults = await refusal({}, {});
    for (const name of ['PUBLIC_URL', 'SESSION_SECRETS', 'ENCRYPTION_KEYS'])
      expect(faults).toContain(`${name} is required`);
  });

  test.each(['SESSION_SECRETS', 'ENCRYPTION_KEYS'])('with an empty list in %s, nothing is opened', async (name) => {
    expect(await refusal({ [name]: ',' })).toContain(`- ${name} `);
    expect(existsSync(join(directory, 'data'))).toBe(false);
  });

  test.each(['HOST', 'MANAGEMENT_HOST'])(
    '%s that is not of this machine: it says so, and opens nothing',
    async (name) => {
      expect(await refusal({ [name]: '203.0.113.1' })).toContain(
        `- ${name}: "203.0.113.1" is not an address of this machine.`,
      );
      expect(existsSync(join(directory, 'data'))).toBe(false);
    },
  );

  test.each([
    ['a file', () => join(directory, 'file')],
    ['below a file', () => join(directory, 'file', 'data')],
    ['where no folder can be made', () => '/proc/nope/data'],
    ['where no file can be made', () => '/proc'],
  ])('DATA_DIR %s: refused with advice, at once', async (_what, path) => {
    writeFileSync(join(directory, 'file'), '');
    const elapsed = startStopwatch();
    const faults = await refusal({ DATA_DIR: path() });
    expect(elapsed()).toBeLessThan(30_000);
    expect(faults).toMatch(/- DATA_DIR names .*Set DATA_DIR to a folder/);
    expect(faults).not.toMatch(/\bE[A-Z]{4,}\b/);
  });

  test.each(['PORT', 'MANAGEMENT_PORT'])(
    '%s is taken: it says which and by which setting to choose another',
    async (name) => {
      const otherServer: Server = createServer();
      await new Promise<void>((resolve) => otherServer.listen(Number(env[name]), '127.0.0.1', resolve));
      const faults = await refusal().finally(() => otherServer.close());
      expect(faults).toContain(
        `- ${name}: another program listens on 127.0.0.1:${env[name]} already. Choose another with ${name}.`,
      );
      expect(existsSync(join(directory, 'data'))).toBe(false);
    },
  );

  test('R49 with keys that do not fit the data, the start ends with 78, says what is wrong, and leaves the data untouched', async () => {
    await startAndStop();
    const programWithOtherKey = start(NODE, { ENCRYPTION_KEYS: generateEncryptionKey(new Date(0)) });
    expect((await programWithOtherKey.ended).status).toBe(78);
    expect(programWithOtherKey.stderr()).toMatch(/Gatehouse cannot start:\n.*ENCRYPTION_KEYS/s);
    expect(programWithOtherKey.stderr()).not.toMatch(/\n\s+at /);

    await startAndStop();
  });

  test('a file that is not a database is refused, and not replaced', async () => {
    await startAndStop();
    const file = join(directory, 'data', DATABASE_FILE);
    const text = 'not a database at all '.repeat(400);
    writeFileSync(file, text);
    expect(await refusal()).toContain('gatehouse.sqlite');
    expect(readFileSync(file, 'utf8')).toBe(text);
  });
});

describe('valid settings', () => {
  beforeEach(prepareSettings);
  afterEach(endPrograms);

  test('a start that fails after the storage was opened closes it, and leaves no timer', async () => {
    const write = () => {
      throw new Error('There is no room for logs.');
    };
    const started = vi.spyOn(globalThis, 'setInterval');
    const stopped = vi.spyOn(globalThis, 'clearInterval');
    try {
      await expect(startGatehouse(env, { write })).rejects.toThrow('There is no room for logs.');
      const running = new Set(started.mock.results.map(({ value }) => value));
      for (const [timer] of stopped.mock.calls) running.delete(timer);
      expect([...running]).toEqual([]);
    } finally {
      started.mockRestore();
      stopped.mockRestore();
    }
    const database = join(directory, 'data', DATABASE_FILE);
    // SQLite removes the second file when the last connection is closed.
    expect([existsSync(database), existsSync(`${database}-wal`)]).toEqual([true, false]);
  });

  test('Gatehouse is ready, and responds on the management port', async () => {
    const program = start(NPM_START);
    await untilReady(program);
    // Standard output is not a terminal here, so it contains only JSON lines.
    const printed = linesOf(program.stdout());
    expect(printed.at(-1)).toMatchObject({
      msg: `Gatehouse is ready at ${env.PUBLIC_URL}`,
      listen: `127.0.0.1:${env.PORT}`,
      management: `127.0.0.1:${env.MANAGEMENT_PORT}`,
      storage: `SQLite in ${env.DATA_DIR}`,
    });
    expect((await callManagement('/healthz')).body).toBe('alive\n');
    expect(JSON.parse((await callManagement('/readyz')).body)).toEqual({ ready: true });

    await sendRequest(`${env.PUBLIC_URL}/session`);
    const metrics = await callManagement('/metrics');
    expect(metrics.headers['content-type']).toContain('text/plain');
    expect(metrics.body).toContain(
      'gatehouse_http_request_duration_seconds_count{route="/session",method="GET",status="2xx"} 1',
    );

    const duration = /duration_seconds_sum\{route="\/session",method="GET",status="2xx"\} (\S+)/.exec(metrics.body);
    expect(Number(duration?.[1])).toBeGreaterThan(0);
    expect(Number(duration?.[1])).toBeLessThan(10);
    expect((await callManagement('/nothing')).status).toBe(404);
    expect((await sendRequest(`http://127.0.0.1:${env.MANAGEMENT_PORT}/healthz`, { method: 'POST' })).status).toBe(405);

    for (const path of ['/healthz', '/readyz', '/metrics'])
      expect((await sendRequest(env.PUBLIC_URL + path, { headers: ACCEPT_JSON })).status).toBe(404);

    const [child = 0] = program.children();
    expect(isRunning(child)).toBe(true);

    program.signal('SIGTERM');
    expect(await program.ended).toEqual({ status: 0, signal: null });
    expect(isRunning(child)).toBe(false);
    expect(program.stderr()).not.toMatch(/Warning|Error/);

    const lastLine = linesOf(program.stdout()).at(-1);
    expect(lastLine).toMatchObject({ level: 30, msg: 'Gatehouse has stopped', signal: 'SIGTERM' });
    expect(lastLine?.seconds).toBeGreaterThanOrEqual(0);
    expect(lastLine?.seconds).toBeLessThan(60);
  });

  // Process 1 of a container ignores signals without a handler, and would be killed after the grace period.
  test('R90 a SIGTERM while the storage is opened ends the process, after it has closed everything in order', async () => {
    const { program, unlock } = await startBeforeLockedStorage();
    try {
      const starting = { status: 503, body: '{"ready":false,"reason":"starting"}\n' };
      await expect.poll(() => callManagement('/readyz').catch(() => ({ status: 0 }))).toMatchObject(starting);

      program.signal('SIGTERM');
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect(isRunning(program.pid)).toBe(true);
    } finally {
      unlock();
    }
    expect(await program.ended).toEqual({ status: 0, signal: null });
    expect(program.stderr()).toBe('');
  });
});

/** Locks the database from another process, so that a start waits until the lock is released. */
async function startBeforeLockedStorage(): Promise<{ program: Program; unlock: () => void }> {
  await startAndStop();
  const lock = new DatabaseSync(join(directory, 'data', DATABASE_FILE));
  lock.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE');
  return { program: start(NODE), unlock: () => lock.isOpen && lock.close() };
}

describe('a process that starts before its storage is open', () => {
  let waitingStart: Awaited<ReturnType<typeof startBeforeLockedStorage>>;
  beforeAll(async () => {
    await prepareSettings();
    waitingStart = await startBeforeLockedStorage();
  });
  afterAll(async () => {
    waitingStart.unlock();
    await endPrograms();
  });

  describe('R90 before the storage is open', () => {
    beforeEach(() =>
      expect
        .poll(() => callManagement('/readyz').catch(() => ({ status: 0 })))
        .toMatchObject({ status: 503, headers: { 'retry-after': '1' } }),
    );

    test('a request that has waited too long for the storage gets 503 with Retry-After', async () => {
      const startedAt = performance.now();
      expect(await sendRequest(`${env.PUBLIC_URL}/session`)).toMatchObject({
        status: 503,
        headers: { 'retry-after': '1' },
      });
      expect(performance.now() - startedAt).toBeGreaterThan(2_000);
    });

    test('the management port responds with 503 at once; requests to the other port wait, and are served', async () => {
      const url = env.PUBLIC_URL ?? '';
      const binRequest = {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{"bins":["45717360"]}',
      };
      const earlyResponses = Promise.all([sendRequest(`${url}/session`), sendRequest(`${url}/bin`, binRequest)]);
      await new Promise((resolve) => setTimeout(resolve, 200));
      waitingStart.unlock();
      expect((await earlyResponses).map(({ status }) => status)).toEqual([200, 401]);
      expect((await callManagement('/readyz')).status).toBe(200);
    });
  });

  describe('once the process is ready', () => {
    beforeAll(async () => {
      waitingStart.unlock();
      await untilReady(waitingStart.program);
    });

    test('R90 readiness is false while the store cannot be written, and true again afterwards', async () => {
      const other = new DatabaseSync(join(directory, 'data', DATABASE_FILE));
      try {
        other.exec('BEGIN IMMEDIATE');
        const unready = await callManagement('/readyz');
        expect(unready.status).toBe(503);
        expect(JSON.parse(unready.body)).toEqual({
          ready: false,
          reason: 'storage',
          storage: `SQLite in ${join(directory, 'data')}`,
          detail: 'The write did not get the lock of the database before the deadline',
        });
        expect((await callManagement('/healthz')).status).toBe(200);

        other.exec('ROLLBACK');
        expect((await callManagement('/readyz')).status).toBe(200);
      } finally {
        other.close();
      }
    });

    // SIGTERM ends most of the programs here.
    test('SIGINT ends the process with 0', async () => {
      waitingStart.program.signal('SIGINT');
      expect(await waitingStart.program.ended).toEqual({ status: 0, signal: null });
    });
  });
});

describe('R90 the end, with a request in flight', () => {
  beforeEach(prepareSettings);
  afterEach(endPrograms);

  test('readiness fails first, the request succeeds, a repeated signal counts once, and idle connections delay nothing', async () => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const url = env.PUBLIC_URL ?? '';
    const sandbox = await startSandbox({
      clients: [
        {
          clientId: 'test-platform',
          clientSecret: CLIENT_SECRET,
          name: 'Test',
          redirectUris: [`${url}/oauth/callback/platform`],
        },
      ],
      binService: createBinService(),
    });
    try {
      const appsFile = join(directory, 'apps.json');
      writeFileSync(appsFile, JSON.stringify([sandboxApp({ url, sandbox }, 'platform')]));
      const program = start(NODE, { CONNECTED_APPS_FILE: appsFile, TEST_CLIENT_SECRET: CLIENT_SECRET });
      await untilReady(program);
      const { agent } = await signIn({ url });
      sandbox.faults.set({ listener: 'platform', kind: 'hold', until: released });
      const heldRequest = agent.get(`${url}/threads/current`, { headers: { accept: 'application/json' } });
      while (sandbox.requests.count('GET /1/threads/current', 'platform') < 2)
        await new Promise((resolve) => setTimeout(resolve, 10));

      program.signal('SIGTERM');
      program.signal('SIGTERM');
      await expect
        .poll(async () => (await callManagement('/readyz')).body)
        .toBe('{"ready":false,"reason":"draining"}\n');
      expect((await callManagement('/metrics')).body).toMatch(/^gatehouse_ready 0$/m);
      expect((await callManagement('/healthz')).status).toBe(200);
      await expect.poll(() => sendRequest(`${url}/session`).then(() => 'a response', String)).toMatch(/ECONNREFUSED/);

      release();
      const elapsed = startStopwatch();
      expect((await heldRequest).status).toBe(200);
      expect(await program.ended).toEqual({ status: 0, signal: null });
      // Far less than the grace period, and than the time for which idle connections are kept.
      expect(elapsed()).toBeLessThan(5_000);
    } finally {
      release();
      await sandbox.close();
    }
  });

  test('a second signal after more than a second forces the end', async () => {
    const program = start(NODE);
    await untilReady(program);
    const { connect } = await import('node:net');
    // A request that never ends keeps the server from closing.
    const socket = connect(Number(env.PORT), '127.0.0.1', () =>
      socket.write('POST /bin HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n{'),
    );
    socket.on('error', () => undefined);
    await new Promise((resolve) => socket.once('data', resolve));
    program.signal('SIGTERM');
    await expect.poll(async () => (await callManagement('/readyz')).status).toBe(503);

    await new Promise((resolve) => setTimeout(resolve, 1_200));
    expect(isRunning(program.pid)).toBe(true);

    program.signal('SIGTERM');
    expect(await program.ended).toEqual({ status: 1, signal: null });

    socket.destroy();
  });
});
