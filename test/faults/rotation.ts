/** The change of keys of a whole deployment while its people make it refresh, with a kill amid it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { keys } from '../../src/shared/storage/keys.ts';
import type { Crowd } from '../support/crowd.ts';
import { type Member, openVault, type Vault } from '../support/fleet.ts';
import { runCommandProcess, startProgram } from '../support/program.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { runCommand } from '../support/terminal.ts';
import { startLoad } from './load.ts';

/** Over before the same person comes again, and not before a slow machine has used what it was given. */
export const SHORT_SECONDS = 5;
/** Several in a row add up to the two seconds after which a command is given up. */
const STALL_MILLISECONDS = 1_000;

export interface RotationTally {
  grants: number;
  seconds: number;
  requests: number;
  refreshes: number;
  slowestMilliseconds: number;
  /** Requests that were refused with 503 while the disk kept Redis waiting; 0 on a disk that keeps up. */
  refusedForDisk: number;
}

interface StatusReport {
  keys: {
    kid: string;
    seals: boolean;
    held: boolean;
    records: number;
    kinds: Record<string, number>;
    droppable: boolean;
  }[];
  processes: { seals: string }[];
}

/** @param options `grants`: with those of the crowd; `perSecond`: requests that each need a refresh */
export async function rotateUnderLoad(
  crowd: Crowd,
  { grants, perSecond }: { grants: number; perSecond: number },
): Promise<RotationTally> {
  await crowd.addGrants(crowd.people.length, grants);
  const old = crowd.env.ENCRYPTION_KEYS ?? '';
  const next = generateEncryptionKey(new Date());
  const both = { ...crowd.env, ENCRYPTION_KEYS: `${next},${old}` };
  const [first, ...others] = crowd.members;
  if (!first) throw new Error('There is no process.');
  await restart(first, both.ENCRYPTION_KEYS);
  // The other processes still seal with the old key, and could not open what is sealed with the new one.
  const early = await runCommand(['keys', 'rotate'], both);
  expect([early.status, early.stdout]).toEqual([1, '']);
  expect(early.stderr).toMatch(/running process(es)? seals? with another key/);
  for (const member of others) await restart(member, both.ENCRYPTION_KEYS);

  await Promise.all(crowd.people.map((person) => crowd.expire(person)));
  const before = crowd.provider.refreshes();
  crowd.provider.lifetimeSeconds = SHORT_SECONDS;
  const disk = crowd.redis && watchDisk(crowd.redis);
  const load = startLoad(crowd, { perSecond });
  await sleep(500);
  const startedAt = performance.now();
  await killedRotation(crowd, both, { grants, newKid: kidOf(next) });
  const rotation = await runCommandProcess(['keys', 'rotate', '--json'], both);
  const seconds = (performance.now() - startedAt) / 1000;
  await sleep(500);
  const { statuses, failures, strangers, asked, slowestMilliseconds } = await load.stop();
  const refreshes = crowd.provider.refreshes() - before;
  // A write that waits for longer than the deadline is refused, whatever keeps it waiting.
  const stalls = disk?.stalls() ?? 0;
  const isForDisk = (failure: string) => stalls > 0 && /^503 .*"storage_unavailable"/.test(failure);
  const refusedForDisk = stalls > 0 ? (statuses[503] ?? 0) : 0;
  expect({ failures: failures.filter((failure) => !isForDisk(failure)), strangers, good: statuses[200] }).toEqual({
    ...{ failures: [], strangers: [], good: asked - refusedForDisk },
  });
  expect(refusedForDisk).toBeLessThanOrEqual(stalls * perSecond);
  expect(refreshes).toBeGreaterThan(0.9 * Math.min(asked, crowd.people.length));
  expect(crowd.provider.refusals()).toBe(0);
  expect([rotation.status, rotation.stderr]).toEqual([0, '']);
  expect(JSON.parse(rotation.stdout)).toMatchObject({ key: kidOf(next), unreadable: {}, droppable: [kidOf(old)] });

  crowd.provider.lifetimeSeconds = 3_600;
  await Promise.all(crowd.members.map((member) => restart(member, next)));
  await everythingOpens(crowd, { ...crowd.env, ENCRYPTION_KEYS: next });
  Object.assign(crowd.env, { ENCRYPTION_KEYS: next });
  return { grants, seconds, requests: asked, refreshes, slowestMilliseconds, refusedForDisk };
}

