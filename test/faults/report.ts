/** What was done to the running processes and what came of it, as a table at the end of a long run. */

export interface FaultReport {
  /** Runs the work and notes whether it went well; `work` answers what is worth telling. */
  run(fault: string, rounds: number, work: () => Promise<string | undefined>): Promise<void>;
  print(title: string): void;
}

/** `npm run faults` sets it: many rounds, and providers as slow as they can be. */
export const LONG = process.env.FAULTS === 'long';

export function createFaultReport(): FaultReport {
  const rows: [fault: string, rounds: string, seconds: string, result: string][] = [];
  return {
    async run(fault, rounds, work) {
      const startedAt = performance.now();
      let result = 'FAILED';
      try {
        const told = await work();
        result = told === undefined ? 'held' : `held: ${told}`;
      } finally {
        rows.push([fault, String(rounds), ((performance.now() - startedAt) / 1000).toFixed(1), result]);
      }
    },
    print(title) {
      if (!LONG) return;
      const all = [['fault', 'rounds', 'seconds', 'result'], ...rows];
      const widths = [0, 1, 2, 3].map((at) => Math.max(...all.map((row) => row[at]?.length ?? 0)));
      const lines = all.map((row) =>
        row
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join('  ')
          .trimEnd(),
      );
      process.stdout.write(`\n${title}\n${lines.join('\n')}\n`);
    },
  };
}
