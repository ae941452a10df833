/** Owns which mutants are tried: a share of them by a hash of what they are, so that each run of the same source takes the same ones. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';

export interface Mutant {
  /** From the root of the project, or absolute. */
  file: string;
  /** Lines and columns from nought on. */
  start: { line: number; column: number };
  end: { line: number; column: number };
  mutator: string;
  replacement: string;
}

/** What tells the runner's process, which Stryker starts, what the command was asked for. */
export const SAMPLE = 'MUTATION_SAMPLE';
export const AGAIN = 'MUTATION_AGAIN';

export function nameOf({ file, start, end, mutator, replacement }: Mutant): string {
  const place = [start, end].map(({ line, column }) => `${line}:${column}`).join('-');
  return JSON.stringify([file.slice(file.lastIndexOf('src/')), place, mutator, replacement]);
}

/** @param percent of all mutants */
export function isInSample(mutant: Mutant, percent: number): boolean {
  return createHash('sha256').update(nameOf(mutant)).digest().readUInt32BE() / 2 ** 32 < percent / 100;
}

/** @param env of the process that was started for a run: a share, or a file that names some mutants */
export function chosenBy(env: NodeJS.ProcessEnv): (mutant: Mutant) => boolean {
  const file = env[AGAIN];
  if (file === undefined || !existsSync(file)) return (mutant) => isInSample(mutant, Number(env[SAMPLE]));
  const named = new Set(JSON.parse(readFileSync(file, 'utf8')) as string[]);
  return (mutant) => named.has(nameOf(mutant));
}
