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
import { skipWithout } from '../../support/missing.ts';
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
/** Has ended between backup and restore. */
const SOON = 'tally:{soon}';

export function testBackups(kind: StoreKind): void {
  const other: StoreKind = kind === 'SQLite' ? 'Redis' : 'SQLite';
  describe(`on ${kind}`, () => {
    const missing = missingRedis;
    const folder = mkdtempSync(join(tmpdir(), 'gatehouse-backup-'));
    const file = join(folder, 'one.backup');
    const places: TestStorage[] = [];
    let fleet: Fleet;
    let person: FleetUser;
    let admin: FleetUser;
    beforeAll(async () => {
      if (missing) return;
      fleet = await startFleet({ kind, processes: 1 });
      fleet.tokenEndpoint.lifetimeSeconds = 1;
      // Each restored storage refreshes with the token of the backup.
      fleet.sandbox.refreshTokens.policy = 'grace';
      person = await fleet.signIn(UMA);
      admin = await fleet.signIn(ADMIN);
      expect((await backUp(file)).status).toBe(0);
    });
    afterAll(async () => {
      await fleet?.close();
      await Promise.all(places.map((place) => place.dispose()));
      rmSync(folder, { recursive: true });
    });
    const check = (name: string, work: () => Promise<void>) =>
      test(name, async (context: TestContext) => {
        skipWithout(context, missing);
        await work();
      });
    const newPlace = async (of: StoreKind) => {
      const place = await createTestStorage(of);
      places.push(place);
      return place;
    };
    const backUp = (...args: string[]): Promise<CommandResult> => runCommand(['backup', ...args], fleet.env);
    const restore = (
      place: TestStorage,
      args: string[] = [file],
      env: Record<string, string> = {},
    ): Promise<CommandResult> => runCommand(['restore', ...args], { ...fleet.env, ...place.env, ...env });
    const restartOn = async ({ env }: TestStorage) => {
      const member = fleet.member(0);
      await member.kill();
      Object.assign(member.env, env);
      await member.start();
    };
    /** Holds a record that has ended since. */
    const backupWithSoon = async () => {
      const path = join(folder, 'soon.backup');
      await fleet.storage.store.write([{ put: SOON, value: 'gone soon', lifetimeSeconds: 15 }]);
      expect((await backUp(path)).status).toBe(0);
      expect(readFileSync(path, 'utf8')).toContain(SOON);
      await until(async () => (await fleet.storage.store.get(SOON)) === undefined);
      return path;
    };
    const altered = (name: string, change: (text: string) => string) => {
      const path = join(folder, name);
      writeFileSync(path, change(readFileSync(file, 'utf8')));
      return path;
    };

    check(
      'a backup is made beside a running process: for its owner alone, over no other file, and with no key in it',
      async () => {
        const path = join(folder, 'made', 'one.backup');
        mkdirSync(dirname(path));
        const made = await runCommandProcess(['backup', path, '--json'], fleet.env);
        expect([made.status, made.stderr]).toEqual([0, '']);
        const { items, kinds, sha256, bytes } = JSON.parse(made.stdout);
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

    check('an empty storage is not backed up: the folder is wrong then', async () => {
      const { status, stderr } = await runCommand(['backup', join(folder, 'empty')], {
        ...fleet.env,
        ...(await newPlace('SQLite')).env,
      });
      expect([status, existsSync(join(folder, 'empty'))]).toEqual([78, false]);
      expect(stderr).toContain('set DATA_DIR to the folder that holds');
    });

    check('what is cut off, altered, no backup or not there is refused, and nothing is written', async () => {
      const place = await newPlace(kind);
      const digestOf = (lines: string[]) =>
        createHash('sha256')
          .update(`${lines.join('\n')}\n`)
          .digest('hex');
      const cases: [string, RegExp][] = [
        [altered('cut', (text) => text.slice(0, text.length / 2)), /incomplete or was altered/],
        [altered('no end', (text) => `${text.split('\n').slice(0, -2).join('\n')}\n`), /its end is missing/],
        [altered('less', (text) => text.split('\n').toSpliced(3, 1).join('\n')), /its digest does not match/],
        [altered('more', (text) => `${text}{"record":"a","value":"b","version":1}\n`), /after its last line/],
        [altered('byte', (text) => text.replace('"admin@', '"adminX@').replace('admin@', 'bdmin@')), /altered/],
        // Whoever alters it can make the digest anew, but not the seal, which takes a key.
        [
          altered('forged', (text) => {
            const [lines, end] = [text.split('\n').slice(0, -2), text.split('\n').at(-2) ?? ''];
            const { end: facts } = JSON.parse(end);
            const forged = lines.map((line) =>
              line.replace('"disabled":false', '"disabled":true').replace(UMA, 'eve@example.test'),
            );
            expect(forged).not.toEqual(lines);
            const sha256 = digestOf(forged);
            return `${forged.join('\n')}\n${JSON.stringify({ end: { ...facts, sha256 } })}\n`;
          }),
          /its seal does not match its digest/,
        ],
        [altered('other', () => 'CREATE TABLE x;\n'), /is not a Gatehouse backup/],
        [join(folder, 'missing'), /There is no file/],
      ];
      // A file is judged before the storage counts: on the second kind one that is cut and one that is forged are enough.
      const tried = kind === 'SQLite' ? cases : cases.filter(([path]) => /cut|forged/.test(path));
      expect(tried.length).toBeGreaterThan(1);
      for (const [path, why] of tried) {
        const { status, stdout, stderr } = await restore(place, [path]);
        expect([path, status, stdout]).toEqual([path, 1, '']);
        expect(stderr).toMatch(why);
      }
      expect(await place.items()).toEqual([]);
    });

    check('keys that do not open it are named, and nothing is written', async () => {
      const place = await newPlace(kind);
      const kid = fleet.env.ENCRYPTION_KEYS?.split(':')[0] ?? '';
      const another = generateEncryptionKey(new Date());
      const missingKey = await restore(place, [file], { ENCRYPTION_KEYS: another });
      expect([missingKey.status, missingKey.stdout]).toEqual([1, '']);
      expect(missingKey.stderr).toMatch(
        new RegExp(`sealed with "${kid}" \\(seals \\d+ records\\), which ENCRYPTION_KEYS`),
      );
      const sameId = await restore(place, [file], { ENCRYPTION_KEYS: `${kid}:${another.split(':')[1]}` });
      expect([sameId.status, sameId.stdout]).toEqual([1, '']);
      expect(sameId.stderr).toContain(`The key "${kid}" in ENCRYPTION_KEYS is not the "${kid}" that sealed`);
      for (const { stderr } of [missingKey, sameId]) expect(stderr).not.toContain(another.split(':')[1]);
      expect(await place.items()).toEqual([]);
      const none = await restore(place, [file], { ENCRYPTION_KEYS: '' });
      expect(none.status).toBe(78);
    });

    check('a lost key can be given up: everything else is restored', async () => {
      const place = await newPlace(kind);
      const kid = fleet.env.ENCRYPTION_KEYS?.split(':')[0] ?? '';
      const env = { ...fleet.env, ...place.env, ENCRYPTION_KEYS: generateEncryptionKey(new Date()) };
      const restored = await runCommand(['restore', file, '--lost-key', kid], env);
      expect([restored.status, restored.stderr]).toEqual([0, '']);
      expect(await refusalOf(env)).toContain(`"${kid}"`);
      expect((await runCommand(['keys', 'forget', kid, '--yes'], env)).status).toBe(0);
      expect((await runCommand(['keys', 'status'], env)).status).toBe(0);
    });

    for (const target of [kind, other]) {
      check(
        `restored on ${target}, people are signed in, tokens are refreshed, and the audit trail is found by its facets`,
        async () => {
          const place = await newPlace(target);
          // What ends between backup and restore is waited for once on each kind.
          const soon = target === kind;
          const fresh = soon ? await backupWithSoon() : file;
          const restored = await restore(place, [fresh, '--json']);
          expect([restored.status, restored.stderr]).toEqual([0, '']);
          const { items, expired } = JSON.parse(restored.stdout);
          if (soon) expect(expired).toBeGreaterThan(0);
          expect(await place.withStore((store) => store.get(SOON))).toBeUndefined();
          const lines = readFileSync(fresh, 'utf8').split('\n');
          expect(items + expired).toBe(lines.length - 3);

          const before = fleet.tokenEndpoint.issued.length;
          await restartOn(place);
          expect((await fleet.thread(fleet.member(0), person)).status).toBe(200);
          expect(fleet.tokenEndpoint.issued.length).toBeGreaterThan(before);
          for (const filter of ['event=sign_in.succeeded', 'event=storage.restored', `who=${UMA}`]) {
            const response = await fleet.get(fleet.member(0), `/admin/api/audit?${filter}`, admin);
            expect([filter, response.status, JSON.parse(response.body).items.length > 0]).toEqual([filter, 200, true]);
          }
          await fleet.signIn(NEWCOMER);
          const users = await fleet.get(fleet.member(0), '/admin/api/users', admin);
          expect(JSON.parse(users.body).items).toHaveLength(3);

          const running = await restore(place, [fresh, '--replace']);
          expect([running.status, running.stdout]).toEqual([1, '']);
          expect(running.stderr).toContain('A running process uses the target storage');
          await fleet.member(0).kill();
          const full = await restore(place, [fresh]);
          expect([full.status, full.stdout]).toEqual([1, '']);
          expect(full.stderr).toMatch(/is not empty: it holds \d+ items \(.*grant: 3/);
          expect(full.stderr).toContain('add --replace');
          const replaced = await restore(place, [fresh, '--replace', '--json']);
          expect([replaced.status, replaced.stderr]).toEqual([0, '']);
          expect(await place.withStore((store) => store.count('users:{users}'))).toBe(2);
        },
      );
    }

    check('killed in the middle, a restore leaves what nothing starts from, and begins anew', async () => {
      const source = await newPlace(kind);
      expect((await restore(source)).status).toBe(0);
      await source.withStore((store) => addBulk(store, BULK));
      const large = join(folder, 'large.backup');
      // On a busy machine it may be done before it is caught: then it is tried again.
      do {
        rmSync(large, { force: true });
        const making = startProgram(['node', 'src/cli.ts', 'backup', '--new-storage', large], {
          ...fleet.env,
          ...source.env,
        });
        await until(() => !isRunning(making.pid) || readdirSync(folder).some((name) => name.endsWith('.part')));
        if (isRunning(making.pid)) making.signal('SIGKILL');
        await making.ended;
      } while (existsSync(large));
      expect((await runCommand(['backup', '--new-storage', large], { ...fleet.env, ...source.env })).status).toBe(0);

      const place = await newPlace(kind);
      const env = { ...fleet.env, ...place.env };
      await place.withStore(async (store) => {
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

      const done = await restore(place, [large, '--json']);
      expect([done.status, done.stderr]).toEqual([0, '']);
      expect(await place.withStore((store) => store.get(bulkKey(BULK - 1)))).toBeDefined();
      await restartOn(place);
      expect((await fleet.thread(fleet.member(0), person)).status).toBe(200);
    });
  });
}
