/** Starts an HAProxy in a temporary folder, with settings from a document. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { killOnExit } from './child-processes.ts';

export interface DocumentedHaproxy {
  /** Its log so far. */
  log(): string;
  stop(): Promise<void>;
}

/** @param settings a whole file, which logs to standard output; @param isUp whether it accepts connections */
export async function startDocumentedHaproxy(
  settings: string,
  isUp: () => Promise<boolean>,
): Promise<DocumentedHaproxy> {
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-haproxy-'));
  const file = join(directory, 'haproxy.cfg');
  writeFileSync(file, settings, { mode: 0o600 });
  const haproxy = killOnExit(spawn('haproxy', ['-db', '-f', file], { stdio: ['ignore', 'pipe', 'pipe'] }));
  let log = '';
  let errors = '';
  haproxy.stdout.on('data', (text: Buffer) => {
    log += text;
  });
  haproxy.stderr.on('data', (text: Buffer) => {
    errors += text;
  });
  const ended = once(haproxy, 'close');
  const stop = async () => {
    haproxy.kill('SIGTERM');
    await ended;
    rmSync(directory, { recursive: true, force: true });
  };
  while (!(await isUp().catch(() => false))) {
    if (haproxy.exitCode !== null) {
      await stop();
      throw new Error(`HAProxy refuses these settings: ${errors}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return { log: () => log, stop };
}
