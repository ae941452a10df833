/** Runs a TypeScript file as a process of its own, and gives its lines as they come. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { killOnExit } from './left-running.ts';

export interface Child {
  /** All lines printed so far. */
  lines: string[];
  /** Resolves with all lines when the process has ended well; rejects with its errors otherwise. */
  ended: Promise<string[]>;
  kill(signal: NodeJS.Signals): void;
  /** Writes a line to its standard input. */
  send(line: string): void;
  endInput(): void;
}

export interface ChildOptions {
  /** The largest file that the process may write, in blocks of the shell's `ulimit -f`: stands in for a full disk. */
  fileSizeBlocks?: number;
  /** In addition to our own environment. */
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
