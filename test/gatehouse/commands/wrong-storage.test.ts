/** R121: a command that needs stored data refuses an empty storage, and creates nothing there. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createProgram } from '../../../src/gatehouse/commands/program.ts';
import { generateEncryptionKey } from '../../../src/shared/storage/key-ring.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis, type RedisServer, startRedis } from '../../support/redis-server.ts';
import { runCommand } from '../../support/terminal.ts';

const folder = mkdtempSync(join(tmpdir(), 'gatehouse-wrong-'));
const csv = join(folder, 'bins.csv');
const apps = join(folder, 'apps.json');
const grants = join(folder, 'grants.jsonl');
const output = join(folder, 'output');
beforeAll(() => {
  writeFileSync(csv, 'bin\n457173\n');
  writeFileSync(apps, '[]');
  writeFileSync(grants, '');
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const COMMANDS_WITH_STORAGE = [
  ['status'],
  ['keys', 'status'],
  ['keys', 'rotate'],
  ['keys', 'forget', 'k1', '--yes'],
  ['audit', 'export'],
  ['admin-tokens', 'create', '--name', 'n', '--scope', 'read', '--days', '1'],
  ['admin-tokens', 'list'],
  ['admin-tokens', 'revoke', 'some-id'],
  ['sessions', 'end', '--all'],
  ['bin', 'import', csv, '--columns', 'start=bin,country=bin'],
  ['bin', 'rollback'],
  ['bin', 'enrich', csv, '--column', 'bin', '--out', output],
  ['connections', 'import', grants],
  ['doctor'],
  ['apps', 'apply', apps],
  ['backup', output],
  ['migrate', '--from', 'STORAGE', '--to', `sqlite:${output}`],
];
/** Commands that only read files, or fill an empty storage. */
const COMMANDS_WITHOUT_STORAGE = ['keys generate', 'config check', 'apps check', 'backup verify', 'restore'];

test('R121 every command is in one of the two lists above', async () => {
  const nowhere = { source: { env: {}, readFile: () => '' }, out: process.stdout, err: process.stderr };
  /** Returns the names of the commands that can be run: of this one, and of those below it. */
  const namesOf = (command: Command, parents: string[]): string[] => {
    const path = [...parents, command.name()];
    const namesBelow = command.commands.flatMap((subcommand) => namesOf(subcommand, path));
    const canBeRun = command.commands.length === 0 || command.registeredArguments.length > 0;
    return canBeRun ? [path.join(' '), ...namesBelow] : namesBelow;
  };
  const { commands } = await createProgram({ ...nowhere, setExitStatus: () => undefined });
  const names = commands.flatMap((command) => namesOf(command, []));
  const isListed = (name: string) =>
    COMMANDS_WITHOUT_STORAGE.includes(name) || COMMANDS_WITH_STORAGE.some((args) => args.join(' ').startsWith(name));
  expect(names.length).toBeGreaterThan(20);
  expect(names.filter((name) => !isListed(name))).toEqual([]);
});

const env = {
  PUBLIC_URL: 'http://127.0.0.1',
  SESSION_SECRETS: 'a secret of this test that is long enough 0123456789',
  ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
};

describe('in a folder without a database', () => {
  const dataDirectory = join(folder, 'data');
  test.each(COMMANDS_WITH_STORAGE.map((args) => [args.slice(0, 2).join(' '), args] as const))(
    'R121 %s',
    async (_name, args) => {
      const argsWithStorage = args.map((arg) => arg.replace('STORAGE', 'sqlite'));
      const { status, stdout, stderr } = await runCommand(argsWithStorage, { ...env, DATA_DIR: dataDirectory });
      expect([status, stdout]).toEqual([78, '']);
      expect(stderr).toContain(`There is no database in ${dataDirectory}`);
      expect([existsSync(dataDirectory), existsSync(output)]).toEqual([false, false]);
    },
  );
});

describe('on an empty Redis', () => {
  let server: RedisServer;
  let redis: Redis;
  beforeAll(async () => {
    if (missingRedis !== undefined) return;
    server = await startRedis();
    redis = new Redis(server.url);
  });
  beforeEach((context) => skipIfMissing(context, missingRedis));
  afterAll(async () => {
    redis?.disconnect();
    await server?.dispose();
  });

  test.each(COMMANDS_WITH_STORAGE.map((args) => [args.slice(0, 2).join(' '), args] as const))(
    'R121 %s',
    async (_name, args) => {
      const argsWithStorage = args.map((arg) => arg.replace('STORAGE', 'redis'));
      const { status, stdout, stderr } = await runCommand(argsWithStorage, { ...env, REDIS_URL: server.url });
      expect([status === 0, stdout]).toEqual([false, '']);
      expect(stderr).toMatch(/Redis at .* contains no data of Gatehouse/);
      expect([await redis.dbsize(), existsSync(output)]).toEqual([0, false]);
    },
  );
});
