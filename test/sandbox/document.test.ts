/** docs/sandbox.md: its seed file starts a sandbox, and its calls have the stated results. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADMIN_TOTP_SECRET } from '../../src/sandbox/accounts.ts';
import { readSeed } from '../../src/sandbox/seed.ts';
import { missingCurl, skipIfMissing } from '../support/missing.ts';
import { type ForeignClient, startForeignClient } from './foreign-client.ts';

const text = readFileSync(join(import.meta.dirname, '../../docs/sandbox.md'), 'utf8');
const blocks = (language: string, from: string) =>
  [...from.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))].map(([, block = '']) => block);
const curlSection = text.slice(text.indexOf('## With curl'));

let client: ForeignClient;
let folder: string;

beforeAll(async () => {
  const { seed, faults } = readSeed(blocks('json', text)[0] ?? '');
  if (seed === undefined) throw new Error(`The seed of the document is wrong: ${faults.join('; ')}`);
  const [, initialAccessToken = ''] = /SANDBOX_INITIAL_ACCESS_TOKEN=(\S+)/.exec(curlSection) ?? [];
  client = await startForeignClient({ seed, initialAccessToken });
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-sandbox-'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await client.sandbox.close();
});

describe('docs/sandbox.md', () => {
  it('has calls that register, sign in, refresh, revoke, and read with both kinds of token', async (context) => {
    skipIfMissing(context, missingCurl);
    const script = blocks('sh', curlSection)
      .join('\n')
      .replaceAll('http://127.0.0.1:3001', client.sandbox.issuer)
      .replaceAll('http://127.0.0.1:3002', client.sandbox.platformUrl);
    const { stdout } = await promisify(execFile)('bash', ['-c', script], { cwd: folder });
    const expected = [...script.matchAll(/^read_thread .*# (\d+)$/gm)].map(([, status]) => status);
    expect(expected).toEqual(['200', '200', '401', '200']);
    expect(stdout.trim().split('\n')).toEqual(expected);
    expect(readFileSync(join(folder, 'thread.json'), 'utf8')).toContain('Figures of the night');
  });

  it('names the accounts, their password and the secret of the second factor', () => {
    for (const { login, password } of client.sandbox.accounts.slice(0, 3)) {
      expect(text).toContain(login);
      expect(text).toContain(password);
    }
    expect(text).toContain(ADMIN_TOTP_SECRET);
  });
});
