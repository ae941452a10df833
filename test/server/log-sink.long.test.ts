/** F24: programs whose standard output cannot be written: a full disk, `/dev/full`, and a closed pipe. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { killOnExit } from '../support/child-processes.ts';
import { skipIfMissing } from '../support/missing.ts';
import { freePort } from '../support/ports.ts';
import { sendRequest } from '../support/send-request.ts';
import { until } from '../support/until.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SINKS = ['a full disk', '/dev/full', 'a closed pipe'] as const;
/** Each causes a log line: Gatehouse has no such page, and the BIN lookup service warns about an untrusted proxy. */
const REQUESTS = 100;
const FORWARDED = { headers: { 'x-forwarded-for': '192.0.2.1' } };

let directory: string;
let mounted: string | undefined;
let child: ChildProcess | undefined;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-log-'));
  const disk = mkdtempSync(join(tmpdir(), 'gatehouse-log-disk-'));
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'gatehouse-test', disk]);
  if (status === 0) mounted = disk;
  else rmSync(disk, { recursive: true });
});
afterEach(async () => {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
});
afterAll(() => {
  if (mounted !== undefined) {
    spawnSync('umount', [mounted]);
    rmSync(mounted, { recursive: true });
  }
  rmSync(directory, { recursive: true });
});

/** Opens a file on a full disk. */
function openOnFullDisk(disk: string): number {
  const file = openSync(join(disk, 'log'), 'a');
  const ballast = join(disk, 'ballast');
  rmSync(ballast, { force: true });
  const { bavail, bsize } = statfsSync(disk);
  writeFileSync(ballast, Buffer.alloc(bavail * bsize));
  return file;
}

/** A port may be bound before the program responds. */
const responds = async (url: string) =>
  (await fetch(url, { signal: AbortSignal.timeout(1_000) }).catch(() => undefined))?.status === 200;
/** Polls, because the program prints nothing that a test could wait for. */
const untilResponds = (url: string) =>
  until(async () => {
    const isResponding = await responds(url);
    if (!isResponding) await sleep(250);
    return isResponding;
  });

function startInto(sink: (typeof SINKS)[number], file: string, env: Record<string, string>): ChildProcess {
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE = '' } = process.env;
  const options = { cwd: ROOT, env: { PATH, HOME, NODE_COMPILE_CACHE, ...env } };
  if (sink === 'a closed pipe') {
    const started = killOnExit(spawn('node', [file], { ...options, stdio: ['ignore', 'pipe', 'pipe'] }));
    started.stdout.destroy();
    started.stderr.destroy();
    return started;
  }
  const output = sink === '/dev/full' ? openSync('/dev/full', 'w') : openOnFullDisk(mounted ?? '');
  const started = killOnExit(spawn('node', [file], { ...options, stdio: ['ignore', output, output] }));
  closeSync(output);
  return started;
}

const PROGRAMS: Record<string, { file: string; env: (port: string) => Record<string, string> }> = {
  server: {
    file: 'src/server.ts',
    env: (port) => ({
      PUBLIC_URL: `http://127.0.0.1:${port}`,
      DATA_DIR: join(directory, port),
      SESSION_SECRETS: randomBytes(48).toString('base64'),
      ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
    }),
  },
  'bin-lookup-service': { file: 'src/bin-lookup-service.ts', env: (port) => ({ DATA_DIR: join(directory, port) }) },
};

describe.each(SINKS)('F24: with %s as output', (sink) => {
  const missing = () =>
    sink === 'a full disk' && mounted === undefined ? 'root, who may mount a small disk' : undefined;

  test.for(Object.entries(PROGRAMS))(
    '%s continues to serve, counts the lines, and ends with 0',
    async ([, program], context) => {
      skipIfMissing(context, missing());
      const [port, managementPort] = [String(await freePort()), String(await freePort())];
      const env = { PORT: port, MANAGEMENT_PORT: managementPort, LOG_LEVEL: 'debug', ...program.env(port) };
      child = startInto(sink, program.file, env);
      const ended = once(child, 'exit');
      const manage = (path: string) => sendRequest(`http://127.0.0.1:${managementPort}${path}`);
      const ready = `http://127.0.0.1:${managementPort}/readyz`;
      await untilResponds(ready);
      for (let n = 0; n < REQUESTS; n += 1) await sendRequest(`http://127.0.0.1:${port}/45717360`, FORWARDED);
      await until(async () => /^gatehouse_log_lines_dropped_total [1-9]/m.test((await manage('/metrics')).body));
      expect(await responds(ready)).toBe(true);

      child.kill('SIGTERM');
      expect(await ended).toEqual([0, null]);
    },
  );

  test('the sandbox continues to serve, and ends with 0', async (context) => {
    skipIfMissing(context, missing());
    const port = await freePort(3);
    child = startInto(sink, 'src/sandbox.ts', { SANDBOX_PORT: String(port) });
    const ended = once(child, 'exit');
    await untilResponds(`http://127.0.0.1:${port}/`);
    child.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
  });

  test('the demo continues to serve, and ends with 0', async (context) => {
    skipIfMissing(context, missing());
    const [port, sandboxPort, managementPort] = [await freePort(), await freePort(3), await freePort()];
    const env = { PORT: `${port}`, SANDBOX_PORT: `${sandboxPort}`, MANAGEMENT_PORT: `${managementPort}` };
    child = startInto(sink, 'src/demo.ts', env);
    const ended = once(child, 'exit');
    const ready = `http://127.0.0.1:${managementPort}/readyz`;
    await untilResponds(ready);
    child.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
  });
});
