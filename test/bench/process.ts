/** Starts the processes that are measured, and reads what they have spent. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';

export interface Measured {
  /** What it printed first. */
  firstLine: string;
  /** CPU seconds so far, of user and system; undefined where the system does not tell. */
  cpuSeconds(): number | undefined;
  stop(): Promise<void>;
}

const TICKS_PER_SECOND = 100;

export async function startProcess(
  file: string,
  args: string[] = [],
  env: Record<string, string> = {},
): Promise<Measured> {
  const child = spawn(process.execPath, [file, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return {
    firstLine: await firstLineOf(child, file),
    cpuSeconds: () => cpuSecondsOf(child.pid),
    stop: () => new Promise((resolve) => child.once('exit', () => resolve()).kill('SIGTERM')),
  };
}

function firstLineOf(child: ChildProcess, file: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      const [line, rest] = text.split('\n');
      if (line !== undefined && rest !== undefined) resolve(line);
    });
    child.once('exit', (code) => reject(new Error(`${file} ended with ${code}`)));
  });
}

/** Fields 14 and 15 of /proc/PID/stat, in ticks. */
function cpuSecondsOf(pid: number | undefined): number | undefined {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /, '')
      .split(' ');
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
  } catch {
    return undefined;
  }
}
