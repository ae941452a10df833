/** Simulates a slow or failing disk by the flushes of processes that are started with `env`. Needs gcc. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface SlowFlush {
  env: { LD_PRELOAD: string; FLUSH_SETTING: string; FLUSHES_ON_MAIN: string };
  /** Sets the milliseconds that each further flush takes, or `fail`. */
  setFlush(setting: number | 'fail'): void;
  /** The number of flushes on the main threads of all these processes. */
  countMainThreadFlushes(): number;
  dispose(): void;
}

export const missingCompiler = () =>
  process.platform === 'linux' && spawnSync('gcc', ['--version']).status === 0 ? undefined : 'gcc';

export function slowFlush(): SlowFlush {
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-slow-flush-'));
  const library = join(directory, 'slow-flush.so');
  const setting = join(directory, 'setting');
  const mainThreadLog = join(directory, 'on-main');
  const source = new URL('slow-flush.c', import.meta.url).pathname;
  const { status, stderr } = spawnSync('gcc', ['-shared', '-fPIC', '-o', library, source, '-ldl']);
  if (status !== 0) throw new Error(`gcc ended with ${status}: ${stderr}`);
  const set = (value: number | 'fail') => writeFileSync(setting, String(value));
  set(0);
  return {
    env: { LD_PRELOAD: library, FLUSH_SETTING: setting, FLUSHES_ON_MAIN: mainThreadLog },
    setFlush: set,
    countMainThreadFlushes: () => statSync(mainThreadLog, { throwIfNoEntry: false })?.size ?? 0,
    dispose: () => rmSync(directory, { recursive: true }),
  };
}
