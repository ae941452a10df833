/** Runs a TypeScript file as a separate process, and collects the lines that it prints. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { killOnExit } from './child-processes.ts';

export interface Child {
  /** All lines printed so far. */
  lines: string[];
  /** Resolves with all lines if the process ends successfully. Otherwise rejects with its errors. */
  ended: Promise<string[]>;
  kill(signal: NodeJS.Signals): void;
  /** Writes a line to its standard input. */
  send(line: string): void;
  endInput(): void;
}

export interface ChildOptions {
  /** The largest file that the process may write, in blocks of `ulimit -f`. Simulates a full disk. */
  fileSizeBlocks?: number;
  /** Added to the environment of this process. */
  env?: Record<string, string>;
}

/** `file` is relative to this folder. */
export function startChild(file: string, args: readonly string[], { fileSizeBlocks, env }: ChildOptions = {}): Child {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const limit = fileSizeBlocks === undefined ? '' : `ulimit -f ${fileSizeBlocks} && `;
  const child = killOnExit(
    spawn('sh', ['-c', `${limit}exec "$0" "$@"`, process.execPath, path, ...args], {
      env: { ...process.env, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    }),
  );
  const lines: string[] = [];
  let errors = '';
  createInterface(child.stdout).on('line', (line) => lines.push(line));
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const ended = once(child, 'close').then(([status, signal]) => {
    if (status !== 0 && signal !== 'SIGKILL') throw new Error(`${file} ended with ${status ?? signal}: ${errors}`);
    return lines;
  });
  return {
    lines,
    ended,
    kill: (signal) => void child.kill(signal),
    send: (line) => void child.stdin.write(`${line}\n`),
    endInput: () => void child.stdin.end(),
  };
}
