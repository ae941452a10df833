/** How many operations of the storage a sign-in takes. Records of one slot are written together, and none twice. */
import { expect, test } from 'vitest';
import { signIn, startSite } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis, type RedisServer, startRedis } from '../../support/redis-server.ts';
import { sendRequest } from '../../support/send-request.ts';

const SIGN_INS = 20;
/**
 * The start; the pending request taken; user, list of sessions and grant; the lists of all users and sessions; the
 * session; the end of the record; the audit entries.
 */
const SCRIPTS_OF_SIGN_IN = 7;
/** As above, without the audit entries. test/faults/slow-flush.timed.long.test.ts counts waits for the disk. */
const WRITES_OF_SIGN_IN = 6;
/** How many more there may be: those of scheduled tasks, and of audit entries that fall into two writes. */
const BACKGROUND = 3;
/** A sign-in takes fewer commands than this, including those inside the scripts: about 104. */
const MAX_COMMANDS = 125;

test('a sign-in takes seven scripts, and fewer than 125 commands, on Redis', async (context) => {
  skipIfMissing(context, missingRedis);
  const redis = await startRedis();
  const site = await startSite({ env: { REDIS_URL: redis.url } });
  const path = '/sign-in?return_to=/session';
  try {
    await signIn(site, undefined, { path });
    const scripts: number[] = [];
    const commands: number[] = [];
    for (let n = 0; n < SIGN_INS; n += 1) {
      const callsBefore = readCalls(redis);
      const { page } = await signIn(site, undefined, { path });
      const callsAfter = readCalls(redis);
      expect(JSON.parse(page.body)).toMatchObject({ signedIn: true });
      const callsSince = (name: string) => (callsAfter.get(name) ?? 0) - (callsBefore.get(name) ?? 0);
      scripts.push(callsSince('evalsha'));
      commands.push(callsAfter.keys().reduce((sum, name) => sum + callsSince(name), 0));
    }
    expect(medianOf(scripts)).toBeGreaterThanOrEqual(SCRIPTS_OF_SIGN_IN);
    expect(medianOf(scripts)).toBeLessThan(SCRIPTS_OF_SIGN_IN + BACKGROUND);
    expect(medianOf(commands)).toBeLessThan(MAX_COMMANDS);
  } finally {
    await site.close();
    await redis.dispose();
  }
});

test('a sign-in takes six writes on SQLite', async () => {
  const site = await startSite();
  const readWrites = async () => {
    const { body } = await sendRequest(`${site.managementUrl}/metrics`);
    return Number(/^gatehouse_storage_command_duration_seconds_count\{command="write"\} (\d+)$/m.exec(body)?.[1]);
  };
  try {
    await signIn(site);
    const writes: number[] = [];
    for (let n = 0; n < SIGN_INS; n += 1) {
      const writesBefore = await readWrites();
      await signIn(site);
      writes.push((await readWrites()) - writesBefore);
    }
    expect(medianOf(writes)).toBeGreaterThanOrEqual(WRITES_OF_SIGN_IN);
    expect(medianOf(writes)).toBeLessThan(WRITES_OF_SIGN_IN + BACKGROUND);
  } finally {
    await site.close();
  }
});

/** A few sign-ins may coincide with many scheduled tasks, as on a busy machine, without changing the median. */
const medianOf = (counts: readonly number[]) => counts.toSorted((left, right) => left - right)[SIGN_INS / 2] ?? NaN;

/** @returns how often each command ran, including inside scripts */
function readCalls(redis: RedisServer): Map<string, number> {
  const text = redis.sendCommand('INFO', 'commandstats') ?? '';
  return new Map(
    [...text.matchAll(/cmdstat_([^:]+):calls=(\d+)/g)].map(([, name = '', count]) => [name, Number(count)]),
  );
}
