/** What a sign-in costs the storage: what can be asked for or written at the same time is. */
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { expect, onTestFinished, test, vi } from 'vitest';
import { signIn, startSite } from '../support/gatehouse.ts';
import { skipWithout } from '../support/missing.ts';
import { missingRedis, startRedis } from '../support/redis-server.ts';
import { roundTrips } from '../support/round-trips.ts';

const SIGN_INS = 10;
/** What both kinds of storage are asked for: a sign-in, and the session that it made. */
const PATH = '/sign-in?return_to=/session';
/** One to start, eight at the callback, three for GET /session, one for the audit trail: 13. It was 33. */
const MOST_ROUND_TRIPS = 16;
/** The user with the list of their sessions, the session, the connection, and the audit trail. */
const MOST_FLUSHES = 4;

test('on Redis a whole sign-in with its session costs so many round trips at most', async (context) => {
  skipWithout(context, missingRedis);
  const redis = await startRedis();
  const site = await startSite({ env: { REDIS_URL: redis.url } });
  try {
    await signIn(site, undefined, { path: PATH });
    const { least, most } = await roundTrips(redis, async () => {
      for (let times = 0; times < SIGN_INS; times += 1) {
        const { page } = await signIn(site, undefined, { path: PATH });
        expect(JSON.parse(page.body)).toMatchObject({ signedIn: true, connections: [{ app: 'platform' }] });
      }
    });
    expect(most / SIGN_INS).toBeGreaterThan(5);
    expect(least / SIGN_INS).toBeLessThan(MOST_ROUND_TRIPS);
  } finally {
    await site.close();
    await redis.dispose();
  }
});

test('on SQLite a sign-in waits for the disk so many times at most', async () => {
  const flushes = countFlushes();
  const site = await startSite();
  onTestFinished(() => site.close());
  await signIn(site);
  const each: number[] = [];
  for (let times = 0; times < SIGN_INS; times += 1) {
    const before = flushes();
    await signIn(site);
    each.push(flushes() - before);
  }
  // Chores of the process may come amid some of them.
  expect(Math.min(...each)).toBeLessThanOrEqual(MOST_FLUSHES);
  expect(Math.min(...each)).toBeGreaterThan(1);
});

/** Counts the commits that wait for the disk, of every database that is opened from now on. */
function countFlushes(): () => number {
  let flushes = 0;
  let isFlushed = true;
  const { exec, prepare } = DatabaseSync.prototype;
  vi.spyOn(DatabaseSync.prototype, 'exec').mockImplementation(function (this: DatabaseSync, sql) {
    if (sql.startsWith('PRAGMA synchronous')) isFlushed = sql.endsWith('FULL');
    exec.call(this, sql);
  });
  vi.spyOn(DatabaseSync.prototype, 'prepare').mockImplementation(function (this: DatabaseSync, sql): StatementSync {
    const statement = prepare.call(this, sql);
    if (sql === 'COMMIT') {
      const run = statement.run.bind(statement);
      statement.run = () => {
        if (isFlushed) flushes += 1;
        return run();
      };
    }
    return statement;
  });
  onTestFinished(() => void vi.restoreAllMocks());
  return () => flushes;
}
