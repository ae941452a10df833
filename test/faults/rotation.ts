/** Key rotation of a whole deployment during refreshes, with a kill in the middle. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { keys } from '../../src/shared/storage/keys.ts';
import type { Crowd } from '../support/crowd.ts';
import { type Member, openSharedStorage, type SharedStorage } from '../support/fleet.ts';
import { runCommandProcess, startProgram } from '../support/program.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { runCommand } from '../support/terminal.ts';
import { startLoad } from './load.ts';

/** Shorter than the interval between a user's requests, and long enough for a slow machine to use a token. */
export const SHORT_SECONDS = 5;
/** Several stalls in a row reach the deadline of two seconds for a command. */
const STALL_MILLISECONDS = 1_000;

export interface RotationTally {
  grants: number;
  seconds: number;
  requests: number;
  refreshes: number;
  slowestMilliseconds: number;
  /** Requests that got 503 while Redis waited for the disk; 0 on a fast disk. */
  refusedForDisk: number;
}

interface StatusReport {
  encryptionKeys: {
    kid: string;
    encrypts: boolean;
    configured: boolean;
    records: number;
    kinds: Record<string, number>;
    removable: boolean;
  }[];
  processes: { encryptsWith: string }[];
}

/** @param options `grants`: including those of the crowd; `perSecond`: requests that each need a refresh */
export async function rotateUnderLoad(
  crowd: Crowd,
  { grants, perSecond }: { grants: number; perSecond: number },
): Promise<RotationTally> {
  await crowd.addGrants(crowd.users.length, grants);
  const oldKey = crowd.env.ENCRYPTION_KEYS ?? '';
  const newKey = generateEncryptionKey(new Date());
  const bothKeys = { ...crowd.env, ENCRYPTION_KEYS: `${newKey},${oldKey}` };
  const [firstMember, ...otherMembers] = crowd.members;
  if (!firstMember) throw new Error('There is no process.');
  await restart(firstMember, bothKeys.ENCRYPTION_KEYS);
  // The other processes still seal with the old key, and could not open records with the new key.
  const earlyRotation = await runCommand(['keys', 'rotate'], bothKeys);
  expect([earlyRotation.status, earlyRotation.stdout]).toEqual([1, '']);
  expect(earlyRotation.stderr).toMatch(/running process(es)? seals? with another key/);
  for (const member of otherMembers) await restart(member, bothKeys.ENCRYPTION_KEYS);

  await Promise.all(crowd.users.map((user) => crowd.expire(user)));
  const refreshesBefore = crowd.provider.refreshes();
  crowd.provider.lifetimeSeconds = SHORT_SECONDS;
  const disk = crowd.redis && watchDisk(crowd.redis);
  const load = startLoad(crowd, { perSecond });
  await sleep(500);
  const startedAt = performance.now();
  await killRotation(crowd, bothKeys, { grants, newKid: kidOf(newKey) });
  const rotation = await runCommandProcess(['keys', 'rotate', '--json'], bothKeys);
  const seconds = (performance.now() - startedAt) / 1000;
  await sleep(500);
  const { statuses, failures, misled, requests, slowestMilliseconds } = await load.stop();
  const refreshes = crowd.provider.refreshes() - refreshesBefore;
  // A write that waits longer than the deadline is refused, whatever the cause.
  const stalls = disk?.stalls() ?? 0;
  const isForDisk = (failure: string) => stalls > 0 && /^503 .*"storage_unavailable"/.test(failure);
  const refusedForDisk = stalls > 0 ? (statuses[503] ?? 0) : 0;
  expect({ failures: failures.filter((failure) => !isForDisk(failure)), misled, good: statuses[200] }).toEqual({
    failures: [],
    misled: [],
    good: requests - refusedForDisk,
  });
  expect(refusedForDisk).toBeLessThanOrEqual(stalls * perSecond);
  expect(refreshes).toBeGreaterThan(0.9 * Math.min(requests, crowd.users.length));
  expect(crowd.provider.refusals()).toBe(0);
  expect([rotation.status, rotation.stderr]).toEqual([0, '']);
  expect(JSON.parse(rotation.stdout)).toMatchObject({ kid: kidOf(newKey), unreadable: {}, removable: [kidOf(oldKey)] });

  crowd.provider.lifetimeSeconds = 3_600;
  await Promise.all(crowd.members.map((member) => restart(member, newKey)));
  await expectReadable(crowd, { ...crowd.env, ENCRYPTION_KEYS: newKey });
  Object.assign(crowd.env, { ENCRYPTION_KEYS: newKey });
  return { grants, seconds, requests, refreshes, slowestMilliseconds, refusedForDisk };
}

