/** `backup` of a running Gatehouse and `restore` into an empty storage, of the same kind and of the other. */

import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest';
import { generateEncryptionKey } from '../../../src/shared/storage/key-ring.ts';
import { type Fleet, type FleetUser, LOGINS, type StoreKind, startFleet } from '../../support/fleet.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { type CommandResult, isRunning, runCommandProcess, startProgram } from '../../support/program.ts';
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
import { until } from '../../support/until.ts';

const [UMA = '', NEWCOMER = '', ADMIN = ''] = LOGINS;
const BULK = 10_000;
/** The key of a record that expires between backup and restore. */
const EXPIRING_KEY = 'tally:{soon}';

export function testBackups(kind: StoreKind): void {
  const other: StoreKind = kind === 'SQLite' ? 'Redis' : 'SQLite';
  describe(`on ${kind}`, () => {
    const missing = missingRedis;
    const folder = mkdtempSync(join(tmpdir(), 'gatehouse-backup-'));
    const file = join(folder, 'one.backup');
    const storages: TestStorage[] = [];
    let fleet: Fleet;
    let user: FleetUser;
    let admin: FleetUser;
    beforeAll(async () => {
      if (missing) return;
      fleet = await startFleet({ kind, processes: 1 });
      fleet.tokenEndpoint.lifetimeSeconds = 1;
      // Each restored storage refreshes with the token of the backup.
      fleet.sandbox.refreshTokens.policy = 'grace';
      user = await fleet.signIn(UMA);
      admin = await fleet.signIn(ADMIN);
      expect((await backUp(file)).status).toBe(0);
    });
    afterAll(async () => {
      await fleet?.close();
      await Promise.all(storages.map((storage) => storage.dispose()));
      rmSync(folder, { recursive: true });
    });
    const check = (name: string, work: () => Promise<void>) =>
      test(name, async (context: TestContext) => {
        skipIfMissing(context, missing);
        await work();
      });
    const createStorage = async (of: StoreKind) => {
      const storage = await createTestStorage(of);
      storages.push(storage);
      return storage;
    };
    const backUp = (...args: string[]): Promise<CommandResult> => runCommand(['backup', ...args], fleet.env);
    const restore = (
      storage: TestStorage,
      args: string[] = [file],
      env: Record<string, string> = {},
    ): Promise<CommandResult> => runCommand(['restore', ...args], { ...fleet.env, ...storage.env, ...env });
    const restartOn = async ({ env }: TestStorage) => {
      const member = fleet.member(0);
      await member.kill();
      Object.assign(member.env, env);
      await member.start();
    };
    /** Makes a backup with a record that has expired when this resolves. @returns the file */
    const backUpWithExpiringRecord = async () => {
      const path = join(folder, 'soon.backup');
      await fleet.storage.store.write([{ put: EXPIRING_KEY, value: 'gone soon', lifetimeSeconds: 15 }]);
      expect((await backUp(path)).status).toBe(0);
      expect(readFileSync(path, 'utf8')).toContain(EXPIRING_KEY);
      await until(async () => (await fleet.storage.store.get(EXPIRING_KEY)) === undefined);
      return path;
    };
    /** Writes a changed copy of the backup. @returns the file */
    const writeAltered = (name: string, change: (text: string) => string) => {
      const path = join(folder, name);
      writeFileSync(path, change(readFileSync(file, 'utf8')));
      return path;
    };

    check(
      'a backup of a running process can be read only by its owner, overwrites no file, and contains no key or token',
      async () => {
        const path = join(folder, 'made', 'one.backup');
        mkdirSync(dirname(path));
        const backup = await runCommandProcess(['backup', path, '--json'], fleet.env);
        expect([backup.status, backup.stderr]).toEqual([0, '']);
        const { items, kinds, sha256, bytes } = JSON.parse(backup.stdout);
        expect(kinds).toMatchObject({
          grant: 2,
          session: 2,
          user: 2,
          'log audit': expect.any(Number),
        });
        expect(statSync(path)).toMatchObject({ mode: 0o100600, size: bytes });
        const lines = readFileSync(path, 'utf8').split('\n');
        expect(lines).toHaveLength(items + 3);
        const covered = `${lines.slice(0, -2).join('\n')}\n`;
        expect(createHash('sha256').update(covered).digest('hex')).toBe(sha256);
        for (const setting of ['ENCRYPTION_KEYS', 'SESSION_SECRETS'])
          expect(covered).not.toContain(fleet.env[setting]?.split(':').at(-1));
        for (const { accessToken, refreshToken } of fleet.tokenEndpoint.issued) {
          expect(covered).not.toContain(accessToken);
          expect(covered).not.toContain(refreshToken);
        }

        const refused = await backUp(path);
        expect([refused.status, refused.stdout]).toEqual([1, '']);
        expect(refused.stderr).toContain(`${path} already exists`);
        expect(readFileSync(path, 'utf8').split('\n')).toEqual(lines);
        chmodSync(path, 0o644);
        expect((await backUp(path, '--force')).status).toBe(0);
        expect(statSync(path).mode).toBe(0o100600);
        expect(readdirSync(dirname(path))).toEqual(['one.backup']);
      },
    );

    check('a folder without a database is not backed up, and the message names DATA_DIR', async () => {
      const { status, stderr } = await runCommand(['backup', join(folder, 'empty')], {
        ...fleet.env,
        ...(await createStorage('SQLite')).env,
      });
      expect([status, existsSync(join(folder, 'empty'))]).toEqual([78, false]);
      expect(stderr).toContain('set DATA_DIR to the folder that holds');
    });

    check('refuses a file that is cut off, altered, no backup or missing, and writes nothing', async () => {
      const storage = await createStorage(kind);
      const digestOf = (lines: string[]) =>
        createHash('sha256')
          .update(`${lines.join('\n')}\n`)
          .digest('hex');
      const cases: [string, RegExp][] = [
        [writeAltered('cut', (text) => text.slice(0, text.length / 2)), /incomplete or was altered/],
        [writeAltered('no end', (text) => `${text.split('\n').slice(0, -2).join('\n')}\n`), /its end is missing/],
        [writeAltered('less', (text) => text.split('\n').toSpliced(3, 1).join('\n')), /its digest does not match/],
        [writeAltered('more', (text) => `${text}{"record":"a","value":"b","version":1}\n`), /after its last line/],
        [writeAltered('byte', (text) => text.replace('"admin@', '"adminX@').replace('admin@', 'bdmin@')), /altered/],
        // An attacker can compute a new digest, but not the seal, which needs a key.
        [
          writeAltered('forged', (text) => {
            const lines = text.split('\n').slice(0, -2);
            const lastLine = text.split('\n').at(-2) ?? '';
            const { end: facts } = JSON.parse(lastLine);
            const forged = lines.map((line) =>
              line.replace('"disabled":false', '"disabled":true').replace(UMA, 'eve@example.test'),
            );
            expect(forged).not.toEqual(lines);
            const sha256 = digestOf(forged);
            return `${forged.join('\n')}\n${JSON.stringify({ end: { ...facts, sha256 } })}\n`;
          }),
          /its seal does not match its digest/,
        ],
        [writeAltered('other', () => 'CREATE TABLE x;\n'), /is not a Gatehouse backup/],
        [join(folder, 'missing'), /There is no file/],
      ];
      // The file is checked before the storage is opened, so two of the cases are enough on Redis.
      const testedCases = kind === 'SQLite' ? cases : cases.filter(([path]) => /cut|forged/.test(path));
      expect(testedCases.length).toBeGreaterThan(1);
      for (const [path, reason] of testedCases) {
        const { status, stdout, stderr } = await restore(storage, [path]);
        expect([path, status, stdout]).toEqual([path, 1, '']);
        expect(stderr).toMatch(reason);
      }
      expect(await storage.items()).toEqual([]);
    });

    check('names the keys that are missing or wrong, and writes nothing', async () => {
      const storage = await createStorage(kind);
      const kid = fleet.env.ENCRYPTION_KEYS?.split(':')[0] ?? '';
      const otherKey = generateEncryptionKey(new Date());
      const missingKey = await restore(storage, [file], { ENCRYPTION_KEYS: otherKey });
      expect([missingKey.status, missingKey.stdout]).toEqual([1, '']);
      expect(missingKey.stderr).toMatch(
        new RegExp(`sealed with "${kid}" \\(seals \\d+ records\\), which ENCRYPTION_KEYS`),
      );
      const sameId = await restore(storage, [file], { ENCRYPTION_KEYS: `${kid}:${otherKey.split(':')[1]}` });
      expect([sameId.status, sameId.stdout]).toEqual([1, '']);
      expect(sameId.stderr).toContain(`The key "${kid}" in ENCRYPTION_KEYS is not the "${kid}" that sealed`);
      for (const { stderr } of [missingKey, sameId]) expect(stderr).not.toContain(otherKey.split(':')[1]);
      expect(await storage.items()).toEqual([]);
      const withoutKeys = await restore(storage, [file], { ENCRYPTION_KEYS: '' });
      expect(withoutKeys.status).toBe(78);
    });

    check('a lost key can be given up: everything else is restored', async () => {
      const storage = await createStorage(kind);
      const kid = fleet.env.ENCRYPTION_KEYS?.split(':')[0] ?? '';
      const env = { ...fleet.env, ...storage.env, ENCRYPTION_KEYS: generateEncryptionKey(new Date()) };
      const restored = await runCommand(['restore', file, '--lost-key', kid], env);
      expect([restored.status, restored.stderr]).toEqual([0, '']);
      expect(await refusalOf(env)).toContain(`"${kid}"`);
      expect((await runCommand(['keys', 'forget', kid, '--yes'], env)).status).toBe(0);
      expect((await runCommand(['keys', 'status'], env)).status).toBe(0);
    });

    for (const target of [kind, other]) {
      check(
        `restored on ${target}, users are signed in, tokens are refreshed, and the audit trail can be filtered`,
        async () => {
          const storage = await createStorage(target);
          // Waiting for a record to expire is slow, so only one of the two restores includes it.
          const hasExpiredRecord = target === kind;
          const backup = hasExpiredRecord ? await backUpWithExpiringRecord() : file;
          const restored = await restore(storage, [backup, '--json']);
          expect([restored.status, restored.stderr]).toEqual([0, '']);
          const { items, expired } = JSON.parse(restored.stdout);
          if (hasExpiredRecord) expect(expired).toBeGreaterThan(0);
          expect(await storage.withStore((store) => store.get(EXPIRING_KEY))).toBeUndefined();
          const lines = readFileSync(backup, 'utf8').split('\n');
          expect(items + expired).toBe(lines.length - 3);

          const issuedBefore = fleet.tokenEndpoint.issued.length;
          await restartOn(storage);
          expect((await fleet.thread(fleet.member(0), user)).status).toBe(200);
          expect(fleet.tokenEndpoint.issued.length).toBeGreaterThan(issuedBefore);
          for (const filter of ['event=sign_in.succeeded', 'event=storage.restored', `actor=${UMA}`]) {
            const response = await fleet.get(fleet.member(0), `/admin/api/audit?${filter}`, admin);
            expect([filter, response.status, JSON.parse(response.body).items.length > 0]).toEqual([filter, 200, true]);
          }
          await fleet.signIn(NEWCOMER);
          const users = await fleet.get(fleet.member(0), '/admin/api/users', admin);
          expect(JSON.parse(users.body).items).toHaveLength(3);

          const whileRunning = await restore(storage, [backup, '--replace']);
          expect([whileRunning.status, whileRunning.stdout]).toEqual([1, '']);
          expect(whileRunning.stderr).toContain('A running process uses the target storage');
          await fleet.member(0).kill();
          const intoFullStorage = await restore(storage, [backup]);
          expect([intoFullStorage.status, intoFullStorage.stdout]).toEqual([1, '']);
          expect(intoFullStorage.stderr).toMatch(/is not empty: it holds \d+ items \(.*grant: 3/);
          expect(intoFullStorage.stderr).toContain('add --replace');
          const replaced = await restore(storage, [backup, '--replace', '--json']);
          expect([replaced.status, replaced.stderr]).toEqual([0, '']);
          expect(await storage.withStore((store) => store.count('users:{users}'))).toBe(2);
        },
      );
    }

    check('after a killed restore no process starts, and a second restore starts over', async () => {
      const source = await createStorage(kind);
      expect((await restore(source)).status).toBe(0);
      await source.withStore((store) => addBulk(store, BULK));
      const large = join(folder, 'large.backup');
      // On a busy machine the backup may be complete before it is killed. It is then repeated.
      do {
        rmSync(large, { force: true });
        const backup = startProgram(['node', 'src/cli.ts', 'backup', '--new-storage', large], {
          ...fleet.env,
          ...source.env,
        });
        await until(() => !isRunning(backup.pid) || readdirSync(folder).some((name) => name.endsWith('.part')));
        if (isRunning(backup.pid)) backup.signal('SIGKILL');
        await backup.ended;
      } while (existsSync(large));
      expect((await runCommand(['backup', '--new-storage', large], { ...fleet.env, ...source.env })).status).toBe(0);

      const storage = await createStorage(kind);
      const env = { ...fleet.env, ...storage.env };
      await storage.withStore(async (store) => {
        for (let restored = BULK; restored >= BULK; ) {
          await store.clear('');
          const program = startProgram(['node', 'src/cli.ts', 'restore', '--replace', large], env);
          await untilPartlyFilled(store);
          if (isRunning(program.pid)) program.signal('SIGKILL');
          await program.ended;
          restored = (await Array.fromAsync(store.dump())).flat().length;
        }
      });
      expect(await refusalOf(env)).toContain('is not finished. Run it again; it starts over.');
      expect((await runCommand(['keys', 'status'], env)).status).toBe(78);

      const secondRestore = await restore(storage, [large, '--json']);
      expect([secondRestore.status, secondRestore.stderr]).toEqual([0, '']);
      expect(await storage.withStore((store) => store.get(bulkKey(BULK - 1)))).toBeDefined();
      await restartOn(storage);
      expect((await fleet.thread(fleet.member(0), user)).status).toBe(200);
    });
  });
}
