/** Many users during key rotation, process stops and storage faults: they are served, or refused for a moment. */
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { keys } from '../../src/shared/storage/keys.ts';
import { retryWhileUnavailable } from '../../src/shared/storage/retry.ts';
import { DATABASE_FILE } from '../../src/shared/storage/sqlite/store.ts';
import { type Crowd, type CrowdUser, startCrowd } from '../support/crowd.ts';
import type { Member, StoreKind } from '../support/fleet.ts';
import { skipIfMissing } from '../support/missing.ts';
import { missingRedis } from '../support/redis-server.ts';
import { refusalOf } from '../support/refusal.ts';
import { startLoad } from './load.ts';
import { createFaultReport, LONG } from './report.ts';
import { rotateUnderLoad, SHORT_SECONDS } from './rotation.ts';

const USER_COUNT = LONG ? 600 : 250;
const STOPS = LONG ? 25 : 2;
/** Lower in a short run, because other tests use the processors, too. */
const RATE = LONG ? 100 : 40;
const GRANTS = LONG ? 100_000 : 1_200;

export function crowdSuite(kind: StoreKind): void {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  const report = createFaultReport();
  let crowd: Crowd;
  beforeAll(async () => {
    if (!missing) crowd = await startCrowd({ kind, processes: 2, users: USER_COUNT });
  });
  afterAll(async () => {
    await crowd?.close();
    report.print(`Faults with ${USER_COUNT} users on ${kind}`);
  });
  const fault = (name: string, rounds: number, work: () => Promise<string | undefined>) =>
    test(name, async (context: TestContext) => {
      skipIfMissing(context, missing);
      await report.run(name, rounds, work);
    });

  fault('R33: 200 access tokens expire at once: each user gets their own thread, with 1 refresh each', 1, async () => {
    const users = crowd.users.slice(0, 200);
    const refreshesBefore = crowd.provider.refreshes();
    let refused = 0;
    const callTwice = async (member: Member, user: CrowdUser) => {
      const responses = await Promise.all([crowd.thread(member, user), crowd.thread(member, user)]);
      return responses.map(({ status, body }) => {
        const { owner, code } = JSON.parse(body);
        return { member, user, status, owner, code };
      });
    };
    const pairs = await Promise.all(users.flatMap((user) => crowd.members.map((member) => callTwice(member, user))));
    const responses = pairs.flat();
    for (const { member, user, status, owner, code } of responses) {
      // A busy machine may refuse some of so many requests. They are served on retry.
      if (!LONG && status === 503) {
        refused += 1;
        const retried = await crowd.thread(member, user);
        expect([retried.status, JSON.parse(retried.body).owner]).toEqual([200, user.userId]);
      } else {
        expect([status, code, owner]).toEqual([200, undefined, user.userId]);
      }
    }
    expect([crowd.provider.refreshes() - refreshesBefore, crowd.provider.refusals()]).toEqual([200, 0]);

    return `${responses.length} responses, ${refused} of them 503`;
  });

  fault(
    `F18: SIGTERM under load, ${STOPS} times: requests in flight complete, no refresh is lost, exit status 0`,
    STOPS,
    async () => {
      await Promise.all(crowd.users.map((user) => retryWhileUnavailable(() => crowd.expire(user))));
      crowd.provider.lifetimeSeconds = SHORT_SECONDS;
      crowd.provider.delayMilliseconds = () => 200;
      const refusalsBefore = crowd.provider.refusals();
      const refreshesBefore = crowd.provider.refreshes();
      let balancedMembers = crowd.members;
      const load = startLoad(crowd, { perSecond: 40, members: () => balancedMembers });
      for (let round = 0; round < STOPS; round += 1) {
        const stopped = crowd.member(round % 2);
        await sleep(700);
        // A balancer sends no new requests to a process that is about to stop.
        balancedMembers = crowd.members.filter((member) => member !== stopped);
        stopped.signal('SIGTERM');
        expect((await stopped.program.ended).status).toBe(0);
        await stopped.start();
        balancedMembers = crowd.members;
      }
      const { requests, failures, statuses, misled } = await load.stop();
      crowd.provider.delayMilliseconds = () => 0;
      crowd.provider.lifetimeSeconds = 3_600;
      expect({ failures, misled, good: statuses[200] }).toEqual({ failures: [], misled: [], good: requests });
      expect(crowd.provider.refusals()).toBe(refusalsBefore);
      await expectNewestTokens(crowd);

      return `${requests} requests, ${crowd.provider.refreshes() - refreshesBefore} refreshes`;
    },
  );

  fault('R48: a damaged or exchanged record fails only for its owner', 1, async () => {
    const [first, second, third] = crowd.users;
    if (!first || !second || !third) throw new Error('There are no users.');
    const { store } = crowd.storage;
    const keyOf = ({ userId }: CrowdUser) => keys.grant(userId, 'platform');
    const sealedOf = async (user: CrowdUser) => (await store.get(keyOf(user)))?.value ?? '';
    const firstValue = await sealedOf(first);
    const secondValue = await sealedOf(second);
    const thirdValue = await sealedOf(third);
    // Changes the tenth character from the end.
    const damaged = firstValue.replace(/.(?=.{9}$)/, (last) => (last === 'A' ? 'B' : 'A'));
    await store.write([{ put: keyOf(first), value: damaged }]);
    await store.write([{ put: keyOf(second), value: thirdValue }]);
    for (const member of crowd.members) {
      for (const user of [first, second]) {
        const { status, body } = await crowd.thread(member, user);
        expect([status, JSON.parse(body).code]).toEqual([403, 'reconnect_needed']);
      }
      expect((await crowd.thread(member, third)).status).toBe(200);
    }
    await store.write([{ put: keyOf(first), value: firstValue }]);
    await store.write([{ put: keyOf(second), value: secondValue }]);
    for (const user of [first, second]) expect((await crowd.thread(crowd.member(0), user)).status).toBe(200);
    return undefined;
  });

  if (kind === 'SQLite') {
    fault(
      'F17: a database locked by another program: valid tokens work, a refresh waits or is refused',
      1,
      async () => {
        const [userWithValidToken, userWithExpiredToken] = crowd.users.slice(-2);
        if (!userWithValidToken || !userWithExpiredToken) throw new Error('There are no users.');
        const member = crowd.member(0);
        // A token of the previous test lives five seconds, and would expire while the database is locked.
        await crowd.expire(userWithValidToken);
        expect((await crowd.thread(member, userWithValidToken)).status).toBe(200);

        await crowd.expire(userWithExpiredToken);
        const refreshes = crowd.provider.refreshes();
        const lock = new DatabaseSync(join(crowd.dataDirectory, DATABASE_FILE));
        try {
          lock.exec('BEGIN IMMEDIATE');
          const refused = await crowd.thread(member, userWithExpiredToken);
          expect([refused.status, JSON.parse(refused.body).code]).toEqual([503, 'storage_unavailable']);
          expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
          expect((await crowd.thread(member, userWithValidToken)).status).toBe(200);
        } finally {
          lock.close();
        }
        expect((await crowd.thread(member, userWithExpiredToken)).status).toBe(200);
        expect(crowd.provider.refreshes()).toBe(refreshes + 1);

        return undefined;
      },
    );

    fault('F17: a damaged database is refused at the start, and not changed', 1, async () => {
      const directory = mkdtempSync(join(tmpdir(), 'gatehouse-damaged-'));
      try {
        const file = join(directory, DATABASE_FILE);
        copyFileSync(join(crowd.dataDirectory, DATABASE_FILE), file);
        const bytes = readFileSync(file);
        bytes.fill(0x5a, 4_096 * 3, 4_096 * 40);
        writeFileSync(file, bytes);
        expect(await refusalOf({ ...crowd.env, DATA_DIR: directory })).toMatch(/is damaged.*Restore a backup/);
        expect(readFileSync(file).equals(bytes)).toBe(true);
        expect(readdirSync(directory).filter((name) => !/-(wal|shm)$/.test(name))).toEqual([DATABASE_FILE]);
      } finally {
        rmSync(directory, { recursive: true });
      }
      return undefined;
    });
  }

  // This must be the last test, because the storage of the crowd then has the wrong keys.
  fault(
    `R48: key rotation of ${GRANTS.toLocaleString('en-GB')} grants during ${RATE} refreshes a second, with a kill`,
    1,
    async () => {
      const tally = await rotateUnderLoad(crowd, { grants: GRANTS, perSecond: RATE });
      const { seconds, requests, refreshes, slowestMilliseconds, refusedForDisk } = tally;
      const refused = refusedForDisk > 0 ? `${refusedForDisk} refused while Redis waited for the disk` : 'none failed';
      return `${seconds.toFixed(1)} s, ${requests} requests, ${refused}, ${refreshes} refreshes, slowest ${Math.round(slowestMilliseconds)} ms`;
    },
  );
}

/** Expects that the stored refresh token of each user is the latest one of the provider. */
async function expectNewestTokens(crowd: Crowd): Promise<void> {
  for (const { userId } of crowd.users) {
    // The test's own connection may recover a moment later.
    const { refreshToken } = await retryWhileUnavailable(() => crowd.storage.readGrant(userId));
    expect(refreshToken).toBe(crowd.provider.latestOf(userId)?.refreshToken);
  }
}
