/** `npm run gatehouse -- keys …` while Gatehouse runs: keys are counted, rotated, removed and given up. */
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest';
import { generateEncryptionKey } from '../../../src/shared/storage/key-ring.ts';
import { type Fleet, LOGINS, type StoreKind, startFleet } from '../../support/fleet.ts';
import { skipWithout } from '../../support/missing.ts';
import { type CommandResult, runCommandProcess } from '../../support/program.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { refusalOf } from '../../support/refusal.ts';
import { runCommand } from '../../support/terminal.ts';

const [UMA = ''] = LOGINS;

describe('keys generate', () => {
  test('needs no settings, and prints a key as text or as JSON', async () => {
    const plain = await runCommandProcess(['keys', 'generate'], {});
    expect([plain.status, plain.stderr]).toEqual([0, '']);
    expect(plain.stdout).toMatch(/^k\d{8}-[0-9a-f]{4}:[A-Za-z0-9_-]{43}\n$/);
    const { kid, key, setting } = JSON.parse((await runCommand(['keys', 'generate', '--json'], {})).stdout);
    expect(setting).toBe(`${kid}:${key}`);
  });
});

describe('a command that needs the storage', () => {
  test('reports all faults of the settings that it needs, no others, and exits with 78', async () => {
    const env = { PUBLIC_URL: 'nonsense', ENCRYPTION_KEYS: 'no key', REDIS_URL: 'http://x', REDIS_CLUSTER: 'y:1' };
    const { status, stdout, stderr } = await runCommand(['keys', 'status'], env);
    expect([status, stdout]).toEqual([78, '']);
    expect(stderr).toMatch(/ENCRYPTION_KEYS: number 1/);
    expect(stderr).toMatch(/exclude each other/);
    expect(stderr).not.toMatch(/PUBLIC_URL|SESSION_SECRETS/);
  });
});