/** Counts the seconds in which the disk took so long to make a write of Redis durable that requests had to be refused. */
function watchDisk(redis: RedisServer): { stalls(): number } {
  redis.ask('CONFIG', 'SET', 'latency-monitor-threshold', String(STALL_MILLISECONDS));
  redis.ask('LATENCY', 'RESET');
  return { stalls: () => redis.ask('LATENCY', 'HISTORY', 'aof-fsync-always').match(/^\d{9,}$/gm)?.length ?? 0 };
}

/** Killed once it has done a part; what it leaves is told, and nobody may start without the old key. */
async function killedRotation(
  crowd: Crowd,
  env: Record<string, string>,
  { grants, newKid }: { grants: number; newKid: string },
): Promise<void> {
  const program = startProgram(['node', 'src/cli.ts', 'keys', 'rotate'], env);
  await untilPartIsSealed(crowd, newKid);
  program.signal('SIGKILL');
  await program.ended;
  const report = await statusOf(env);
  const [sealing, opening] = report.keys;
  expect(report.keys).toHaveLength(2);
  expect(sealing).toMatchObject({ kid: newKid, seals: true, droppable: false });
  expect(opening).toMatchObject({ seals: false, held: true, droppable: false });
  expect((sealing?.kinds.grant ?? 0) + (opening?.kinds.grant ?? 0)).toBe(grants);
  expect(opening?.records).toBeGreaterThan(0);
  expect(report.processes.map(({ seals }) => seals)).toEqual(report.processes.map(() => newKid));
  expect(report.processes.length).toBeGreaterThan(0);
  const dropped = await runCommandProcess(['keys', 'status'], {
    ...env,
    ENCRYPTION_KEYS: env.ENCRYPTION_KEYS?.split(',')[0] ?? '',
  });
  expect(dropped.status).toBe(78);
  expect(dropped.stderr).toMatch(/still seals [\d,]+ records \(.*\bgrant: [\d,]+/);
}

/**
 * Resolves once a tenth of them is sealed with the new key, by a sample: the provider runs in this very process, and must not
 * be kept waiting by a look at all records.
 */
async function untilPartIsSealed(crowd: Crowd, newKid: string): Promise<void> {
  const header = Buffer.from(`{"alg":"dir","enc":"A256GCM","kid":"${newKid}"`).toString('base64url').slice(0, -2);
  const sample = crowd.people.slice(0, 100).map(({ userId }) => keys.grant(userId, 'platform'));
  for (;;) {
    const records = await Promise.all(sample.map((key) => crowd.vault.store.get(key)));
    if (records.filter((record) => record?.value.startsWith(header)).length > sample.length / 10) return;
    await sleep(20);
  }
}

async function statusOf(env: Record<string, string>): Promise<StatusReport> {
  const { status, stdout, stderr } = await runCommandProcess(['keys', 'status', '--json'], env);
  expect([status, stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as StatusReport;
}

/** With the new key alone: every grant, and the newest token in each. */
async function everythingOpens(crowd: Crowd, env: Record<string, string>): Promise<void> {
  const vault: Vault = await openVault(env);
  let grants = 0;
  try {
    for await (const page of vault.store.walk()) {
      for (const { key } of page) {
        const [, userId] = /^grant:\{(.*)\}/.exec(key) ?? [];
        if (userId === undefined) continue;
        grants += 1;
        const { refreshToken } = await vault.read(userId);
        expect(refreshToken).toBe(crowd.provider.latestOf(userId)?.refreshToken);
      }
    }
  } finally {
    await vault.store.close();
  }
  expect(grants).toBeGreaterThan(0);
  const answers = await Promise.all(
    crowd.people.slice(0, 50).flatMap((person) => crowd.members.map((member) => crowd.thread(member, person))),
  );
  expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
}

export async function restart(member: Member, encryptionKeys: string): Promise<void> {
  if (member.isRunning()) {
    member.signal('SIGTERM');
    expect((await member.program.ended).status).toBe(0);
  }
  member.env.ENCRYPTION_KEYS = encryptionKeys;
  await member.start();
}

function kidOf(setting: string): string {
  return setting.split(':')[0] ?? '';
}
