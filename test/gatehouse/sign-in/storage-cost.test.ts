/** The storage operations of a sign-in: records of one slot are written together, and none twice. */
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
const SCRIPTS = 7;
/** As the scripts, without the audit entries. test/faults/slow-flush.timed.long.test.ts counts waits for the disk. */
const WRITES = 6;
/** Of scheduled tasks, and of audit entries that fall into two writes. */
const BACKGROUND = 3;
/** Those inside the scripts included: about 104. */
const COMMANDS = 125;

test('a sign-in takes seven scripts on Redis', async (context) => {
  skipIfMissing(context, missingRedis);
  const redis = await startRedis();
  const site = await startSite({ env: { REDIS_URL: redis.url } });
  const path = '/sign-in?return_to=/session';
  try {
    await signIn(site, undefined, { path });
    const before = calls(redis);
    for (let times = 0; times < SIGN_INS; times += 1) {
      const { page } = await signIn(site, undefined, { path });
      expect(JSON.parse(page.body)).toMatchObject({ signedIn: true, connections: [{ app: 'platform' }] });
    }
    const after = calls(redis);
    const each = (name: string) => ((after.get(name) ?? 0) - (before.get(name) ?? 0)) / SIGN_INS;
    expect(each('evalsha')).toBeGreaterThan(SCRIPTS - 1);
    expect(each('evalsha')).toBeLessThan(SCRIPTS + BACKGROUND);
    const all = [...after.keys()].reduce((sum, name) => sum + each(name), 0);
    expect(all).toBeLessThan(COMMANDS);
  } finally {
    await site.close();
    await redis.dispose();
  }
});

test('a sign-in takes six writes on SQLite, two of which wait for the disk in sequence', async () => {
  const site = await startSite();
  const writes = async () => {
    const { body } = await sendRequest(`${site.managementUrl}/metrics`);
    return Number(/^gatehouse_storage_command_duration_seconds_count\{command="write"\} (\d+)$/m.exec(body)?.[1]);
  };
  try {
    await signIn(site);
    const before = await writes();
    for (let times = 0; times < SIGN_INS; times += 1) await signIn(site);
    const each = ((await writes()) - before) / SIGN_INS;
    expect(each).toBeGreaterThan(WRITES - 1);
    expect(each).toBeLessThan(WRITES + BACKGROUND);
  } finally {
    await site.close();
  }
});

/** How often each command ran, those inside scripts included. */
function calls(redis: RedisServer): Map<string, number> {
  const text = redis.sendCommand('INFO', 'commandstats') ?? '';
  return new Map(
    [...text.matchAll(/cmdstat_([^:]+):calls=(\d+)/g)].map(([, name = '', count]) => [name, Number(count)]),
  );
}