for (const kind of ['SQLite', 'Redis'] satisfies StoreKind[]) {
  describe(`on ${kind}`, () => {
    const missing = kind === 'Redis' ? missingRedis : undefined;
    const [first, second, third] = [1, 2, 3].map(() => generateEncryptionKey(new Date())) as [string, string, string];
    const kids = [first, second, third].map((setting) => setting.split(':')[0] ?? '');
    let fleet: Fleet;
    beforeAll(async () => {
      if (missing) return;
      fleet = await startFleet({ kind, processes: 1, env: { ENCRYPTION_KEYS: first } });
    });
    afterAll(() => fleet?.close());
    const check = (name: string, work: () => Promise<void>) =>
      test(name, async (context: TestContext) => {
        skipWithout(context, missing);
        await work();
      });

    const run = (encryptionKeys: string, ...args: string[]): Promise<CommandResult> =>
      runCommand(['keys', ...args], { ...fleet.env, ENCRYPTION_KEYS: encryptionKeys });
    const restart = async (encryptionKeys: string) => {
      const member = fleet.member(0);
      if (member.isRunning()) {
        member.signal('SIGTERM');
        expect((await member.program.ended).status).toBe(0);
      }
      member.env.ENCRYPTION_KEYS = encryptionKeys;
      await member.start();
    };
    const refused = (encryptionKeys: string) => refusalOf({ ...fleet.member(0).env, ENCRYPTION_KEYS: encryptionKeys });

    check('R48 R49 a key is rotated, and can be removed only once no record needs it', async () => {
      const person = await fleet.signIn(UMA);
      const behind = `${first},${second}`;
      const nothing = await run(behind, 'rotate');
      expect([nothing.status, nothing.stdout]).toEqual([
        0,
        `Every record is now sealed with ${kids[0]}: 0 were sealed again.\n${kids[1]} comes after it and was never used. To change to it, put it first, restart or reload every process, and run this again.\n`,
      ]);
      expect((await run(behind, 'status')).stdout).toContain(`${kids[1]}  not used yet  0`);
      await restart(`${second},${first}`);
      const early = await run(`${second},${first}`, 'status');
      expect(early.stdout).toContain(`${kids[0]}  opens, still needed  3`);
      expect(early.stdout).toContain(`Running processes: 1 (1 seals with ${kids[1]})`);

      const without = await refused(second);
      expect(without).toContain(`"${kids[0]}", which ENCRYPTION_KEYS does not hold, still seals 3 records`);
      for (const count of ['grant: 1', 'session: 1', 'session-id-token: 1']) expect(without).toContain(count);

      const rotated = await run(`${second},${first}`, 'rotate');
      expect([rotated.status, rotated.stderr]).toEqual([0, '']);
      expect(rotated.stdout).toMatch(
        new RegExp(`sealed with ${kids[1]}: \\d+ were[\\s\\S]*Remove from ENCRYPTION_KEYS: ${kids[0]}\n$`),
      );
      const again = JSON.parse((await run(`${second},${first}`, 'rotate', '--json')).stdout);
      expect(again).toEqual({ key: kids[1], resealed: 0, unreadable: {}, droppable: [] });
      expect((await run(`${second},${first}`, 'status')).stdout).toContain(`${kids[0]}  can be dropped  0`);
      expect((await run(`${second},${first}`, 'rotate')).stdout).not.toContain('comes after it');

      await restart(second);
      expect((await fleet.thread(fleet.member(0), person)).status).toBe(200);
      const status = JSON.parse((await run(second, 'status', '--json')).stdout);
      expect(status).toMatchObject({
        keys: [
          {
            kid: kids[1],
            seals: true,
            held: true,
            kinds: { grant: 1, session: 1, 'session-id-token': 1 },
            droppable: false,
          },
        ],
        processes: [{ seals: kids[1] }],
      });
    });

    // Judged alike on every store: the test above sees a refusal on each.
    const checkOnce: typeof check = kind === 'SQLite' ? check : () => undefined;
    checkOnce('R49: a key that is missing, and another key of the same id, are refused', async () => {
      const missingKey = await refused(third);
      expect(missingKey).toContain(`"${kids[1]}", which ENCRYPTION_KEYS does not hold, still seals`);
      const other = await refused(`${kids[1]}:${third.split(':')[1]}`);
      expect(other).toContain('is not the key with that id');
      for (const told of [missingKey, other]) expect(told).not.toContain(third.split(':')[1]);
    });

    check('F19 after a lost key is given up, Gatehouse starts, and users sign in and connect again', async () => {
      const person = await fleet.signIn(UMA);
      const held = await run(second, 'forget', kids[1] ?? '', '--yes');
      expect([held.status, held.stderr]).toEqual([1, expect.stringContaining('it is not lost')]);
      const unknown = await run(third, 'forget', 'nosuch', '--yes');
      // Without the lost key the storage is not opened for another one.
      expect(unknown.status).toBe(78);
      const misspelt = await run(second, 'forget', 'nosuch', '--yes');
      expect([misspelt.status, misspelt.stdout, misspelt.stderr]).toEqual([
        1,
        '',
        expect.stringContaining('There is no key with the id "nosuch". To see the ids, run: npm run'),
      ]);
      const asked = await run(third, 'forget', kids[1] ?? '');
      expect([asked.status, asked.stderr]).toEqual([1, '']);
      expect(asked.stdout).toMatch(/would give up \d+ records[\s\S]*- grant: 1/);
      expect(await refused(third)).toContain('which ENCRYPTION_KEYS does not hold');

      const done = await run(third, 'forget', kids[1] ?? '', '--yes');
      expect([done.status, done.stderr]).toEqual([0, '']);
      await restart(third);
      const response = await fleet.thread(fleet.member(0), person);
      expect([response.status, JSON.parse(response.body).code]).toEqual([401, 'sign_in_required']);
      const status = JSON.parse((await run(third, 'status', '--json')).stdout);
      expect(status.keys).toContainEqual(
        expect.objectContaining({ kid: kids[1], held: false, kinds: { grant: 1 }, droppable: true }),
      );
      // Signing in makes the connection anew.
      const back = await fleet.signIn(UMA);
      expect((await fleet.thread(fleet.member(0), back)).status).toBe(200);
    });
  });
}
