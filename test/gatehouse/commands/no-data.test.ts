/** R120: error messages of parsers and libraries never show data on a terminal. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startSite, type TestSite } from '../../support/gatehouse.ts';
import { runCommand } from '../../support/terminal.ts';

/** The number of a test card. */
const CARD = '4111111111111111';
/** A text that no message of Gatehouse contains. */
const MARK = 'zq-marked-zq';

let site: TestSite;
let folder: string;
beforeAll(async () => {
  site = await startSite();
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-data-'));
});
afterAll(async () => {
  await site.close();
  rmSync(folder, { recursive: true });
});

function writeInput(content: string | Buffer): string {
  const path = join(folder, 'given');
  writeFileSync(path, content);
  return path;
}

async function expectRefused(args: readonly string[]): Promise<string> {
  const { status, stdout, stderr } = await runCommand(args, site.env);
  expect([status === 0, stdout]).toEqual([false, '']);
  expectNoData(stderr);
  return stderr;
}

function expectNoData(printed: string): void {
  expect(printed).not.toContain(MARK);
  expect(printed.replace(/\D/g, '')).not.toContain(CARD.slice(0, 9));
}

describe.each([CARD, '4111 1111 1111 1111', MARK])('R120 bin enrich repeats no %s', (cell) => {
  test.each([
    ['a quote that is not closed', `bin,note\n457173,"${cell}\n`, 'CSV_QUOTE_NOT_CLOSED'],
    ['a row that is too long', `bin,note\n457173,${cell}${'x'.repeat(1_100_000)}\n`, 'CSV_MAX_RECORD_SIZE'],
    ['a row with too many cells', `bin,note\n457173,x,${cell}\n`, 'Line 2'],
  ])('%s', async (_what, text, words) => {
    const out = join(folder, 'out');
    expect(await expectRefused(['bin', 'enrich', writeInput(text), '--column', 'bin', '--out', out])).toContain(words);
    expect(existsSync(out)).toBe(false);
  });

  test.each([
    ['a quote in the middle of a cell', `bin,note\n457173,${cell}"5\n`],
    ['text after a quoted cell', `bin,note\n457173,"${cell}"5\n`],
  ])('%s, which is passed on', async (_what, text) => {
    const out = join(folder, 'enriched');
    const args = ['bin', 'enrich', writeInput(text), '--column', 'bin', '--out', out];
    const { status, stdout, stderr } = await runCommand(args, site.env);
    expect(status).toBe(0);
    expectNoData(stdout + stderr);
  });
});

describe('R120 commands repeat no content of other files', () => {
  test.each([
    ['bin import', ['bin', 'import', 'FILE'], `${MARK}"${CARD}\n`],
    ['bin import of a damaged gzip file', ['bin', 'import', 'FILE'], Buffer.from(`\u001f\u008b${MARK}`, 'latin1')],
    ['apps that are not JSON', ['apps', 'apply', 'FILE'], `[{"id": "${MARK}" ${CARD}}]`],
    ['apps with an unknown member', ['apps', 'apply', 'FILE'], `[{"id": "x", "${MARK} ${CARD}": 1}]`],
    ['apps with a long member', ['apps', 'apply', 'FILE'], `[{"id": "x", "${MARK}_${'a'.repeat(40)}": 1}]`],
    ['backup verify', ['backup', 'verify', 'FILE'], `{"format": "${MARK}" ${CARD}`],
    ['restore', ['restore', 'FILE'], `{"format": "${MARK}" ${CARD}`],
  ])('%s', async (_what, args, content) => {
    const file = writeInput(content);
    const { status, stdout, stderr } = await runCommand(
      args.map((arg) => arg.replace('FILE', file)),
      site.env,
    );
    expect(status).not.toBe(0);
    expectNoData(stdout + stderr);
  });
});

test.each([
  [['bin', 'import', 'x', '--as-of', MARK]],
  [['bin', 'import', 'x', '--columns', `${MARK}=${CARD}`]],
  [['bin', 'enrich', 'x', '--column', 'bin', MARK]],
  [['keys', 'status', MARK, CARD]],
  [['keys', MARK + CARD]],
  [[MARK + CARD]],
  [['keys', 'status', `--token=${MARK}`]],
  [['keys', 'status', `--${CARD}`]],
  [['admin-tokens', 'create', '--name', 'n', '--scope', MARK, '--days', '1']],
  [['admin-tokens', 'create', '--name', 'n', '--scope', 'read', '--days', MARK]],
  [['admin-tokens', 'revoke', MARK]],
  [['audit', 'export', '--to', MARK]],
])('R120 a wrong command line is not repeated: %j', async (args) => {
  expect(await expectRefused(args)).not.toBe('');
});
