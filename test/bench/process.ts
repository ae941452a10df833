/** Starts and ends the processes that are measured, and reads their CPU time and memory. */
import { readFileSync } from 'node:fs';
import { isRunning, type Program, startProgram } from '../support/program.ts';

export interface Measured {
  /** The first line of its output. */
  firstLine: string;
  /** Time from its start until it printed that it is ready. */
  readyMilliseconds: number;
  /** CPU seconds so far (user and system); NaN if the system does not report them. */
  cpuSeconds(): number;
  /** Resident memory in bytes; NaN if the system does not report it. */
  memory(): number;
  stop(): Promise<void>;
  /** Resolves with its standard output. Rejects if it ends with a status other than 0. */
  ended: Promise<string>;
}

const TICKS_PER_SECOND = 100;

/** @param options `ready`: the text that it prints when it is ready. Default: any line */
export async function startProcess(
  file: string,
  options: { args?: string[]; env?: Record<string, string>; ready?: string } = {},
): Promise<Measured> {
  const program = startProgram([process.execPath, file, ...(options.args ?? [])], options.env ?? {});
  const readyMilliseconds = await program.printed(options.ready ?? '\n');
  return measured(program, { name: file, readyMilliseconds });
}

/** @param options `withChildren`: whether to include its current children */
export function measured(
  program: Program,
  options: { name: string; readyMilliseconds: number; withChildren?: boolean },
): Measured {
  const pids = [program.pid, ...(options.withChildren ? program.children() : [])];
  const total = (read: (pid: number) => number) => pids.reduce((sum, pid) => sum + read(pid), 0);
  return {
    firstLine: program.stdout().split('\n')[0] ?? '',
    readyMilliseconds: options.readyMilliseconds,
    cpuSeconds: () => total(cpuSecondsOf),
    memory: () => total(memoryOf),
    get ended() {
      return program.ended.then(({ status }) => {
        if (status === 0) return program.stdout();
        throw new Error(`${options.name} ended with ${status}: ${program.stderr()}`);
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
