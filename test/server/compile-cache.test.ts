/** The cache of compiled code, which halves the time of a start: its location, and starts without it. */
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { LONG_TIMEOUT } from '../support/until.ts';
import { emptyFolder, writtenTo } from './shown-steps.ts';

const root = join(import.meta.dirname, '..', '..');
const CACHE = 'node_modules/.cache/node-compile-cache';

/** A folder with the program and its own `node_modules`, so that the cache of the project is not used. */
function programFolder(): string {
  const folder = join(emptyFolder(), 'a folder');
  mkdirSync(join(folder, 'node_modules'), { recursive: true });
  for (const name of ['package.json', 'src']) symlinkSync(join(root, name), join(folder, name));
  return folder;
}

function runIn(folder: string, env: Record<string, string> = {}) {
  const PATH = `${dirname(process.execPath)}:/usr/bin:/bin`;
  const options = { cwd: folder, env: { PATH, ...env }, encoding: 'utf8', ...LONG_TIMEOUT } as const;
  const { status, stderr } = spawnSync('sh', ['src/with-node.sh', 'node', 'src/cli.ts', '--version'], options);
  return { status, stderr };
}
const SUCCESS = { status: 0, stderr: '' };

/** The files of the cache, which has a folder for each version of Node and each user. */
const cachedIn = (cache: string) =>
  readdirSync(cache).flatMap((name) => readdirSync(join(cache, name)).map((file) => join(cache, name, file)));

test('the cache is in node_modules, and damaged files are compiled again', () => {
  const folder = programFolder();
  const cache = join(folder, CACHE);
  expect(runIn(folder)).toEqual(SUCCESS);

  const files = cachedIn(cache);
  expect(files.length).toBeGreaterThan(10);

  // The head of such a file has fewer than 80 bytes, and the whole file has more.
  for (const [index, file] of files.entries()) truncateSync(file, index % 2 ? 0 : 80);
  expect(runIn(folder)).toEqual(SUCCESS);
  expect(files.filter((file) => statSync(file).size <= 80)).toEqual([]);
});

test('the cache is in NODE_COMPILE_CACHE, and disabled if that is empty', () => {
  const folder = programFolder();
  const otherCache = join(folder, 'elsewhere');
  expect(runIn(folder, { NODE_COMPILE_CACHE: otherCache })).toEqual(SUCCESS);
  expect(runIn(folder, { NODE_COMPILE_CACHE: '' })).toEqual(SUCCESS);
  expect(existsSync(join(folder, 'node_modules/.cache'))).toBe(false);
  expect(cachedIn(otherCache).length).toBeGreaterThan(10);
});

test('the cache is optional: a start without a writable cache prints nothing', () => {
  const folder = programFolder();
  writeFileSync(join(folder, 'node_modules/.cache'), '');
  expect(runIn(folder)).toEqual(SUCCESS);
});

test('the cache of the service is in a folder of its user, which commands also use', () => {
  const text = readFileSync(join(root, 'docs/deploy.md'), 'utf8');
  const unit = writtenTo(text, '/etc/systemd/system/gatehouse@.service');
  const [, name = ''] = /^CacheDirectory=(\w+)\nCacheDirectoryMode=0700$/m.exec(unit) ?? [];
  expect(unit).toMatch(new RegExp(`^Environment=.*\\bNODE_COMPILE_CACHE=%C/${name}$`, 'm'));

  const script = writtenTo(text, '/usr/local/sbin/as-gatehouse');
  expect(script).toMatch(new RegExp(`^set -a$[^]*^NODE_COMPILE_CACHE=/var/cache/${name}$[^]*^set \\+a$`, 'm'));
});
