/** A start with a Node that is too old is refused with one sentence. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { LONG_TIMEOUT } from '../support/until.ts';
import { emptyFolder } from './shown-steps.ts';

const root = join(import.meta.dirname, '..', '..');
const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { engines: { node: string } };
const minimum = Number(engines.node.replace('>=', ''));

/** Runs the command without a Node from npm, with a Node on PATH that reports this version. */
function runWith(version: string, command: string[]) {
  const folder = emptyFolder();
  for (const name of ['package.json', 'src']) symlinkSync(join(root, name), join(folder, name));
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  const pretend = join(bin, 'pretend.cjs');
  writeFileSync(pretend, `Object.defineProperty(process.versions, 'node', { value: '${version}' });`);
  const node = `#!/bin/sh\nexec "${process.execPath}" --require "${pretend}" "$@"\n`;
  writeFileSync(join(bin, 'node'), node, { mode: 0o755 });
  const [file = '', ...args] = command;
  // Without settings, a Node that is new enough gets as far as their faults.
  const { NODE_COMPILE_CACHE = '' } = process.env;
  const env = { PATH: `${bin}:/usr/bin:/bin`, NODE_COMPILE_CACHE };
  return spawnSync(file, args, { cwd: folder, env, encoding: 'utf8', ...LONG_TIMEOUT });
}

describe.each([
  ['with-node.sh', ['sh', 'src/with-node.sh', 'node', 'src/server.ts']],
  ['node src/server.ts', ['node', 'src/server.ts']],
  ['node src/cli.ts', ['node', 'src/cli.ts', 'apps', 'check', 'none.json']],
])('%s', (_name, command) => {
  test.each(['18.20.8', `${minimum - 1}.99.0`])(
    'refuses Node %s in one sentence, with the status of an invalid setting',
    (version) => {
      const { status, stdout, stderr } = runWith(version, command);
      expect([status, stdout]).toEqual([78, '']);
      expect(stderr).toMatch(
        new RegExp(`^Gatehouse needs Node ${minimum} or newer, and this is Node ${version} .+\\.\\n$`),
      );
    },
  );

  test.each([`${minimum}.0.0`, `${minimum + 1}.0.0`])('starts with Node %s', (version) => {
    const { status, stderr } = runWith(version, command);
    expect(status).not.toBe(0);
    expect(stderr).toMatch(/SESSION_SECRETS|none\.json/);
    expect(stderr).not.toContain('needs Node');
  });
});

test('the check uses no TypeScript and no newer syntax, so that old Node versions can run it', () => {
  const text = readFileSync(join(root, 'src', 'node.cjs'), 'utf8');
  expect(text).not.toMatch(/\bimport\b|\?\.|\?\?|=>|\basync\b|node:/);
});

test('npm prints no warning about its own Node version', () => {
  expect(readFileSync(join(root, '.npmrc'), 'utf8')).toMatch(/^loglevel=error$/m);
});
