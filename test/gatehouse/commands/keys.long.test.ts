/** `npm run gatehouse -- keys …` while Gatehouse runs: keys are counted, rotated, removed and given up. */
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest';
import { generateEncryptionKey } from '../../../src/shared/storage/key-ring.ts';
import { type Fleet, LOGINS, type StoreKind, startFleet } from '../../support/fleet.ts';
import { skipIfMissing } from '../../support/missing.ts';
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
    const firstKey = generateEncryptionKey(new Date());
    const secondKey = generateEncryptionKey(new Date());
    const thirdKey = generateEncryptionKey(new Date());
    const [firstId = '', secondId = ''] = [firstKey, secondKey].map((key) => key.split(':')[0]);
    let fleet: Fleet;
    beforeAll(async () => {
      if (missing) return;
      fleet = await startFleet({ kind, processes: 1, env: { ENCRYPTION_KEYS: firstKey } });
    });
    afterAll(() => fleet?.close());
    const check = (name: string, work: () => Promise<void>) =>
      test(name, async (context: TestContext) => {
        skipIfMissing(context, missing);
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
    const refusalWith = (encryptionKeys: string) =>
      refusalOf({ ...fleet.member(0).env, ENCRYPTION_KEYS: encryptionKeys });

    check('R48 R49 a key is rotated, and can be removed only once no record needs it', async () => {
      const user = await fleet.signIn(UMA);
      const newKeyLast = `${firstKey},${secondKey}`;
      const newKeyFirst = `${secondKey},${firstKey}`;
      const tooEarly = await run(newKeyLast, 'rotate');
      expect([tooEarly.status, tooEarly.stdout]).toEqual([
        0,
        `Every record is now sealed with ${firstId}: 0 were sealed again.\n${secondId} comes after it and was never used. To change to it, put it first, restart or reload every process, and run this again.\n`,
      ]);
      expect((await run(newKeyLast, 'status')).stdout).toContain(`${secondId}  not used yet  0`);

      await restart(newKeyFirst);
      const beforeRotation = await run(newKeyFirst, 'status');
      expect(beforeRotation.stdout).toContain(`${firstId}  decrypts, still needed  3`);
      expect(beforeRotation.stdout).toContain(`Running processes: 1 (1 encrypts with ${secondId})`);

      const withoutFirstKey = await refusalWith(secondKey);
      expect(withoutFirstKey).toContain(`"${firstId}", which ENCRYPTION_KEYS does not hold, still seals 3 records`);
      for (const count of ['grant: 1', 'session: 1', 'session-id-token: 1']) expect(withoutFirstKey).toContain(count);

      const rotated = await run(newKeyFirst, 'rotate');
      expect([rotated.status, rotated.stderr]).toEqual([0, '']);
      expect(rotated.stdout).toMatch(
        new RegExp(`sealed with ${secondId}: \\d+ were[\\s\\S]*Remove from ENCRYPTION_KEYS: ${firstId}\n$`),
      );
      const secondRotation = JSON.parse((await run(newKeyFirst, 'rotate', '--json')).stdout);
      expect(secondRotation).toEqual({ kid: secondId, reencrypted: 0, unreadable: {}, removable: [] });
      expect((await run(newKeyFirst, 'status')).stdout).toContain(`${firstId}  can be removed  0`);
      expect((await run(newKeyFirst, 'rotate')).stdout).not.toContain('comes after it');

      await restart(secondKey);
      expect((await fleet.thread(fleet.member(0), user)).status).toBe(200);
      const status = JSON.parse((await run(secondKey, 'status', '--json')).stdout);
      expect(status).toMatchObject({
        encryptionKeys: [
          {
            kid: secondId,
            encrypts: true,
            configured: true,
            kinds: { grant: 1, session: 1, 'session-id-token': 1 },
            removable: false,
          },
        ],
        processes: [{ encryptsWith: secondId }],
      });
    });

    // Does not depend on the storage. The test above shows a refusal on both.
    const checkOnce: typeof check = kind === 'SQLite' ? check : () => undefined;
    checkOnce('R49: a key that is missing, and another key of the same id, are refused', async () => {
      const missingKey = await refusalWith(thirdKey);
      expect(missingKey).toContain(`"${secondId}", which ENCRYPTION_KEYS does not hold, still seals`);
      const wrongKey = await refusalWith(`${secondId}:${thirdKey.split(':')[1]}`);
      expect(wrongKey).toContain('is not the key with that id');
      for (const message of [missingKey, wrongKey]) expect(message).not.toContain(thirdKey.split(':')[1]);
    });

    check('F19 after a lost key is given up, Gatehouse starts, and users sign in and connect again', async () => {
      const user = await fleet.signIn(UMA);
      const notLost = await run(secondKey, 'forget', secondId, '--yes');
      expect([notLost.status, notLost.stderr]).toEqual([1, expect.stringContaining('it is not lost')]);
      const unknown = await run(thirdKey, 'forget', 'nosuch', '--yes');
      // Without the lost key the storage cannot be opened, so the id is not looked up.
      expect(unknown.status).toBe(78);
      const misspelt = await run(secondKey, 'forget', 'nosuch', '--yes');
      expect([misspelt.status, misspelt.stdout, misspelt.stderr]).toEqual([
        1,
        '',
        expect.stringContaining('There is no key with the id "nosuch". To see the ids, run: npm run'),
      ]);
      const question = await run(thirdKey, 'forget', secondId);
      expect([question.status, question.stderr]).toEqual([1, '']);
      expect(question.stdout).toMatch(/would lose \d+ records[\s\S]*- grant: 1/);
      expect(await refusalWith(thirdKey)).toContain('which ENCRYPTION_KEYS does not hold');

      const forgotten = await run(thirdKey, 'forget', secondId, '--yes');
      expect([forgotten.status, forgotten.stderr]).toEqual([0, '']);
      await restart(thirdKey);
      const response = await fleet.thread(fleet.member(0), user);
      expect([response.status, JSON.parse(response.body).code]).toEqual([401, 'sign_in_required']);
      const status = JSON.parse((await run(thirdKey, 'status', '--json')).stdout);
      expect(status.encryptionKeys).toContainEqual(
        expect.objectContaining({ kid: secondId, configured: false, kinds: { grant: 1 }, removable: true }),
      );
      // The next sign-in connects the user again.
      const signedInAgain = await fleet.signIn(UMA);
      expect((await fleet.thread(fleet.member(0), signedInAgain)).status).toBe(200);
    });
  });
}