/** Counts the seconds in which the disk was so slow to flush writes of Redis that requests had to be refused. */
function watchDisk(redis: RedisServer): { stalls(): number } {
  redis.sendCommand('CONFIG', 'SET', 'latency-monitor-threshold', String(STALL_MILLISECONDS));
  redis.sendCommand('LATENCY', 'RESET');
  return { stalls: () => redis.sendCommand('LATENCY', 'HISTORY', 'aof-fsync-always').match(/^\d{9,}$/gm)?.length ?? 0 };
}

/** Kills a rotation in the middle. `keys status` then reports the rest, and a start without the old key is refused. */
async function killRotation(
  crowd: Crowd,
  env: Record<string, string>,
  { grants, newKid }: { grants: number; newKid: string },
): Promise<void> {
  const program = startProgram(['node', 'src/cli.ts', 'keys', 'rotate'], env);
  await untilPartIsSealed(crowd, newKid);
  program.signal('SIGKILL');
  await program.ended;
  const report = await statusOf(env);
  const [sealing, opening] = report.encryptionKeys;
  expect(report.encryptionKeys).toHaveLength(2);
  expect(sealing).toMatchObject({ kid: newKid, encrypts: true, removable: false });
  expect(opening).toMatchObject({ encrypts: false, configured: true, removable: false });
  expect((sealing?.kinds.grant ?? 0) + (opening?.kinds.grant ?? 0)).toBe(grants);
  expect(opening?.records).toBeGreaterThan(0);
  expect(report.processes.map(({ encryptsWith }) => encryptsWith)).toEqual(report.processes.map(() => newKid));
  expect(report.processes.length).toBeGreaterThan(0);
  const withoutOldKey = await runCommandProcess(['keys', 'status'], {
    ...env,
    ENCRYPTION_KEYS: env.ENCRYPTION_KEYS?.split(',')[0] ?? '',
  });
  expect(withoutOldKey.status).toBe(78);
  expect(withoutOldKey.stderr).toMatch(/still seals [\d,]+ records \(.*\bgrant: [\d,]+/);
}

/**
 * Resolves when a tenth of a sample is sealed with the new key. Reading all records would block the provider, which
 * runs in this process.
 */
async function untilPartIsSealed(crowd: Crowd, newKid: string): Promise<void> {
  const header = Buffer.from(`{"alg":"dir","enc":"A256GCM","kid":"${newKid}"`).toString('base64url').slice(0, -2);
  const sample = crowd.users.slice(0, 100).map(({ userId }) => keys.grant(userId, 'platform'));
  for (;;) {
    const records = await Promise.all(sample.map((key) => crowd.storage.store.get(key)));
    if (records.filter((record) => record?.value.startsWith(header)).length > sample.length / 10) return;
    await sleep(20);
  }
}

async function statusOf(env: Record<string, string>): Promise<StatusReport> {
  const { status, stdout, stderr } = await runCommandProcess(['keys', 'status', '--json'], env);
  expect([status, stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as StatusReport;
}

/** Expects that only the new key opens every grant, each with its newest refresh token. */
async function expectReadable(crowd: Crowd, env: Record<string, string>): Promise<void> {
  const storage: SharedStorage = await openSharedStorage(env);
  let grants = 0;
  try {
    for await (const records of storage.store.walk()) {
      for (const { key } of records) {
        const [, userId] = /^grant:\{(.*)\}/.exec(key) ?? [];
        if (userId === undefined) continue;
        grants += 1;
        const { refreshToken } = await storage.readGrant(userId);
        expect(refreshToken).toBe(crowd.provider.latestOf(userId)?.refreshToken);
      }
    }
  } finally {
    await storage.store.close();
  }
  expect(grants).toBeGreaterThan(0);
  const responses = await Promise.all(
    crowd.users.slice(0, 50).flatMap((user) => crowd.members.map((member) => crowd.thread(member, user))),
  );
  expect(responses.filter(({ status }) => status !== 200)).toEqual([]);
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
