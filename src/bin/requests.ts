/** Owns what the faces make of a look-up, for browsers and for services alike: one BIN, or up to a thousand in a JSON body. */
import { AppError, PROBLEMS } from '../errors.ts';
import type { LookupAnswer, LookupFound, LookupProblem } from './answer.ts';
import { type Bin, parseBin } from './bin.ts';
import { type BinLookup, MOST_BINS_AT_ONCE } from './lookup.ts';
import type { BinRecord } from './record.ts';

/** The problem of one item of many: what its own request would have been answered with. */
export interface ItemProblem {
  type: string;
  title: string;
  status: number;
  code: string;
}

/** A value that is no BIN is not repeated. */
export type BulkResult =
  | { bin: Bin; record: BinRecord; source: string; asOf: string; digitsMatched: number }
  | { bin?: Bin; problem: ItemProblem };

/** @throws AppError `invalid_bin` (before anything is asked, R85), or what the look-up came to */
export async function lookUpOne(lookup: BinLookup, value: unknown): Promise<LookupFound> {
  const { bin } = parseBin(value);
  if (!bin) throw invalidBin();
  const answer = await lookup.lookUp(bin);
  if (answer.problem !== undefined) throw lookupError(answer);
  return answer;
}

/** Where the record comes from, as the headers of its answer say it. */
export function recordHeaders({ source, asOf, digitsMatched }: LookupFound): Record<string, string> {
  return {
    'Gatehouse-Source': source,
    'Gatehouse-As-Of': asOf,
    'Gatehouse-Digits-Matched': String(digitsMatched),
  };
}

/**
 * Answers `{"bins": [...]}` in the same order, each item by itself.
 * @throws AppError `invalid_request` for another body
 */
export async function lookUpBody(
  lookup: BinLookup,
  body: unknown,
  publicHref: string,
): Promise<{ results: BulkResult[] }> {
  const parsed = binsOf(body).map((value) => parseBin(value).bin);
  const answers = await lookup.lookUpMany(parsed.filter((bin) => bin !== undefined));
  const problems = createProblems(publicHref);
  let next = 0;
  const results = parsed.map((bin) => {
    const answer = bin === undefined ? undefined : answers[next++];
    return bin === undefined || !answer ? { problem: problems('invalid_bin') } : resultOf(bin, answer, problems);
  });
  return { results };
}

export function invalidBin(): AppError {
  return new AppError('invalid_bin', { detail: 'Give the first 6 to 8 digits of a card number, and nothing else.' });
}

export function lookupError({ problem, retryAfterSeconds }: LookupProblem): AppError {
  return new AppError(problem, retryAfterSeconds === undefined ? {} : { retryAfterSeconds });
}

function binsOf(body: unknown): unknown[] {
  const bins = typeof body === 'object' && body !== null && 'bins' in body ? body.bins : undefined;
  if (Array.isArray(bins) && bins.length >= 1 && bins.length <= MOST_BINS_AT_ONCE) return bins;
  throw new AppError('invalid_request', { detail: `Send {"bins": [...]} with 1 to ${MOST_BINS_AT_ONCE} BINs.` });
}

type Problems = (code: LookupProblem['problem'] | 'invalid_bin') => ItemProblem;

function createProblems(publicHref: string): Problems {
  return (code) => {
    const { status, title } = PROBLEMS[code];
    return { type: `${publicHref}/problems/${code}`, title, status, code };
  };
}

function resultOf(bin: Bin, answer: LookupAnswer, problems: Problems): BulkResult {
  if (answer.problem !== undefined) return { bin, problem: problems(answer.problem) };
  const { record, source, asOf, digitsMatched } = answer;
  return { bin, record, source, asOf, digitsMatched };
}
