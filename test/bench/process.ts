/** Starts and ends the processes that are measured, and reads their CPU time and memory. */
import { readFileSync } from 'node:fs';
import { isRunning, type Program, startProgram } from '../support/program.ts';

export interface Measured {
  /** What it printed first. */
  firstLine: string;
  /** From its start until it said that it is ready. */
  readyMilliseconds: number;
  /** CPU seconds so far, of user and system; NaN where the system does not tell. */
  cpuSeconds(): number;
  /** What it holds of the machine's memory now, in bytes; NaN where the system does not tell. */
  memory(): number;
  stop(): Promise<void>;
  /** Its standard output. Rejects where it ends with another status than 0. */
  ended: Promise<string>;
}

const TICKS_PER_SECOND = 100;

/** @param options `ready`: what it prints once it can be used; by default its first line is that */
export async function startProcess(
  file: string,
  options: { args?: string[]; env?: Record<string, string>; ready?: string } = {},
): Promise<Measured> {
  const program = startProgram([process.execPath, file, ...(options.args ?? [])], options.env ?? {});
  const readyMilliseconds = await program.printed(options.ready ?? '\n');
  return measured(program, { name: file, readyMilliseconds });
}

/** @param of `withChildren`: those that it has now count with it */
export function measured(
  program: Program,
  of: { name: string; readyMilliseconds: number; withChildren?: boolean },
): Measured {
  const pids = [program.pid, ...(of.withChildren ? program.children() : [])];
  const total = (read: (pid: number) => number) => pids.reduce((sum, pid) => sum + read(pid), 0);
  return {
    firstLine: program.stdout().split('\n')[0] ?? '',
    readyMilliseconds: of.readyMilliseconds,
    cpuSeconds: () => total(cpuSecondsOf),
    memory: () => total(memoryOf),
    get ended() {
      return program.ended.then(({ status }) => {
        if (status === 0) return program.stdout();
        throw new Error(`${of.name} ended with ${status}: ${program.stderr()}`);
      });
    },
    async stop() {
      if (isRunning(program.pid)) program.signal('SIGTERM');
      await program.ended;
    },
  };
}

export const startGatehouseProcess = (env: Record<string, string>): Promise<Measured> =>
  startProcess('src/server.ts', { env, ready: 'Gatehouse is ready' });

/** Fields 14 and 15 of /proc/PID/stat, in ticks. */
function cpuSecondsOf(pid: number): number {
  const fields = readProc(pid, 'stat')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

function memoryOf(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readProc(pid, 'status'))?.[1]) * 1024;
}

function readProc(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}
