/** Starts `npm run demo` on free ports. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from './ports.ts';
import { isRunning, type Program, startProgram } from './program.ts';

export const ROOT = join(import.meta.dirname, '..', '..');

export type Demo = Awaited<ReturnType<typeof startDemo>>;

const started: { program: Program; directory: string }[] = [];

export async function startDemo(changes: Record<string, string> = {}) {
  const env = {
    PORT: String(await freePort()),
    MANAGEMENT_PORT: String(await freePort()),
    SANDBOX_PORT: String(await freePort(3)),
    ...changes,
  };
  const program = startProgram(['npm', 'run', 'demo'], env);
  const directory = join(ROOT, 'data', `demo-${env.SANDBOX_PORT}`);
  started.push({ program, directory });
  const url = `http://127.0.0.1:${env.PORT}`;
  return { program, env, url, directory };
}

/** Ends every demo of this file that still runs. */
export async function endDemos(): Promise<void> {
  for (const { program, directory } of started.splice(0)) {
    const pids = isRunning(program.pid) ? [...program.children(), program.pid] : [];
    for (const pid of pids) if (isRunning(pid)) program.signal('SIGKILL', pid);
    await program.ended;
    rmSync(directory, { recursive: true, force: true });
  }
}
