/** Writes `docs/reliability.md`: the results of a long run of the fault tests, after each file, so that a run can be resumed. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import type { Reporter, TestModule, TestResult } from 'vitest/node';
import { cellsOf, closeTables, type FaultTable, tablesOf } from './report.ts';

/** `failure`: the first line of what a failed test says. */
export type Tried = { name: string; state: 'passed' | 'failed' | 'skipped' | 'pending'; failure?: string };

/** What one file of tests showed when it was run last. */
export interface FileFacts {
  /** ISO 8601 date. */
  ranOn: string;
  /** The commit that was tested; see `currentCommit`. */
  commit: string;
  tests: readonly Tried[];
  tables: readonly Omit<FaultTable, 'file'>[];
}

export interface RunFacts {
  cores: number;
  node: string;
  system: string;
  /** By path below the root. */
  files: Readonly<Record<string, FileFacts>>;
}

/** Numbers of the table of faults, each with what the fault is. */
export type Faults = readonly { number: string; what: string }[];

const ROOT = join(import.meta.dirname, '..', '..');
const PROMISES = 'docs/security.md';
const DOCUMENT = 'docs/reliability.md';
const RESULTS = 'test/faults/results.json';

/** What a fault test runs or reads, without what runs leave behind. */
const TESTED = [
  ...['src', 'views', 'test', 'package.json', 'package-lock.json', 'Dockerfile', 'compose.yaml', 'docs'],
  ...[':!test/**/results.json', `:!${DOCUMENT}`, ':!docs/performance.md', ':!docs/bench.svg'],
];

/**
 * The first characters of the id of the last commit that changed what is tested, so that a run is resumed also after its results
 * were committed. With a `+` where the working tree differs.
 */
export function currentCommit(): string {
  const git = (...args: string[]) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();
  const changed = git('status', '--porcelain', '--', ...TESTED);
  return git('log', '-1', '--format=%h', '--abbrev=10', '--', ...TESTED) + (changed === '' ? '' : '+');
}

const resultsSoFar = (): RunFacts['files'] => (existsSync(join(ROOT, RESULTS)) ? JSON.parse(read(RESULTS)).files : {});

/** Files of which each test passed, or was left out, in a run of this commit. */
export function filesThatHeld(commit: string): Set<string> {
  const held = Object.entries(resultsSoFar()).filter(
    ([, facts]) => facts.commit === commit && !commit.endsWith('+') && !facts.tests.some(isOpen),
  );
  return new Set(held.map(([path]) => path));
}

const isOpen = ({ state }: Tried) => state === 'failed' || state === 'pending';

/** Loaded by the configuration of the long run alone. What was not run this time keeps what it showed the last time. */
export default class ReliabilityReporter implements Reporter {
  readonly #commit = currentCommit();

  onTestModuleEnd(module: TestModule): void {
    const facts = {
      ranOn: new Date().toISOString().slice(0, 10),
      commit: this.#commit,
      tests: [...module.children.allTests()].map((test) => triedOf(test.fullName, test.result())),
      tables: tablesOf(module.moduleId),
    };
    write(updated(resultsSoFar(), [[relative(ROOT, module.moduleId), facts]]));
  }

  onTestRunEnd(): void {
    closeTables();
    write(updated(resultsSoFar(), []));
    process.stdout.write(`${DOCUMENT} is written.\n`);
  }
}

function triedOf(name: string, { state, errors = [] }: TestResult): Tried {
  const [failure] = errors.map(({ message }) => message.split('\n', 1)[0]);
  return { name, state, ...(failure && { failure }) };
}

function write(files: RunFacts['files']): void {
  const facts: RunFacts = {
    ...{ cores: availableParallelism(), node: process.version, system: `${process.platform} ${process.arch}` },
    files,
  };
  writeFileSync(join(ROOT, RESULTS), `${JSON.stringify(facts, null, 1)}\n`);
  writeFileSync(join(ROOT, DOCUMENT), reliabilityText(facts, faultsOf(read(PROMISES))));
}

