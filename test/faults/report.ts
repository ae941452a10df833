/** What was done to the running processes and what came of it, as tables: printed after a long run, and left for `docs/reliability.md`. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';

export interface FaultRow {
  fault: string;
  rounds: number;
  /** Undefined for what was one of many in a longer run. */
  seconds: number | undefined;
  result: string;
}

export interface FaultTable {
  /** Of the tests that tell this, as an absolute path. */
  file: string;
  title: string;
  rows: FaultRow[];
}

export interface FaultReport {
  /** Runs the work and notes whether it went well; `work` answers what is worth telling. */
  run(fault: string, rounds: number, work: () => Promise<string | undefined>): Promise<void>;
  /** Notes what was no run of its own. */
  add(fault: string, rounds: number, result: string): void;
  print(title: string): void;
}

/** `npm run faults` sets it: many rounds, and providers as slow as they can be. */
export const LONG = process.env.FAULTS === 'long';

/** Names the folder in which the processes of one run leave their tables. */
const FOLDER = 'FAULT_TABLES';

/** To be called before the processes of a run are started. */
export function openTables(): void {
  process.env[FOLDER] = mkdtempSync(join(tmpdir(), 'gatehouse-fault-tables-'));
}

/** Those of one file of tests, by title. @param file as an absolute path */
export function tablesOf(file: string): Omit<FaultTable, 'file'>[] {
  const folder = process.env[FOLDER];
  if (folder === undefined) return [];
  return readdirSync(folder)
    .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as FaultTable)
    .filter((table) => table.file === file)
    .map(({ title, rows }) => ({ title, rows }))
    .sort((one, other) => one.title.localeCompare(other.title));
}

/** To be called after the run. */
export function closeTables(): void {
  const folder = process.env[FOLDER];
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
}

export function createFaultReport(): FaultReport {
  const rows: FaultRow[] = [];
  return {
    async run(fault, rounds, work) {
      const startedAt = performance.now();
      const row: FaultRow = { fault, rounds, seconds: undefined, result: 'FAILED' };
      rows.push(row);
      try {
        const told = await work();
        row.result = told === undefined ? 'held' : `held: ${told}`;
      } finally {
        row.seconds = (performance.now() - startedAt) / 1000;
      }
    },
    add: (fault, rounds, result) => void rows.push({ fault, rounds, seconds: undefined, result }),
    print(title) {
      const folder = process.env[FOLDER];
      if (!LONG || rows.length === 0) return;
      if (folder !== undefined) {
        const name = `${title.replace(/\W+/g, '-')}-${process.pid}.json`;
        const { testPath: file = '' } = expect.getState();
        writeFileSync(join(folder, name), JSON.stringify({ file, title, rows } satisfies FaultTable));
      }
      process.stdout.write(`\n${title}\n${linesOf(rows).join('\n')}\n`);
    },
  };
}

function linesOf(rows: readonly FaultRow[]): string[] {
  const cells = [['fault', 'rounds', 'seconds', 'result'], ...rows.map(cellsOf)];
  const widths = [0, 1, 2, 3].map((at) => Math.max(...cells.map((row) => row[at]?.length ?? 0)));
  return cells.map((row) =>
    row
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

export const cellsOf = ({ fault, rounds, seconds, result }: FaultRow): string[] => [
  ...[fault, String(rounds), seconds === undefined ? '' : seconds.toFixed(1), result],
];
