/** Reads Stryker's report, keeps the results of each room, counts them, and prints them. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Mutant, nameOf } from './sample.ts';

const here = import.meta.dirname;
const REPORTS = join(here, 'reports');
const RESULTS = join(here, 'results.json');

/** As Stryker calls them; "Ignored" are those that are reached outside of tests alone: at load, or while a server starts. */
type Status = 'Killed' | 'Timeout' | 'Survived' | 'NoCoverage' | 'Ignored' | 'RuntimeError' | 'CompileError';

export interface Tried extends Mutant {
  status: Status;
  /** What stands there in the source, for who reads of a survivor. */
  original: string;
}

export interface Figures {
  mutants: number;
  killed: number;
  timedOut: number;
  survived: number;
  noCoverage: number;
  notTried: number;
  failed: number;
  /** In percent: killed and timed out, of all that were tried or have no test that reaches them. */
  score: number;
}

interface StrykerReport {
  files: Record<
    string,
    {
      source: string;
      mutants: {
        location: Pick<Mutant, 'start' | 'end'>;
        mutatorName: string;
        replacement: string;
        status: Status;
      }[];
    }
  >;
}

/** Of the run that has just ended: the mutants that were chosen for it. */
export function readTried(isChosen: (mutant: Mutant) => boolean): Tried[] {
  const { files } = JSON.parse(readFileSync(join(REPORTS, 'stryker.json'), 'utf8')) as StrykerReport;
  return Object.entries(files).flatMap(([file, { source, mutants }]) => {
    const lines = source.split('\n');
    return mutants
      .map(({ location, mutatorName: mutator, replacement, status }) => {
        const [start, end] = [fromNought(location.start), fromNought(location.end)];
        return { file, start, end, mutator, replacement, status, original: cut(lines, start, end) };
      })
      .filter(isChosen);
  });
}

/** In percent of all mutants of a room. */
interface Part {
  sample: number;
  from: number;
}

/** @returns everything that is known of the room: what was tried now, in place of what was known of the same mutants */
export function keep(room: string, part: Part, tried: Tried[], isAgain: boolean): Tried[] {
  mkdirSync(REPORTS, { recursive: true });
  const now = new Map(tried.map((mutant) => [nameOf(mutant), mutant]));
  const known = isAgain ? lastOf(room).map((mutant) => now.get(nameOf(mutant)) ?? mutant) : tried;
  writeFileSync(fileOf(room), `${JSON.stringify(known, null, 1)}\n`);
  const results = existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, 'utf8')) : {};
  const { samplePercent, fromPercent } = isAgain
    ? (results[room] ?? {})
    : { samplePercent: part.sample, fromPercent: part.from || undefined };
  const measuredAt = new Date().toISOString().slice(0, 10);
  const entry = { measuredAt, samplePercent, fromPercent, ...count(known) };
  writeFileSync(RESULTS, `${JSON.stringify({ ...results, [room]: entry }, null, 2)}\n`);
  return known;
}

export function lastOf(room: string): Tried[] {
  return existsSync(fileOf(room)) ? (JSON.parse(readFileSync(fileOf(room), 'utf8')) as Tried[]) : [];
}

/** @returns the file that tells Stryker's processes which mutants are tried once more */
export function keepForAgain(names: readonly string[]): string {
  const file = join(REPORTS, 'again.json');
  mkdirSync(REPORTS, { recursive: true });
  writeFileSync(file, JSON.stringify(names));
  return file;
}

export function isAlive({ status }: Tried): boolean {
  return status === 'Survived' || status === 'NoCoverage';
}

/** Also those that were not tried, because no single test reaches them. */
export function isOpen(mutant: Tried): boolean {
  return isAlive(mutant) || mutant.status === 'Ignored';
}

export function count(tried: readonly Tried[]): Figures {
  const of = (...statuses: Status[]) => tried.filter(({ status }) => statuses.includes(status)).length;
  const [dead, alive] = [of('Killed', 'Timeout'), of('Survived', 'NoCoverage')];
  return {
    mutants: tried.length,
    killed: of('Killed'),
    timedOut: of('Timeout'),
    survived: of('Survived'),
    noCoverage: of('NoCoverage'),
    notTried: of('Ignored'),
    failed: of('RuntimeError', 'CompileError'),
    score: Math.round((1000 * dead) / Math.max(1, dead + alive)) / 10,
  };
}

export function inWords({ mutants, killed, timedOut, survived, noCoverage, notTried, failed, score }: Figures): string {
  const tried = `${killed} killed, ${timedOut} timed out, ${survived} survived, ${noCoverage} without a test`;
  return `${score} % of ${mutants - notTried - failed} (${tried}); beside them ${notTried} not tried, ${failed} failed`;
}

export function told(mutant: Tried): string {
  const { file, start, mutator, status, original, replacement } = mutant;
  return `${file}:${start.line + 1}:${start.column + 1} ${status} (${mutator})\n  - ${short(original)}\n  + ${short(replacement)}`;
}

function fileOf(room: string): string {
  return join(REPORTS, `${room}.json`);
}

/** Stryker reports lines and columns from one on, and gives its runners those from nought on. */
function fromNought({ line, column }: Mutant['start']): Mutant['start'] {
  return { line: line - 1, column: column - 1 };
}

function cut(lines: readonly string[], start: Mutant['start'], end: Mutant['end']): string {
  const whole = lines.slice(start.line, end.line + 1);
  const last = whole.length - 1;
  return whole
    .map((line, index) => line.slice(index === 0 ? start.column : 0, index === last ? end.column : undefined))
    .join('\n');
}

function short(text: string): string {
  const line = text.replace(/\s+/g, ' ');
  return line.length > 160 ? `${line.slice(0, 160)}…` : line;
}
