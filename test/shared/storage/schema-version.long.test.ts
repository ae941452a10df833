/**
 * F29: a program refuses data that is too new or too old for it, and to start if a running process could not read its
 * data.
 */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { writeBackup } from '../../../src/gatehouse/commands/backup-file.ts';
import { createBackupKeys } from '../../../src/gatehouse/commands/restore-keys.ts';
import { startGatehouse } from '../../../src/gatehouse/start.ts';
import { StartRefused } from '../../../src/shared/errors.ts';
import { copyOut } from '../../../src/shared/storage/copy.ts';
import { generateEncryptionKey } from '../../../src/shared/storage/key-ring.ts';
import { keys, OLDEST_READABLE, SCHEMA, type SchemaVersion } from '../../../src/shared/storage/keys.ts';
import { agreeOnSchema } from '../../../src/shared/storage/schema-version.ts';
import { makeSealer, sealerOf } from '../../support/encryption-keys.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { freePort } from '../../support/ports.ts';
import { runServer, startProgram } from '../../support/program.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { runCommand } from '../../support/terminal.ts';
import { createTestStorage, type TestStorage } from '../../support/test-storage.ts';

/** Later versions: one that this program can read, and one that it cannot read. */
const READABLE: SchemaVersion = { version: SCHEMA.version + 1, oldestReader: SCHEMA.version };
const UNREADABLE: SchemaVersion = { version: SCHEMA.version + 1, oldestReader: SCHEMA.version + 1 };
/** The last version that this program cannot read. */
const CANDIDATE: SchemaVersion = { version: OLDEST_READABLE - 1, oldestReader: 1 };

