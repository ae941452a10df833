/** Benchmark of a storage with very many users: its size, a start, a backup, a restore and a rotation of keys. */
import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { DATABASE_FILE } from '../../src/shared/storage/sqlite/store.ts';
import { startRedis } from '../support/redis-server.ts';
import { type Effort, print } from './effort.ts';
import { type Finding, formatFindings } from './findings.ts';
import { type Keep, type LargeSite, prepareLargeSite, STORAGES } from './large-site.ts';
import { startGatehouseProcess, startProcess } from './process.ts';
import { withAll } from './site.ts';

const MAX_START_MILLISECONDS = 2_000;
const SAMPLE_MILLISECONDS = 100;

export async function benchStorage({ users }: Effort): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const storage of STORAGES) {
    const measured = await withAll(async (keep) =>
      measure(keep, await prepareLargeSite({ keep, storage, users }), users),
    );
    findings.push(...measured.map((finding) => ({ ...finding, what: `${storage}: ${finding.what}` })));
  }
  print(formatFindings(`A storage with ${users.toLocaleString('en-GB')} users`, findings));
  return findings;
}

async function measure(keep: Keep, site: LargeSite, users: number): Promise<Finding[]> {
  const { env } = site;
  const file = `${env.CONNECTED_APPS_FILE}.backup`;
  const start = await measureStart(env, 'a start after a clean stop', { most: MAX_START_MILLISECONDS });
  const unclean = site.redis ? [] : await measureStartAfterKill(env);
  const backup = await runCommand(env, ['backup', file]);
  const restored = await runCommand(await emptyStorage(keep, site), ['restore', file]);
  const key = generateEncryptionKey(new Date());
  const rotation = await runCommand({ ...env, ENCRYPTION_KEYS: `${key},${env.ENCRYPTION_KEYS}` }, ['keys', 'rotate']);
  const { items, bytes } = JSON.parse(backup.stdout) as { items: number; bytes: number };
  const { reencrypted } = JSON.parse(rotation.stdout) as { reencrypted: number };
  return [
    { what: 'storage for each user', measured: bytesOf(site) / users, unit: 'B' },
    ...start,
    ...unclean,
    { what: 'backup file', measured: bytes / 1e6, unit: 'MB' },
    ...rateOf('backup', 'items', items, backup),
    ...rateOf('restore, with its comparison', 'items', items, restored),
    ...rateOf('rotation of the keys', 'records', reencrypted, rotation),
  ];
}

async function measureStart(env: Record<string, string>, what: string, target?: { most: number }): Promise<Finding[]> {
  const process = await startGatehouseProcess(env);
  const memory = process.memory() / 1e6;
  await process.stop();
  const time = { what, measured: process.readyMilliseconds, unit: 'ms', ...(target && { target }) };
  return [time, { what: `${what}: memory of the process`, measured: memory, unit: 'MB' }];
}

/** Removes the mark of a clean stop, as after a kill, so that the whole database is read. */
async function measureStartAfterKill(env: Record<string, string>): Promise<Finding[]> {
  rmSync(join(env.DATA_DIR ?? '', `${DATABASE_FILE}-closed`));
  return measureStart(env, 'a start after a kill');
}

const bytesOf = ({ env, redis }: LargeSite): number =>
  redis
    ? Number(/^used_memory:(\d+)/m.exec(redis.sendCommand('INFO', 'memory'))?.[1])
    : statSync(join(env.DATA_DIR ?? '', DATABASE_FILE)).size;

async function emptyStorage(keep: Keep, { env, redis }: LargeSite): Promise<Record<string, string>> {
  if (!redis) return { ...env, DATA_DIR: `${env.DATA_DIR}-restored` };
  const empty = await startRedis();
  keep({ stop: empty.dispose });
  return { ...env, REDIS_URL: empty.url };
}

interface CommandResult {
  stdout: string;
  seconds: number;
  /** The maximum memory in bytes. */
  memory: number;
}

async function runCommand(env: Record<string, string>, command: string[]): Promise<CommandResult> {
  const startedAt = performance.now();
  const running = await startProcess('src/cli.ts', { args: [...command, '--json'], env, ready: '' });
  let memory = 0;
  const sampling = setInterval(() => {
    memory = Math.max(memory, running.memory() || 0);
  }, SAMPLE_MILLISECONDS);
  const stdout = await running.ended.finally(() => clearInterval(sampling));
  return { stdout, seconds: (performance.now() - startedAt) / 1000, memory };
}

function rateOf(what: string, unit: string, count: number, { seconds, memory }: CommandResult): Finding[] {
  return [
    { what: `${what}: ${unit} a second`, measured: count / seconds, unit: '/s' },
    { what: `${what}: seconds`, measured: seconds, unit: 's' },
    { what: `${what}: memory of the command`, measured: memory / 1e6, unit: 'MB' },
  ];
}