/** Files that are gone have shown nothing; a test that was left out this time does not hide what its file showed before. */
function updated(before: RunFacts['files'], now: [string, FileFacts][]): RunFacts['files'] {
  const ran = now.filter(([, { tests }]) => tests.some(({ state }) => state === 'passed' || state === 'failed'));
  const all = { ...before, ...Object.fromEntries(ran) };
  return Object.fromEntries(
    Object.entries(all)
      .filter(([path]) => existsSync(join(ROOT, path)))
      .sort(([one], [other]) => one.localeCompare(other)),
  );
}

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

export function faultsOf(promises: string): Faults {
  return [...promises.matchAll(/^\| (F\d+) \|[^|]*\| ([^|]*) \|/gm)].map(([, number = '', what = '']) => ({
    number,
    what: what.trim(),
  }));
}

export function reliabilityText(facts: RunFacts, faults: Faults): string {
  const files = Object.values(facts.files);
  const [tests, tables] = [files.flatMap((file) => file.tests), files.flatMap((file) => file.tables)];
  const days = [...new Set(files.map(({ ranOn }) => ranOn))].sort();
  const commits = [...new Set(files.map(({ commit }) => commit))];
  const count = (state: string) => tests.filter((test) => test.state === state).length;
  const failed = tests.filter(({ state }) => state === 'failed').map(inWords);
  const verdict =
    failed.length === 0
      ? 'Everything that was tried held.'
      : `**${failed.length} did not hold**, so this is a report of something to mend:\n\n${listOf(failed)}`;
  return `# Reliability

What was done to running Gatehouse processes, and what came of it. \`npm run faults\` makes this report, and nothing here is
written by hand: processes are killed, stopped and starved, storages are killed, frozen, filled and emptied, the provider, the
platform and the BIN lookup service lie, stall and hang up, and random requests go to every route, while the tests watch that
no user gets a wrong response or that of another user, that no acknowledged write is lost, and that everything works again afterwards.
What is promised for each fault stands in [security.md](security.md).

Run on ${days.join(', ')}, ${commits.length === 1 ? 'commit' : 'commits'} ${commits.join(', ')}, Node ${facts.node.replace(/^v/, '')}, ${facts.cores} cores, ${facts.system}: ${count('passed')} tests passed, ${count('failed')} failed, ${count('skipped')} skipped. ${verdict}

## The faults

| | fault | tests | result |
| --- | --- | ---: | --- |
${faults.map((fault) => faultLine(fault, tests)).join('\n')}

${[...tables]
  .sort((one, other) => one.title.localeCompare(other.title))
  .map(tableText)
  .join('\n')}`;
}

function faultLine({ number, what }: Faults[number], tests: readonly Tried[]): string {
  // A heading such as "F1 to F22" is none of its tests.
  const own = tests.filter(({ name }) => new RegExp(`\\b${number}\\b`).test(name.replaceAll(/\bF\d+ to F\d+\b/g, '')));
  const done = own.filter(({ state }) => state === 'passed' || state === 'failed');
  const failures = done.filter(({ state }) => state === 'failed').length;
  const result = failures > 0 ? `${failures} FAILED` : done.length > 0 ? 'held' : 'not tried';
  return rowText([number, what, String(done.length), result]);
}

function tableText({ title, rows }: Omit<FaultTable, 'file'>): string {
  const lines = rows.map((row) => rowText(cellsOf(row)));
  return `## ${title}\n\n| what was done | rounds | seconds | result |\n| --- | ---: | ---: | --- |\n${lines.join('\n')}\n`;
}

const inWords = ({ name, failure }: Tried) => (failure === undefined ? name : `${name}: ${failure}`);
const rowText = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
const listOf = (names: readonly string[]) => names.map((name) => `- ${name}`).join('\n');
