/** Owns admin tokens that tests get as operators do: by the command, on the same storage, while Gatehouse runs. */
import { readFileSync } from 'node:fs';
import { Writable } from 'node:stream';
import { Command } from 'commander';
import { addAdminTokenCommands } from '../../src/commands/admin-token.ts';

export async function makeAdminToken(
  site: { env: Record<string, string> },
  { scope = 'write', days = '1' }: { scope?: string; days?: string } = {},
): Promise<string> {
  const written: string[] = [];
  const out = new Writable({
    write(chunk, _encoding, done) {
      written.push(String(chunk));
      done();
    },
  });
  const program = new Command().exitOverride().configureOutput({ writeErr: () => undefined });
  addAdminTokenCommands(program, {
    source: { env: site.env, readFile: (path) => readFileSync(path, 'utf8') },
    out,
    err: out,
    setExitStatus: () => undefined,
  });
  await program.parseAsync(
    ['admin-token', 'create', '--name', 'of a test', '--scope', scope, '--days', days, '--json'],
    { from: 'user' },
  );
  return JSON.parse(written.join('')).token;
}
