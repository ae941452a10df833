/** F23: a disk that is nearly full, or fills up, during refreshes. The provider accepts each refresh token once. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, afterEach, beforeAll, expect, type TestContext, test } from 'vitest';
import { DATABASE_FILE } from '../../src/shared/storage/sqlite/store.ts';
import { type Crowd, startCrowd } from '../support/crowd.ts';
import { skipIfMissing } from '../support/missing.ts';
import { until } from '../support/until.ts';
import { LONG } from './report.ts';

/** Large enough that the probe, which needs 64 MB free, passes until a test fills the disk. */
const MEGABYTES = 128;
const USER_COUNT = 10;
/** Less than one refresh needs, and about the reserve; in a long run also values between. */
const FREE_KILOBYTES = LONG ? [8, 16, 28, 36, 64, 128, 512] : [8, 512];
/** This many concurrent refreshes need more space: the first value suffices for none of them, the second for some. */
const MANY_USERS = 60;
const FREE_KILOBYTES_FOR_MANY = [700, 1_600];

let missing: string | undefined;
let mounted: string;
let startedCrowd: Crowd | undefined;

beforeAll(async () => {
  mounted = mkdtempSync(join(tmpdir(), 'gatehouse-full-disk-'));
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${MEGABYTES}m`, 'gatehouse-test', mounted]);
  if (status !== 0) missing = 'root, to mount a small disk';
  else startedCrowd = await startCrowd({ kind: 'SQLite', processes: 1, users: USER_COUNT, env: { DATA_DIR: mounted } });
});

afterEach(() => freeSpace());
afterAll(async () => {
  await startedCrowd?.close();
  if (missing === undefined) spawnSync('umount', [mounted]);
  rmSync(mounted, { recursive: true, force: true });
});

function crowdOrSkip(context: TestContext): Crowd {
  skipIfMissing(context, missing);
  if (!startedCrowd) throw new Error('There are no users.');
  return startedCrowd;
}

const ballast = () => join(mounted, 'ballast');
const freeSpace = () => rmSync(ballast(), { force: true });

/** Leaves exactly this much space, with an empty log. Repeats this if a commit uses some of the space meanwhile. */
const leaveFree = (kilobytes: number) =>
  until(() => {
    freeSpace();
    const database = new DatabaseSync(join(mounted, DATABASE_FILE));
    const checkpoint = database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get();
    database.close();
    if (checkpoint?.busy !== 0) return false;
    try {
      writeFileSync(ballast(), Buffer.alloc(freeBytes() - kilobytes * 1024));
    } catch {
      return false;
    }
    return freeBytes() === kilobytes * 1024;
  });

function freeBytes(): number {
  const { bavail, bsize } = statfsSync(mounted);
  return bavail * bsize;
}

const logBytes = () => statSync(join(mounted, `${DATABASE_FILE}-wal`)).size;

async function threadStatuses({ users, member, thread }: Crowd): Promise<number[]> {
  const responses = await Promise.all(users.map((user) => thread(member(0), user)));
  return responses.map(({ status }) => status);
}

/** Kills the process, frees the space, and starts the process again. */
async function restart({ member }: Crowd): Promise<void> {
  await member(0).kill();
  freeSpace();
  await member(0).start();
}

test('F23: the disk fills while a strict provider responds, kill -9: the log has enough space, no user must reconnect', async (context) => {
  const crowd = crowdOrSkip(context);
  const { users, provider } = crowd;
  // The probe at the start reserved more space in the log than these refreshes need.
  expect(new Set(await threadStatuses(crowd))).toEqual(new Set([200]));

  for (const user of users) await crowd.expire(user);
  const refreshesBefore = provider.refreshes();
  const logBytesBefore = logBytes();
  provider.delayMilliseconds = () => 5_000;
  const statuses = threadStatuses(crowd);
  await until(() => provider.refreshes() === refreshesBefore + USER_COUNT);
  writeFileSync(ballast(), Buffer.alloc(freeBytes()));
  expect(new Set(await statuses)).toEqual(new Set([200]));

  provider.delayMilliseconds = () => 0;
  expect([freeBytes(), logBytes()]).toEqual([0, logBytesBefore]);

  await restart(crowd);
  expect(new Set(await threadStatuses(crowd))).toEqual(new Set([200]));
  expect([provider.refreshes(), provider.refusals()]).toEqual([refreshesBefore + USER_COUNT, 0]);
});

test.for(FREE_KILOBYTES)(
  'F23: %i KB free, strict provider, kill -9: no user must reconnect',
  async (kilobytes, context) => {
    const crowd = crowdOrSkip(context);
    const { users, provider } = crowd;
    for (const user of users) await crowd.expire(user);
    await leaveFree(kilobytes);
    const refreshesBefore = provider.refreshes();
    const statuses = await threadStatuses(crowd);
    if (kilobytes <= 64) {
      expect(new Set(statuses)).toEqual(new Set([503]));
      expect(provider.refreshes()).toBe(refreshesBefore);
      expect(JSON.parse((await crowd.callManagement(crowd.member(0), '/readyz')).body)).toMatchObject({
        reason: 'disk',
        storage: `SQLite in ${mounted}`,
      });
    }
    await restart(crowd);
    expect(new Set(await threadStatuses(crowd))).toEqual(new Set([200]));
    expect([provider.refreshes(), provider.refusals()]).toEqual([refreshesBefore + USER_COUNT, 0]);
  },
);

test.for(FREE_KILOBYTES_FOR_MANY)(
  'F23: %i KB free, many refreshes at once, strict and slow provider, kill -9: no user must reconnect',
  async (kilobytes, context) => {
    const crowd = crowdOrSkip(context);
    const { users, provider } = crowd;
    await crowd.addUsers(users.length, MANY_USERS);
    for (const user of users) await crowd.expire(user);
    await leaveFree(kilobytes);
    const refreshesBefore = provider.refreshes();
    // All requests are sent before the first response.
    provider.delayMilliseconds = () => 1_000;
    await threadStatuses(crowd);
    provider.delayMilliseconds = () => 0;
    await restart(crowd);
    // A busy machine may not serve so many requests in time.
    await until(async () => new Set(await threadStatuses(crowd)).isSubsetOf(new Set([200])));
    expect([provider.refreshes(), provider.refusals()]).toEqual([refreshesBefore + MANY_USERS, 0]);
  },
);