describe.each(['SQLite', 'Redis'] as const)('F29 on %s:', (kind) => {
  let storage: TestStorage;
  let env: Record<string, string>;
  let directory: string;
  beforeEach(async (context) => {
    skipIfMissing(context, kind === 'Redis' ? missingRedis : undefined);
    storage = await createTestStorage(kind);
    directory = mkdtempSync(join(tmpdir(), 'gatehouse-schema-'));
    const port = await freePort();
    env = {
      PUBLIC_URL: `http://127.0.0.1:${port}`,
      PORT: String(port),
      MANAGEMENT_PORT: String(await freePort()),
      SESSION_SECRETS: randomBytes(48).toString('base64'),
      ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
      DATA_DIR: join(directory, 'data'),
      ...storage.env,
    };
    await startAndStop();
  });
  afterEach(async () => {
    await storage?.dispose();
    rmSync(directory, { recursive: true, force: true });
  });

  const readSchemaRecord = () =>
    storage.withStore(
      async (store) =>
        JSON.parse((await store.get(keys.schema))?.value ?? '{}') as SchemaVersion & { identity?: string },
    );
  const storedSchema = async () => {
    const { identity: _, ...rest } = await readSchemaRecord();
    return rest;
  };
  const putSchema = (schema: object) =>
    storage.withStore((store) => store.write([{ put: keys.schema, value: JSON.stringify(schema) }]));
  /** Starts the program in this process. One test below shows that a refused start ends its process with 78. */
  const start = () => startGatehouse(env, { write: () => undefined });
  const startAndStop = async () => (await start()).close();

  test('the first start writes the version, and the next one does not change it', async () => {
    expect(await storedSchema()).toEqual(SCHEMA);

    const version = () => storage.withStore(async (store) => (await store.get(keys.schema))?.version);
    const before = await version();
    await startAndStop();
    expect(await version()).toBe(before);
  });

  test('R126 the first start gives the storage an identity, which never changes and is in no copy', async () => {
    const { identity } = await readSchemaRecord();
    expect(identity).toMatch(/^[\w-]{36}$/);

    await startAndStop();
    expect((await readSchemaRecord()).identity).toBe(identity);

    const items = await storage.withStore(async (store) => (await Array.fromAsync(copyOut(store))).flat());
    expect(items.some((item) => 'record' in item && item.record === keys.schema)).toBe(true);
    expect(JSON.stringify(items)).not.toContain(identity);
  });

  test('an older program ends with 78, reports the reason, and changes nothing', async () => {
    await putSchema(UNREADABLE);
    const before = await storage.items();
    const { status, stderr } = await runServer(env);
    const refusal = /^Gatehouse cannot start:\n- The storage has version .* from before the upgrade\.\n$/;
    expect([status, stderr]).toEqual([78, expect.stringMatching(refusal)]);
    expect(await storage.items()).toEqual(before);
  });

  test('commands of an older program end with 78, and a migration writes nothing', async () => {
    await putSchema(UNREADABLE);
    const target = join(directory, 'target');
    const from = kind === 'Redis' ? 'redis' : 'sqlite';
    const commands = [
      ['backup', join(directory, 'file')],
      ['migrate', '--from', from, '--to', `sqlite:${target}`],
    ];
    for (const command of commands) expect((await runCommand(command, env)).status, command[0]).toBe(78);
    expect(await storedSchema()).toEqual(UNREADABLE);
  });

  test('a start and commands refuse the data of a release candidate with 78, and change nothing', async () => {
    await putSchema(CANDIDATE);
    const before = await storage.items();
    const [backup, target] = [join(directory, 'backup'), join(directory, 'target')];
    const seal = (digest: string) => sealerOf(env).seal(digest, keys.backupSeal);
    await storage.withStore((store) =>
      writeBackup({
        file: backup,
        replace: false,
        storage: 'some',
        items: copyOut(store),
        seal,
        advance: () => undefined,
      }),
    );
    const commands = [
      ['backup', join(directory, 'file')],
      ['status'],
      ['restore', backup, '--replace'],
      ['backup', 'verify', backup],
      ['migrate', '--from', kind === 'Redis' ? 'redis' : 'sqlite', '--to', `sqlite:${target}`],
    ];
    const refusal = String(await start().catch((error: StartRefused) => error.message));
    for (const command of commands)
      expect(await runCommand(command, env), command.join(' ')).toMatchObject({
        status: 78,
        stderr: `This cannot be done:\n- ${refusal}\n`,
      });
    for (const part of ['release candidate', 'empty storage', 'sign in and connect again', 'apps apply FILE'])
      expect(refusal).toContain(part);
    expect(await storage.items()).toEqual(before);
  });

  test('an older program that can read the data starts, and does not change the newer version', async () => {
    await putSchema({ ...READABLE, ofNewerVersion: true });
    await startAndStop();
    expect(await storedSchema()).toEqual({ ...READABLE, ofNewerVersion: true });
  });

  test('a newer program refuses to start until a running process that could not read its data has ended', async () => {
    const running = startProgram(['node', 'src/server.ts'], env);
    await running.printed('Gatehouse is ready');
    const startNewerProgram = () => storage.withStore((store) => agreeOnSchema(store, UNREADABLE));
    await expect(startNewerProgram()).rejects.toThrow(StartRefused);
    expect(await storedSchema()).toEqual(SCHEMA);

    running.signal('SIGTERM');
    await running.ended;
    await startNewerProgram();
    expect(await storedSchema()).toEqual(UNREADABLE);
    await expect(start()).rejects.toThrow(StartRefused);
  });

  test('simultaneous starts of several versions store the highest version', async () => {
    await storage.withStore(async (store) => {
      const versions = [1, 2, 3, 2, 1].map((offset) => ({ version: SCHEMA.version + offset, oldestReader: 1 }));
      await Promise.all(versions.map((version) => agreeOnSchema(store, version)));
    });
    expect(await storedSchema()).toEqual({ version: SCHEMA.version + 3, oldestReader: SCHEMA.oldestReader });
  });
});

test('F29 a backup of a newer version is refused before anything is written', () => {
  const item = { record: keys.schema, value: JSON.stringify(UNREADABLE), version: 1 };
  expect(() => createBackupKeys(makeSealer()).scan([item])).toThrow(StartRefused);
});
