/** Tables of the faults of running processes and their results, printed after each file of a long run. */

interface FaultRow {
  fault: string;
  rounds: number;
  /** Undefined for a row of a longer run. */
  seconds: number | undefined;
  result: string;
}

export interface FaultReport {
  /** Runs the work and adds its result. `work` returns details for the report. */
  run(fault: string, rounds: number, work: () => Promise<string | undefined>): Promise<void>;
  /** Adds a row for a part of a run. */
  add(fault: string, rounds: number, result: string): void;
  print(title: string): void;
}

/** Set by `npm run faults`: many rounds, and very slow providers. */
export const LONG = process.env.FAULTS === 'long';

export function createFaultReport(): FaultReport {
  const rows: FaultRow[] = [];
  return {
    async run(fault, rounds, work) {
      const startedAt = performance.now();
      const row: FaultRow = { fault, rounds, seconds: undefined, result: 'FAILED' };
      rows.push(row);
      try {
        const details = await work();
        row.result = details === undefined ? 'held' : `held: ${details}`;
      } finally {
        row.seconds = (performance.now() - startedAt) / 1000;
      }
    },
    add: (fault, rounds, result) => void rows.push({ fault, rounds, seconds: undefined, result }),
    print(title) {
      if (!LONG || rows.length === 0) return;
      process.stdout.write(`\n${title}\n${linesOf(rows).join('\n')}\n`);
    },
  };
}

function linesOf(rows: readonly FaultRow[]): string[] {
  const cells = [['fault', 'rounds', 'seconds', 'result'], ...rows.map(cellsOf)];
  const widths = [0, 1, 2, 3].map((column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  return cells.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

const cellsOf = ({ fault, rounds, seconds, result }: FaultRow): string[] => [
  fault,
  String(rounds),
  seconds === undefined ? '' : seconds.toFixed(1),
  result,
];
