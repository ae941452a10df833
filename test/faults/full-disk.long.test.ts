/** F23: a disk that is nearly full, or fills, while tokens are due. The provider takes each refresh token once. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, afterEach, beforeAll, expect, type TestContext, test } from 'vitest';
import { DATABASE_FILE } from '../../src/shared/storage/sqlite/store.ts';
import { type Crowd, startCrowd } from '../support/crowd.ts';
import { skipWithout } from '../support/missing.ts';
import { until } from '../support/until.ts';
import { LONG } from './report.ts';

/** The probe calls a disk nearly full if it has less than 64 MB free; with this size it has more until something fills it. */
const MEGABYTES = 128;
const PEOPLE = 10;
/** Less than one refresh needs, and about what is set aside for them; in a long run also what some of them need. */
const FREE_KILOBYTES = LONG ? [8, 16, 28, 36, 64, 128, 512] : [8, 512];
/** So many at once need more than one refresh does: with the first room there is for none of them, with the second for some. */
const MANY_PEOPLE = 60;
const FREE_KILOBYTES_FOR_MANY = [700, 1_600];

let missing: string | undefined;
let mounted: string;
let started: Crowd | undefined;

beforeAll(async () => {
  mounted = mkdtempSync(join(tmpdir(), 'gatehouse-full-disk-'));
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${MEGABYTES}m`, 'gatehouse-test', mounted]);
  if (status !== 0) missing = 'root, who may mount a small disk';
  else started = await startCrowd({ kind: 'SQLite', processes: 1, people: PEOPLE, env: { DATA_DIR: mounted } });
});

afterEach(() => giveSpaceBack());
afterAll(async () => {
  await started?.close();
  if (missing === undefined) spawnSync('umount', [mounted]);
  rmSync(mounted, { recursive: true, force: true });
});

function theCrowd(context: TestContext): Crowd {
  skipWithout(context, missing);
  if (!started) throw new Error('There are no people.');
  return started;
}

const ballast = () => join(mounted, 'ballast');
const giveSpaceBack = () => rmSync(ballast(), { force: true });

/** Leaves exactly so much, and nothing in the log that commits could overwrite; a commit meanwhile would take a part of it. */
const leaveFree = (kilobytes: number) =>
  until(() => {
    giveSpaceBack();
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

async function threads({ people, member, thread }: Crowd): Promise<number[]> {
  const responses = await Promise.all(people.map((person) => thread(member(0), person)));
  return responses.map(({ status }) => status);
}

/** Kills the process, gives the space back, and starts it again. */
async function restart({ member }: Crowd): Promise<void> {
  await member(0).kill();
  giveSpaceBack();
  await member(0).start();
}

test('F23: the disk fills while a strict provider responds, kill -9: the log has the room, nobody has to reconnect', async (context) => {
  const crowd = theCrowd(context);
  const { people, provider } = crowd;
  // The probe at the start reserved more than these refreshes need, and the log keeps it.
  expect(new Set(await threads(crowd))).toEqual(new Set([200]));
  for (const person of people) await crowd.expire(person);
  const [refreshes, size] = [provider.refreshes(), logBytes()];
  provider.delayMilliseconds = () => 5_000;
  const statuses = threads(crowd);
  await until(() => provider.refreshes() === refreshes + PEOPLE);
  writeFileSync(ballast(), Buffer.alloc(freeBytes()));
  expect(new Set(await statuses)).toEqual(new Set([200]));
  provider.delayMilliseconds = () => 0;
  expect([freeBytes(), logBytes()]).toEqual([0, size]);
  await restart(crowd);
  expect(new Set(await threads(crowd))).toEqual(new Set([200]));
  expect([provider.refreshes(), provider.refusals()]).toEqual([refreshes + PEOPLE, 0]);
});

test.for(FREE_KILOBYTES)(
  'F23: %i KB left, strict provider, kill -9: nobody has to reconnect',
  async (kilobytes, context) => {
    const crowd = theCrowd(context);
    const { people, provider } = crowd;
    for (const person of people) await crowd.expire(person);
    await leaveFree(kilobytes);
    const before = provider.refreshes();
    const statuses = await threads(crowd);
    if (kilobytes <= 64) {
      expect(new Set(statuses)).toEqual(new Set([503]));
      expect(provider.refreshes()).toBe(before);
      expect(JSON.parse((await crowd.manage(crowd.member(0), '/readyz')).body)).toMatchObject({
        reason: 'disk',
        storage: `SQLite in ${mounted}`,
      });
    }
    await restart(crowd);
    expect(new Set(await threads(crowd))).toEqual(new Set([200]));
    expect([provider.refreshes(), provider.refusals()]).toEqual([before + PEOPLE, 0]);
  },
);

test.for(FREE_KILOBYTES_FOR_MANY)(
  'F23: %i KB left, the tokens of many due at once, a provider that is strict and slow, kill -9: nobody has to reconnect',
  async (kilobytes, context) => {
    const crowd = theCrowd(context);
    const { people, provider } = crowd;
    await crowd.addPeople(people.length, MANY_PEOPLE);
    for (const person of people) await crowd.expire(person);
    await leaveFree(kilobytes);
    const before = provider.refreshes();
    // All are asked before the first responds.
    provider.delayMilliseconds = () => 1_000;
    await threads(crowd);
    provider.delayMilliseconds = () => 0;
    await restart(crowd);
    // So many at once may be more than a busy machine serves in time.
    await until(async () => new Set(await threads(crowd)).isSubsetOf(new Set([200])));
    expect([provider.refreshes(), provider.refusals()]).toEqual([before + MANY_PEOPLE, 0]);
  },
);
