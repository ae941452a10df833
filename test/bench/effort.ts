/** The input and the result of each part of the benchmark. */
import type { Finding } from './findings.ts';
import type { Summary } from './table.ts';

export interface Effort {
  /** Of each run. */
  seconds: number;
  /** How often each contestant runs; medians of them count. */
  runs: number;
  /** In the storage of the part `admin`. */
  users: number;
}

export interface Outcome {
  /** Tables that were printed. */
  tables: Summary[];
  findings: Finding[];
}

/** Prints as it goes on, since all together takes minutes. */
export const say = (text: string): void => void process.stdout.write(text);
