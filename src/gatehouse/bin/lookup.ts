/** Looks up BINs in the sources in order: imported data set, remote service, built-in data set, network rules. */

import type { Dataset } from '../../shared/bin/dataset.ts';
import { findInDataset, findLocalFacts } from '../../shared/bin/local-facts.ts';
import {
  type LookupFound,
  type LookupProblem,
  type LookupResult,
  type LookupSource,
  withAge,
} from '../../shared/bin/lookup-result.ts';
import type { Bin } from '../../shared/bin/parse-bin.ts';
import { AppError } from '../../shared/errors.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { BinClient } from './bin-client.ts';
import type { BinCaller, BinQuota } from './quota.ts';
import { createServiceSource, type FindAtService, type RemoteEvents, type ServiceResult } from './service-source.ts';

/** `bin_user_quota_exhausted`: only the budget of the user is used up. */
export type LookupOutcome = LookupSource | LookupProblem['problem'] | 'bin_user_quota_exhausted';

/** For metrics and logs. Events never contain digits of a BIN. */
export interface LookupEvents extends RemoteEvents {
  /** Called for each lookup; for a bulk lookup once per outcome, with the number of distinct BINs. */
  lookedUp?(outcome: LookupOutcome, count: number): void;
}

export interface BinLookupParts {
  /** The imported data set in use. */
  imported?: (() => Dataset | undefined) | undefined;
  /** Returns the built-in data set. Not called if a match of all digits is found elsewhere. */
  builtIn: () => Dataset;
  client?: BinClient | undefined;
  /** If undefined, calls are not limited. */
  quota?: BinQuota | undefined;
  store: Store;
  /** Milliseconds since the epoch. */
  clock: () => number;
  events?: LookupEvents | undefined;
}

export interface BinLookup {
  /**
   * Rejects only if the store fails (`storage_unavailable`). Concurrent requests of one caller for the same BIN share
   * one lookup.
   */
  lookUp(bin: Bin, caller: BinCaller): Promise<LookupResult>;
  /**
   * Results are in the order of `bins`. Each distinct BIN is looked up once.
   * @throws AppError `invalid_request` for more than 1,000
   */
  lookUpMany(bins: readonly Bin[], caller: BinCaller): Promise<LookupResult[]>;
}

export const MAX_BULK_BINS = 1_000;
const BULK_CONCURRENCY = 8;

export function createBinLookup(parts: BinLookupParts): BinLookup {
  const { client, clock, events } = parts;
  const service = client && createServiceSource({ ...parts, client });
  const local = createLocalSources(parts);

  /** Looks up a BIN that the imported data set does not match with all digits. */
  const findWith = async (bin: Bin, findAtService: FindAtService): Promise<LookupResult> => {
    const serviceResult = await findAtService(bin);
    return local.afterService(serviceResult, bin, parts.imported?.());
  };
  const lookUpShared = service && shareLookUps((bin, caller) => findWith(bin, service.single(caller)));

  return {
    async lookUp(bin, caller) {
      const result = lookUpShared
        ? (local.complete(bin, parts.imported?.()) ?? (await lookUpShared(bin, caller)))
        : local.only(bin, parts.imported?.());
      events?.lookedUp?.(outcomeOf(result), 1);
      return addAge(result, clock());
    },
    async lookUpMany(bins, caller) {
      if (bins.length > MAX_BULK_BINS) {
        throw new AppError('invalid_request', { detail: `Look up at most ${MAX_BULK_BINS} BINs at once.` });
      }
      const { results, open } = findLocally(bins, service ? local.complete : local.only, parts.imported?.());
      const findAtService = service?.bulk(caller);
      if (findAtService) await lookUpEach(open, (bin) => findWith(bin, findAtService), results);
      report(results.values(), events);
      return bins.map((bin) => addAge(results.get(bin) ?? NOT_FOUND, clock()));
    },
  };
}

