/** Medians of the rounds, ratios to the first contestant of the same round, and the table of them. */
import { median } from './load.ts';

/** The figures of one contestant in one round. */
export interface Figures {
  requestsPerSecond: number;
  /** Milliseconds, like `p99`. */
  p50: number;
  p99: number;
  /** CPU seconds of the server per 1,000 requests; NaN if the system does not report them. */
  cpuPer1000: number;
  /** Memory of the server after the round, in bytes. */
  memory: number;
}

export interface Summary extends Figures {
  name: string;
  connections: number;
  /** Requests per second relative to the first contestant: median, minimum and maximum of the rounds. */
  ratio: number;
  least: number;
  most: number;
  /** The 99th percentile relative to the first contestant's, median of the rounds. */
  p99Ratio: number;
  /** The first contestant's CPU time per request relative to this one's. */
  cpuRatio: number;
  /** Redis commands per request; absent without Redis. */
  commands?: number | undefined;
}

export function summary(of: { name: string; connections: number }, rounds: Figures[], first: Figures[]): Summary {
  const medianOf = (key: keyof Figures) => median(rounds.map((round) => round[key]));
  /** Compares each round with the same round of the first contestant. */
  const compareRounds = (ratio: (own: Figures, reference: Figures) => number) =>
    rounds.flatMap((own, round) => (first[round] ? [ratio(own, first[round])] : []));
  const ratios = compareRounds((own, reference) => own.requestsPerSecond / reference.requestsPerSecond);
  return {
    ...of,
    requestsPerSecond: medianOf('requestsPerSecond'),
    p50: medianOf('p50'),
    p99: medianOf('p99'),
    cpuPer1000: medianOf('cpuPer1000'),
    memory: medianOf('memory'),
    ratio: median(ratios),
    least: Math.min(...ratios),
    most: Math.max(...ratios),
    p99Ratio: median(compareRounds((own, reference) => own.p99 / reference.p99)),
    cpuRatio: median(compareRounds((own, reference) => reference.cpuPer1000 / own.cpuPer1000)),
  };
}

const HEAD = ['', 'req/s', 'ratio', 'from - to', 'p50 ms', 'p99 ms', 'CPU s / 1,000', 'CPU ratio', 'MB', 'commands'];

export function table(title: string, rows: readonly Summary[]): string {
  const lines = rows.map((row) => [
    row.name,
    row.requestsPerSecond.toFixed(0),
    row.ratio.toFixed(2),
    `${row.least.toFixed(2)} - ${row.most.toFixed(2)}`,
    row.p50.toFixed(1),
    row.p99.toFixed(1),
    row.cpuPer1000.toFixed(3),
    row.cpuRatio.toFixed(2),
    (row.memory / 1e6).toFixed(0),
    row.commands === undefined ? '' : row.commands.toFixed(1),
  ]);
  const widths = HEAD.map((name, column) => Math.max(name.length, ...lines.map((line) => line[column]?.length ?? 0)));
  const text = [HEAD, ...lines].map((line) =>
    line
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return column === 0 ? cell.padEnd(width) : cell.padStart(width);
      })
      .join('  '),
  );
  return `\n${title}\n${text.map((line) => line.trimEnd()).join('\n')}\n`;
}
