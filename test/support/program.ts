/** Starts Gatehouse as a process, through npm or node, and watches its output, its exit and its children. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { killOnExit, processesBelow } from './child-processes.ts';
import { watchOutput, watchSecrets } from './log-watch.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export interface Program {
  pid: number;
  stdout(): string;
  stderr(): string;
  /** Resolves with the milliseconds until standard output contains this text. Rejects if the process ends first. */
  printed(text: string): Promise<number>;
  signal(name: NodeJS.Signals, pid?: number): void;
  ended: Promise<{ status: number | null; signal: NodeJS.Signals | null }>;
  /** Ids of its descendants. */
  children(): number[];
}

/** Inherits only the variables that find programs and cached code. */
export function startProgram(command: string[], env: Record<string, string>, cwd = ROOT): Program {
  const startedAt = performance.now();
  const [file = 'node', ...args] = command;
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE = '' } = process.env;
  const inherited = { PATH, HOME, ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) };
  const child = killOnExit(
    spawn(file, args, { cwd, env: { ...inherited, ...env }, stdio: ['ignore', 'pipe', 'pipe'] }),
  );
  watchSecrets(env);
  let out = '';
  let err = '';
  const watchers = new Set<() => void>();
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
    for (const check of watchers) check();
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const ended = new Promise<{ status: number | null; signal: NodeJS.Signals | null }>((resolve) =>
    child.on('close', (status, signal) => {
      watchOutput(out);
      resolve({ status, signal });
    }),
  );
  const pid = child.pid ?? 0;
  return {
    pid,
    stdout: () => out,
    stderr: () => err,
    printed: (text) =>
      new Promise((resolve, reject) => {
        const check = () => {
          if (!out.includes(text)) return;
          watchers.delete(check);
          resolve(performance.now() - startedAt);
        };
        watchers.add(check);
        check();
        void ended.then(({ status }) =>
          reject(new Error(`The process ended with ${status} before it printed "${text}": ${out}${err}`)),
        );
      }),
    signal: (name, to = pid) => void process.kill(to, name),
    ended,
    children: () => processesBelow(pid),
  };
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

export interface CommandResult {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** Runs `npm run gatehouse -- ARGS` without npm, in a separate process, until it ends. */
export function runCommandProcess(args: string[], env: Record<string, string>): Promise<CommandResult> {
  return runToEnd(['node', 'src/cli.ts', ...args], env);
}

/** Runs a server that must end by itself. */
export function runServer(env: Record<string, string>): Promise<CommandResult> {
  return runToEnd(['node', 'src/server.ts'], env);
}

async function runToEnd(command: string[], env: Record<string, string>): Promise<CommandResult> {
  const program = startProgram(command, env);
  const { status } = await program.ended;
  return { status, stdout: program.stdout(), stderr: program.stderr() };
}
