/** Packages that an ordinary start does not load, because they are loaded on first use. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createProgram } from '../../src/gatehouse/commands/program.ts';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { freePort } from '../support/ports.ts';
import { type Program, startProgram } from '../support/program.ts';

const root = join(import.meta.dirname, '..', '..');
const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  dependencies: Record<string, string>;
};

/** The packages by the feature that needs them. */
const NOT_FOR_A_START = {
  'a lookup of a BIN': ['banks-db', 'libphonenumber-js', 'world-countries'],
  'a file of BIN data': ['csv-parse'],
  'an upload': ['@fastify/busboy'],
  'a thread on the home page': ['sanitize-html'],
  'traces that are on': Object.keys(dependencies).filter((name) => name.startsWith('@opentelemetry/')),
  'a storage in Redis': ['ioredis'],
  'a command': ['cli-progress', 'commander'],
};

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-loaded-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const run = (file: string, args: string[], env: Record<string, string>) =>
  startProgram(['node', '--import', './test/support/loaded-packages.ts', file, ...args], env);
const loadedBy = ({ stderr }: Program): string[] => JSON.parse(stderr());

test('an ordinary start loads only the packages that it needs', async () => {
  const port = await freePort();
  const program = run('src/server.ts', [], {
    PUBLIC_URL: `http://127.0.0.1:${port}`,
    PORT: String(port),
    MANAGEMENT_PORT: String(await freePort()),
    DATA_DIR: join(directory, 'data'),
    SESSION_SECRETS: randomBytes(48).toString('base64'),
    ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
  });
  await program.printed('Gatehouse is ready at');
  program.signal('SIGTERM');
  expect((await program.ended).status).toBe(0);

  const loaded = loadedBy(program);
  expect(loaded).toEqual(expect.arrayContaining(['express', 'zod']));

  const named = Object.values(NOT_FOR_A_START).flat();
  // A misspelt name would never be in the list of loaded packages.
  expect(named.filter((name) => !(name in dependencies))).toEqual([]);
  expect(named.filter((name) => loaded.includes(name))).toEqual([]);
});

test('the help of the command line, and of every command, loads no package that only the action needs', async () => {
  const nowhere = { source: { env: {}, readFile: () => '' }, out: process.stdout, err: process.stderr };
  const { commands } = await createProgram({ ...nowhere, setExitStatus: () => undefined }, []);
  // With names of commands after it, `--help` still shows the list, and the file of each command is loaded.
  const program = run('src/cli.ts', ['--help', ...commands.map((command) => command.name())], {});
  expect((await program.ended).status).toBe(0);
  expect(program.stdout()).toContain('Gatehouse on the command line.');

  const loaded = loadedBy(program);
  expect(loaded).toContain('commander');
  expect(['cli-progress', 'jose', 'zod'].filter((name) => loaded.includes(name))).toEqual([]);
});
