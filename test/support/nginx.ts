/** Starts an nginx in a temporary folder, with a server from a document. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { killOnExit } from './child-processes.ts';

export const missingNginx = spawnSync('nginx', ['-v']).status === 0 ? undefined : 'nginx';

export interface Nginx {
  /** Stops it and returns the text of all its logs. */
  stop(): Promise<string>;
  /** Reloads the settings, which closes idle connections. */
  reload(): void;
}

/**
 * @param settings the content of the block `http`, with paths relative to the folder of `files`, which also replaces
 * /var/log/nginx
 * @param isUp whether it accepts connections
 */
export async function startNginx(
  settings: string,
  isUp: () => Promise<boolean>,
  files: Record<string, string> = {},
): Promise<Nginx> {
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-nginx-'));
  for (const name of ['logs', 'temp']) mkdirSync(join(directory, name));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text, { mode: 0o600 });
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path temp/${name};`);
  writeFileSync(
    join(directory, 'nginx.conf'),
    `pid nginx.pid; error_log logs/error.log; daemon off; events {}
http { access_log logs/access.log; ${paths.join(' ')} ${settings.replaceAll('/var/log/nginx/', 'logs/')} }`,
  );
  const nginx = killOnExit(spawn('nginx', ['-p', directory, '-c', 'nginx.conf'], { stdio: 'ignore' }));
  const ended = once(nginx, 'exit');
  const stop = async () => {
    nginx.kill('SIGQUIT');
    await ended;
    const logs = join(directory, 'logs');
    const text = readdirSync(logs).map((name) => readFileSync(join(logs, name), 'utf8'));
    rmSync(directory, { recursive: true, force: true });
    return text.join('');
  };
  while (!(await isUp().catch(() => false))) {
    if (nginx.exitCode !== null) {
      rmSync(directory, { recursive: true, force: true });
      throw new Error('nginx refuses these settings.');
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return { stop, reload: () => void nginx.kill('SIGHUP') };
}