function createLocalSources({ builtIn }: BinLookupParts) {
  /** A match of all digits, with a country, in the imported data set makes a call to the service unnecessary. */
  const complete = (bin: Bin, dataset: Dataset | undefined): LookupResult | undefined => {
    const match = findInDataset(bin, dataset);
    return match?.record.country && match.digitsMatched === bin.length ? match : undefined;
  };
  const find = (bin: Bin, dataset: Dataset | undefined) => findLocalFacts(bin, [() => dataset, builtIn]);
  const afterService = (serviceResult: ServiceResult, bin: Bin, dataset: Dataset | undefined): LookupResult => {
    if (serviceResult === 'unknown') return find(bin, dataset) ?? NOT_FOUND;
    if (serviceResult.problem === undefined) {
      if (serviceResult.digitsMatched === bin.length) return serviceResult;
      const local = find(bin, dataset);
      return local && isBetter(local, serviceResult) ? local : serviceResult;
    }
    const local = find(bin, dataset);
    // The rules match nearly every BIN, so they must not hide that a budget is spent.
    const hidesBudget = local?.source === 'rules' && serviceResult.problem === 'bin_quota_exhausted';
    return local && !hidesBudget ? { ...local, serviceProblem: serviceResult } : serviceResult;
  };
  return {
    complete,
    afterService,
    only: (bin: Bin, dataset: Dataset | undefined): LookupResult => find(bin, dataset) ?? NOT_FOUND,
  };
}

const NOT_FOUND: LookupProblem = { problem: 'bin_not_found' };

/** More matched digits win, then newer facts. Local facts win on the same date, because they need no call. */
function isBetter(local: LookupFound, remote: LookupFound): boolean {
  // The rules of the networks name no country.
  if (!local.record.country) return false;
  if (local.digitsMatched !== remote.digitsMatched) return local.digitsMatched > remote.digitsMatched;
  return local.asOf >= remote.asOf;
}

function addAge(result: LookupResult, now: number): LookupResult {
  return result.problem === undefined ? withAge(result, now) : result;
}

type Find = (bin: Bin, caller: BinCaller) => Promise<LookupResult>;

/** Only concurrent requests of the same caller share a lookup, because a refusal concerns that caller's budget. */
function shareLookUps(find: Find): Find {
  const running = new Map<string, Promise<LookupResult>>();
  return (bin, caller) => {
    const key = `${bin} ${caller.kind} ${caller.kind === 'operator' ? '' : caller.id}`;
    const shared = running.get(key);
    if (shared) return shared;
    const lookUp = find(bin, caller).finally(() => running.delete(key));
    running.set(key, lookUp);
    return lookUp;
  };
}

/** Synchronous, because awaiting each BIN would cost more than finding it. */
function findLocally(
  bins: readonly Bin[],
  find: (bin: Bin, dataset: Dataset | undefined) => LookupResult | undefined,
  dataset: Dataset | undefined,
): { results: Map<Bin, LookupResult>; open: Bin[] } {
  const results = new Map<Bin, LookupResult>();
  const open = new Set<Bin>();
  for (const bin of bins) {
    if (results.has(bin) || open.has(bin)) continue;
    const result = find(bin, dataset);
    if (result) results.set(bin, result);
    else open.add(bin);
  }
  return { results, open: [...open] };
}

async function lookUpEach(
  bins: readonly Bin[],
  find: (bin: Bin) => Promise<LookupResult>,
  results: Map<Bin, LookupResult>,
): Promise<void> {
  const waiting = bins.values();
  const work = async () => {
    for (const bin of waiting) results.set(bin, await find(bin));
  };
  await Promise.all(Array.from({ length: BULK_CONCURRENCY }, work));
}

function report(results: Iterable<LookupResult>, events: LookupEvents | undefined): void {
  const counts = new Map<LookupOutcome, number>();
  for (const result of results) {
    const outcome = outcomeOf(result);
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  }
  for (const [outcome, count] of counts) events?.lookedUp?.(outcome, count);
}

function outcomeOf(result: LookupResult): LookupOutcome {
  if (result.problem === undefined) return result.source;
  return result.spent === 'user' ? 'bin_user_quota_exhausted' : result.problem;
}
