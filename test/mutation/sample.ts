/** Chooses a sample of the mutants by a hash of each, so that every run of the same source has the same sample. */
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
export const FROM = 'MUTATION_FROM';
export const AGAIN = 'MUTATION_AGAIN';

export function nameOf({ file, start, end, mutator, replacement }: Mutant): string {
  const place = [start, end].map(({ line, column }) => `${line}:${column}`).join('-');
  return JSON.stringify([file.slice(file.lastIndexOf('src/')), place, mutator, replacement]);
}

/**
 * @param percent of all mutants
 * @param from how many percent are passed over first: a sample from where another one ends shares no mutant with it
 */
export function isInSample(mutant: Mutant, percent: number, from = 0): boolean {
  const place = (createHash('sha256').update(nameOf(mutant)).digest().readUInt32BE() / 2 ** 32) * 100;
  return from <= place && place < from + percent;
}

/** @param env of the process that was started for a run: a share, or a file that names some mutants */
export function chosenBy(env: NodeJS.ProcessEnv): (mutant: Mutant) => boolean {
  const file = env[AGAIN];
  if (file === undefined || !existsSync(file)) {
    return (mutant) => isInSample(mutant, Number(env[SAMPLE]), Number(env[FROM] ?? 0));
  }
  const named = new Set(JSON.parse(readFileSync(file, 'utf8')) as string[]);
  return (mutant) => named.has(nameOf(mutant));
}
