/** Lookups by HTTP request, for browsers and services: one BIN, or up to a thousand in a JSON body. */
import { z } from 'zod';
import {
  type BinBudget,
  type LookupFound,
  type LookupProblem,
  type LookupResult,
  sourceSchema,
} from '../../shared/bin/lookup-result.ts';
import { type Bin, parseBin } from '../../shared/bin/parse-bin.ts';
import { recordSchema } from '../../shared/bin/record.ts';
import { AppError, PROBLEMS } from '../../shared/errors.ts';
import { isObject } from '../../shared/json.ts';
import { type BinLookup, MAX_BULK_BINS } from './lookup.ts';
import type { BinCaller } from './quota.ts';

/** The problem of one item of a bulk request, as a request for that item alone would get it. */
const itemProblemSchema = z.object({
  type: z.url(),
  title: z.string(),
  status: z.int(),
  code: z.enum(['invalid_bin', 'bin_not_found', 'bin_quota_exhausted', 'bin_service_unavailable']),
  detail: z.string().optional(),
  retryAfterSeconds: z.int().optional(),
});
type ItemProblem = z.output<typeof itemProblemSchema>;

const resultSchema = z.union([
  z.object({
    bin: z.string(),
    record: recordSchema,
    source: sourceSchema,
    asOf: z.iso.date(),
    digitsMatched: z.int(),
    outdated: z.boolean().exactOptional().describe('true: the facts are more than two years old'),
    testData: z.boolean().exactOptional().describe('true: a test card of a payment provider'),
    retryAfterSeconds: z
      .int()
      .exactOptional()
      .describe('the BIN lookup service could not be called; after this time it may have more facts'),
  }),
  z.object({
    bin: z.string().optional().describe('left out for a value that is not a BIN'),
    problem: itemProblemSchema,
  }),
]);

export const resultsSchema = z.object({ results: z.array(resultSchema).describe('in the order of the request') });

/** Accepts any type, so that a value that is not a BIN gets a problem in its item. */
const binItem = z.unknown().meta({ type: 'string', description: 'the first 6 to 8 digits of a card' });
export const batchSchema = z.strictObject({ bins: z.array(binItem).min(1).max(MAX_BULK_BINS) });

/** @throws AppError `invalid_bin` (before any source is used, R85), or the problem of the lookup */
export async function lookUpOne(lookup: BinLookup, value: unknown, caller: BinCaller): Promise<LookupFound> {
  const { bin } = parseBin(value);
  if (!bin) throw invalidBin();
  const result = await lookup.lookUp(bin, caller);
  if (result.problem !== undefined) throw lookupError(result);
  return result;
}

/**
 * Looks up the items of `{"bins": [...]}`. Results are in the same order; each has its own record or problem.
 * @throws AppError `invalid_request` for another body
 */
export async function lookUpBody(
  lookup: BinLookup,
  body: unknown,
  caller: BinCaller,
  publicHref: string,
): Promise<z.output<typeof resultsSchema>> {
  const parsed = binsOf(body).map((value) => parseBin(value).bin);
  const lookupResults = await lookup.lookUpMany(
    parsed.filter((bin) => bin !== undefined),
    caller,
  );
  const toItemProblem = itemProblems(publicHref);
  let next = 0;
  const results = parsed.map((bin) => {
    const result = bin === undefined ? undefined : lookupResults[next++];
    return bin === undefined || !result
      ? { problem: toItemProblem({ problem: 'invalid_bin' }) }
      : resultOf(bin, result, toItemProblem);
  });
  return { results };
}

export function invalidBin(): AppError {
  return new AppError('invalid_bin', { detail: 'Enter the first 6 to 8 digits of a card number, and nothing else.' });
}

export function lookupError({ problem, retryAfterSeconds, spent }: LookupProblem): AppError {
  return new AppError(problem, {
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    ...(spent && { detail: SPENT_DETAIL[spent] }),
  });
}

const SPENT_DETAIL: Readonly<Record<BinBudget, string>> = {
  user: 'You have used up your lookups at the BIN lookup service for today (UTC). Try again tomorrow.',
  relay_token:
    'This relay token has used up its calls to the BIN lookup service for this month (UTC). Ask an administrator for more.',
  unreserved:
    'The rest of this month’s calls to the BIN lookup service is reserved for users. Try again next month (UTC).',
  month: 'This month’s calls to the BIN lookup service are used up. Try again next month (UTC).',
};

function binsOf(body: unknown): unknown[] {
  // A page also sends the CSRF token, which the guard has already checked.
  const { _csrf, ...members } = isObject(body) ? body : {};
  const batch = batchSchema.safeParse(members);
  if (batch.success) return batch.data.bins;
  throw new AppError('invalid_request', { detail: `Send {"bins": [...]} with 1 to ${MAX_BULK_BINS} BINs.` });
}

type ToItemProblem = (problem: LookupProblem | { problem: 'invalid_bin' }) => ItemProblem;

function itemProblems(publicHref: string): ToItemProblem {
  return (item) => {
    const { status, title } = PROBLEMS[item.problem];
    const problem = { type: `${publicHref}/problems/${item.problem}`, title, status, code: item.problem };
    if (item.problem === 'invalid_bin') return problem;
    const { detail, retryAfterSeconds } = lookupError(item);
    return { ...problem, detail, retryAfterSeconds };
  };
}

function resultOf(bin: Bin, result: LookupResult, toItemProblem: ToItemProblem): z.output<typeof resultSchema> {
  if (result.problem !== undefined) return { bin, problem: toItemProblem(result) };
  const { record, source, asOf, digitsMatched, outdated, testData, serviceProblem } = result;
  return {
    bin,
    record,
    source,
    asOf,
    digitsMatched,
    ...(outdated && { outdated }),
    ...(testData && { testData }),
    ...(serviceProblem?.retryAfterSeconds !== undefined && { retryAfterSeconds: serviceProblem.retryAfterSeconds }),
  };
}
