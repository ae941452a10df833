/**
 * Runs shell commands of a document on a Gatehouse in this process. The shell is real; `as-gatehouse` and `systemctl`
 * are stand-ins that call this process with curl, so that Gatehouse's commands need no separate processes.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { TestGatehouse } from './gatehouse.ts';
import type { CommandResult } from './program.ts';
import { runCommand } from './terminal.ts';

export interface Operator {
  run(steps: string, options?: { env?: Record<string, string>; input?: string }): Promise<CommandResult>;
  /** The content of the file that replaces one in /etc/gatehouse. */
  file(name: string): string;
  close(): Promise<void>;
}

/** @param folder an empty folder that replaces /etc/gatehouse */
export async function startOperator(site: TestGatehouse, folder: string): Promise<Operator> {
  const file = (name: string) => readFileSync(join(folder, name), 'utf8').trim();
  writeFileSync(join(folder, 'session-secrets'), `${site.env.SESSION_SECRETS}\n`);
  writeFileSync(join(folder, 'encryption-keys'), `${site.env.ENCRYPTION_KEYS}\n`);

  const standIns: Record<string, (args: string[]) => Promise<CommandResult | undefined>> = {
    async 'as-gatehouse'(words) {
      const args = words.slice(5);
      if (words.join(' ') !== `npm run -s gatehouse -- ${args.join(' ')}`)
        throw new Error('This is not a command of Gatehouse.');
      const secrets = { SESSION_SECRETS: file('session-secrets'), ENCRYPTION_KEYS: file('encryption-keys') };
      return runCommand(args, { ...site.env, ...secrets });
    },
    // `stop` does nothing, because the `start` after it restarts the site.
    async systemctl([verb = '']) {
      if (verb === 'reload') await site.reload();
      else if (verb !== 'stop') {
        Object.assign(site.env, { SESSION_SECRETS: file('session-secrets'), ENCRYPTION_KEYS: file('encryption-keys') });
        await site.restart();
      }
      return undefined;
    },
  };
  const server = createServer(async (req, res) => {
    const args = (await text(req)).trimEnd().split('\n');
    const standIn = standIns[(req.url ?? '').slice(1)];
    const result = await standIn?.(args).catch((error: unknown) => ({ status: 1, stdout: '', stderr: String(error) }));
    if (result?.status) res.writeHead(500).end(result.stdout + result.stderr);
    else res.end(result?.stdout);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  for (const name of Object.keys(standIns)) {
    const call = `printf '%s\\n' "$@" | curl -sS --fail-with-body --data-binary @- http://127.0.0.1:${port}/${name}`;
    writeFileSync(join(bin, name), `#!/bin/sh\n${call}\n`, { mode: 0o755 });
  }

  return {
    async run(steps, { env = {}, input = '' } = {}) {
      const path = { PATH: `${bin}:${process.env.PATH}` };
      const child = spawn('sh', ['-ec', steps.replaceAll('/etc/gatehouse', folder)], { env: { ...path, ...env } });
      child.stdin.end(input);
      const [stdout, stderr, [status]] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        once(child, 'close'),
      ]);
      return { status, stdout, stderr };
    },
    file,
    async close() {
      await server[Symbol.asyncDispose]();
    },
  };
}
