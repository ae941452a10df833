/** Starts a Caddy in a temporary folder, with a site from a document. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { killOnExit } from './child-processes.ts';

export const missingCaddy = spawnSync('caddy', ['version']).status === 0 ? undefined : 'caddy';

export interface Caddy {
  stop(): Promise<void>;
}

/** @param sites the sites of a Caddyfile; @param isUp whether it accepts connections */
export async function startCaddy(sites: string, isUp: () => Promise<boolean>): Promise<Caddy> {
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-caddy-'));
  const file = join(directory, 'Caddyfile');
  writeFileSync(file, `{\n  admin off\n  auto_https off\n}\n${sites}`);
  const env = { ...process.env, HOME: directory, XDG_DATA_HOME: directory, XDG_CONFIG_HOME: directory };
  const options = ['run', '--config', file, '--adapter', 'caddyfile'];
  const caddy = killOnExit(spawn('caddy', options, { env, stdio: ['ignore', 'ignore', 'pipe'] }));
  let log = '';
  caddy.stderr.on('data', (text: Buffer) => {
    log += text;
  });
  const ended = once(caddy, 'close');
  const stop = async () => {
    caddy.kill('SIGKILL');
    await ended;
    rmSync(directory, { recursive: true, force: true });
  };
  while (!(await isUp().catch(() => false))) {
    if (caddy.exitCode !== null) {
      await stop();
      throw new Error(`Caddy refuses these settings: ${log}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return { stop };
}
