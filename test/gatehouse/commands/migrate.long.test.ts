/** `migrate` from SQLite to Redis and back: users stay signed in, and both storages can never be used at the same time. */
import { afterAll, afterEach, beforeAll, describe, expect, type TestContext, test, vi } from 'vitest';
import { startGatehouse } from '../../../src/gatehouse/start.ts';
import { generateEncryptionKey } from '../../../src/shared/storage/key-ring.ts';
import { type Fleet, type FleetUser, LOGINS, startFleet } from '../../support/fleet.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { type CommandResult, startProgram } from '../../support/program.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { refusalOf } from '../../support/refusal.ts';
import { runCommand } from '../../support/terminal.ts';
import {
  addBulk,
  bulkKey,
  createTestStorage,
  type TestStorage,
  untilPartlyFilled,
} from '../../support/test-storage.ts';

const [UMA = '', , ADMIN = ''] = LOGINS;
const BULK = 10_000;

describe('migrate', () => {
  let fleet: Fleet;
  let user: FleetUser;
  let admin: FleetUser;
  let redisStorage: TestStorage;
  let secondSqlite: TestStorage;
  beforeAll(async () => {
    if (missingRedis) return;
    fleet = await startFleet({ kind: 'SQLite', processes: 1 });
    fleet.tokenEndpoint.lifetimeSeconds = 1;
    user = await fleet.signIn(UMA);
    admin = await fleet.signIn(ADMIN);
    await fleet.storage.store.increment('bin-quota:{2026-11}', 41, { lifetimeSeconds: 3_600 });
    await addBulk(fleet.storage.store, BULK);
    redisStorage = await createTestStorage('Redis');
    secondSqlite = await createTestStorage('SQLite');
  });
  afterAll(async () => {
    await fleet?.close();
    await redisStorage?.dispose();
    await secondSqlite?.dispose();
  });
  afterEach(() => void vi.useRealTimers());
  const check = (name: string, work: () => Promise<void>) =>
    test(name, async (context: TestContext) => {
      skipIfMissing(context, missingRedis);
      await work();
    });
  const environment = () => ({ ...fleet.env, ...redisStorage.env });
  const migrate = (...args: string[]): Promise<CommandResult> => runCommand(['migrate', ...args], environment());
  const refusalWith = (env: Record<string, string>) => refusalOf({ ...fleet.env, ...env });
  const restart = async (env: Record<string, string>) => {
    Object.assign(fleet.member(0).env, env);
    await fleet.member(0).start();
  };

  check('is refused while a process runs, and changes nothing', async () => {
    const { status, stdout, stderr } = await migrate();
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toContain('A running process uses the source storage. Stop every Gatehouse process');
    expect(await redisStorage.items()).toEqual([]);
    expect((await fleet.thread(fleet.member(0), user)).status).toBe(200);
    await fleet.member(0).kill();
    await restart({});
    expect((await fleet.thread(fleet.member(0), user)).status).toBe(200);
    await fleet.member(0).kill();
  });

  check('reports unusable settings with status 78 before it opens anything', async () => {
    const cases: [string[], Record<string, string>, RegExp][] = [
      [['--from', 'nowhere'], {}, /Name a storage as sqlite, redis, sqlite:FOLDER/],
      [[], { REDIS_URL: '' }, /REDIS_URL, REDIS_CLUSTER or REDIS_SENTINELS is required/],
      [['--to', 'sqlite'], {}, /name the same storage/],
      [['--from', 'sqlite:/nowhere/at/all'], {}, /There is no database in \/nowhere\/at\/all/],
      [[], { ENCRYPTION_KEYS: generateEncryptionKey(new Date()) }, /which ENCRYPTION_KEYS does not hold/],
      [['--to', 'redis://user:hunter2@:x'], {}, /cannot be read/],
    ];
    for (const [args, env, reason] of cases) {
      const { status, stdout, stderr } = await runCommand(['migrate', ...args], { ...environment(), ...env });
      expect([args, status, stdout]).toEqual([args, 78, '']);
      expect(stderr).toMatch(reason);
      expect(stderr).not.toContain('hunter2');
    }
    expect(await redisStorage.items()).toEqual([]);
  });

  check('a killed migration leaves the source usable, and starts from the beginning when it is run again', async () => {
    const program = startProgram(['node', 'src/cli.ts', 'migrate'], environment());
    await redisStorage.withStore(async (store) => {
      await untilPartlyFilled(store);
      program.signal('SIGKILL');
      vi.useFakeTimers({ toFake: ['Date'] });
      await program.ended;
    });
    expect(await refusalWith({})).toContain('wait 20 seconds');
    expect((await redisStorage.items()).length).toBeLessThan(BULK);
    expect(await refusalWith(redisStorage.env)).toContain('is not finished');
    vi.setSystemTime(Date.now() + 20_000);
    const gatehouse = await startGatehouse(fleet.member(0).env, { write: () => undefined });
    expect((await fleet.get(fleet.member(0), '/session', user)).status).toBe(200);
    await gatehouse.close();
  });

  check(
    'moves everything: sessions, grants, counters and the audit trail go on, and the old storage is closed',
    async () => {
      const moved = await migrate('--json');
      expect([moved.status, moved.stderr]).toEqual([0, '']);
      expect(JSON.parse(moved.stdout)).toMatchObject({
        to: expect.stringMatching(/^Redis at 127\.0\.0\.1:\d+$/),
        items: expect.any(Number),
      });
      expect(moved.stdout).not.toContain(redisStorage.env.REDIS_URL);
      expect(await refusalWith({})).toContain('was moved to another place');
      expect((await migrate()).status).toBe(78);

      const issuedBefore = fleet.tokenEndpoint.issued.length;
      await restart(redisStorage.env);
      expect((await fleet.thread(fleet.member(0), user)).status).toBe(200);
      expect(fleet.tokenEndpoint.issued.length).toBeGreaterThan(issuedBefore);
      for (const filter of ['event=sign_in.succeeded', 'event=storage.moved', `actor=${UMA}`]) {
        const response = await fleet.get(fleet.member(0), `/admin/api/audit?${filter}`, admin);
        expect([filter, response.status, JSON.parse(response.body).items.length > 0]).toEqual([filter, 200, true]);
      }
      expect(await redisStorage.withStore((store) => store.counter('bin-quota:{2026-11}'))).toBe(41);
      expect(await redisStorage.withStore((store) => store.get(bulkKey(BULK - 1)))).toBeDefined();
    },
  );

  check('also moves from Redis to SQLite, but only into an empty one', async () => {
    await fleet.member(0).kill();
    const intoFullStorage = await migrate('--from', 'redis', '--to', 'sqlite');
    expect([intoFullStorage.status, intoFullStorage.stdout]).toEqual([1, '']);
    expect(intoFullStorage.stderr).toMatch(/is not empty: it holds [\d,]+ items/);
    expect(intoFullStorage.stderr).toContain(`gatehouse.sqlite and the files next to it out of ${fleet.env.DATA_DIR}`);
    expect(intoFullStorage.stderr).not.toMatch(/Redis|--replace/);

    const moved = await migrate('--from', 'redis', '--to', `sqlite:${secondSqlite.env.DATA_DIR}`);
    expect([moved.status, moved.stderr]).toEqual([0, '']);
    expect(moved.stdout).toMatch(/Moved [\d,]+ items from Redis at 127\.0\.0\.1:\d+ to SQLite in/);
    expect(await refusalWith(redisStorage.env)).toContain('was moved to another place');
    const issuedBefore = fleet.tokenEndpoint.issued.length;
    await restart(secondSqlite.env);
    expect((await fleet.thread(fleet.member(0), user)).status).toBe(200);
    expect(fleet.tokenEndpoint.issued.length).toBeGreaterThan(issuedBefore);
    const response = await fleet.get(fleet.member(0), `/admin/api/audit?actor=${UMA}`, admin);
    expect(JSON.parse(response.body).items.length).toBeGreaterThan(0);
    expect(await secondSqlite.withStore((store) => store.counter('bin-quota:{2026-11}'))).toBe(41);
  });
});
