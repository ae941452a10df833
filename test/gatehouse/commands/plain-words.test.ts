/** The texts of commands about unusable files, and `backup verify` without a storage. */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fileFault } from '../../../src/shared/file-fault.ts';
import { generateEncryptionKey } from '../../../src/shared/storage/key-ring.ts';
import { startSite, type TestSite } from '../../support/gatehouse.ts';
import { runCommand } from '../../support/terminal.ts';

let site: TestSite;
let folder: string;
let file: string;
const run = (args: string[], env = site.env) => runCommand(args, env);
beforeAll(async () => {
  site = await startSite();
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-words-'));
  file = join(folder, 'one.backup');
  expect((await run(['backup', file])).status).toBe(0);
});
afterAll(async () => {
  await site.close();
  rmSync(folder, { recursive: true });
});

describe('a file that cannot be used', () => {
  test.each([
    ['EACCES', 'permission'],
    ['EPERM', 'permission'],
    ['ENOENT', 'no such file'],
    ['ENOSPC', 'disk is full'],
    ['EROFS', 'read-only'],
    ['EMFILE', 'open files'],
  ])('describes %s in plain words', (code, words) => {
    const error = Object.assign(new Error(`${code}: raw, open 'x.backup.cc2688ec.part'`), { code, path: '/x' });
    expect(fileFault(error)).toMatch(new RegExp(`^/x: .*${words}`));
    expect(fileFault(error, 'mine')).toMatch(/^mine: /);
    expect(fileFault(error)).not.toContain(code);
  });

  test('has no words for an error that is not about a file', () => {
    expect(fileFault(new TypeError('no file'))).toBeUndefined();
    expect(fileFault(Object.assign(new Error('x'), { code: 'ECONNREFUSED' }))).toBeUndefined();
  });

  const commands: [string, () => string[], RegExp][] = [
    ['backup below a missing folder', () => ['backup', join(folder, 'none', 'x')], /none\/x: there is no such file/],
    ['backup below a file', () => ['backup', join(file, 'x')], /one\.backup\/x: a part of its path is a file/],
    ['restore of a folder', () => ['restore', folder], /: it is a folder\. Enter the path of a file\./],
    ['backup verify of a folder', () => ['backup', 'verify', folder], /: it is a folder\. Enter the path of a file\./],
    ['backup verify of a missing file', () => ['backup', 'verify', join(folder, 'none')], /There is no file .*none\./],
    [
      'connections import of a folder',
      () => ['connections', 'import', folder],
      /it is a folder\. Enter the path of a file\./,
    ],
    [
      'bin import with bad rows in a missing folder',
      () => ['bin', 'import', file, '--bad-rows', join(folder, 'none', 'x')],
      /none\/x: there is no such file/,
    ],
  ];
  test.each(commands)('%s', async (_name, args, words) => {
    const { status, stdout, stderr } = await run(args());
    expect(status).toBe(1);
    expect(stdout).toBe('');
    expect(stderr).toMatch(words);
    expect(stderr).toMatch(/^This cannot be done: /);
    expect(stderr).not.toMatch(/\bE[A-Z]{3,}\b|\.part/);
    expect(readdirSync(folder)).toEqual(['one.backup']);
  });
});

describe('backup verify', () => {
  const withoutStorage = () => ({ ENCRYPTION_KEYS: site.env.ENCRYPTION_KEYS ?? '', DATA_DIR: join(folder, 'no-data') });
  const verify = (path: string, env: Record<string, string> = withoutStorage()) =>
    run(['backup', 'verify', path, '--json'], env);

  test('describes the backup, and opens no storage', async () => {
    const { status, stdout } = await verify(file);
    expect(status).toBe(0);
    const description = JSON.parse(stdout);
    expect(description).toMatchObject({ file, sealChecked: true, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
    expect(description.items).toBeGreaterThan(3);
    expect(readdirSync(folder)).toEqual(['one.backup']);
    expect((await run(['backup', 'verify', file], withoutStorage())).stdout).toMatch(
      /is complete: \d+ items from .*\nIt is unaltered, and ENCRYPTION_KEYS has the keys to restore it\.\n$/,
    );
  });

  test('without keys only checks that the file is complete, and says so', async () => {
    expect(JSON.parse((await verify(file, {})).stdout)).toMatchObject({ sealChecked: false });
    expect((await run(['backup', 'verify', file], {})).stdout).toMatch(/Its seal was not checked: set ENCRYPTION_KEYS/);
  });

  test('names a key that is missing', async () => {
    const env = { ENCRYPTION_KEYS: generateEncryptionKey(new Date()) };
    const { status, stderr } = await verify(file, env);
    expect(status).toBe(1);
    expect(stderr).toContain(site.env.ENCRYPTION_KEYS?.split(':')[0]);
  });

  test('refuses a file that is cut or altered', async () => {
    const ownFolder = join(folder, 'own');
    mkdirSync(ownFolder);
    const copy = join(ownFolder, 'copy');
    cpSync(file, copy);
    const text = readFileSync(copy, 'utf8');
    for (const changed of [text.slice(0, -20), text.replace('"version":1', '"version":2'), `${text}{}\n`]) {
      writeFileSync(copy, changed);
      for (const env of [withoutStorage(), {}]) expect((await verify(copy, env)).status).toBe(1);
    }
    rmSync(ownFolder, { recursive: true });
  });

  test('a backup file can be called verify if its folder is named, too', async () => {
    const fileCalledVerify = join(folder, 'verify');
    expect((await run(['backup', fileCalledVerify, '--json'])).status).toBe(0);
    expect(JSON.parse((await verify(fileCalledVerify)).stdout).file).toBe(fileCalledVerify);
    rmSync(fileCalledVerify);
  });
});
