/** Owns the order in which the sources of BIN facts are asked, and the one answer that comes of it. */
import { AppError } from '../errors.ts';
import type { Store } from '../storage/store.ts';
import { fromDataset, type LookupAnswer, type LookupProblem, type LookupSource } from './answer.ts';
import type { Bin } from './bin.ts';
import type { BinClient } from './bin-client.ts';
import type { Dataset } from './dataset.ts';
import { NETWORK_RULES_AS_OF, networkOfBin } from './network.ts';
import type { BinQuota } from './quota.ts';
import { createServiceSource, type RemoteEvents, type ServiceAnswer, type ServiceSource } from './service-source.ts';

export type LookupOutcome = LookupSource | LookupProblem['problem'];

/** What happened, for metrics and logs. Never a digit of what was looked up. */
export interface LookupEvents extends RemoteEvents {
  /** For each look-up; in bulk once for all different BINs that came to the same. */
  answered?(outcome: LookupOutcome, count: number): void;
}

export interface BinLookupParts {
  /** The imported data set that counts now. */
  imported?: (() => Dataset | undefined) | undefined;
  /** Asked for only where nothing else has an answer. */
  builtIn: () => Dataset;
  client?: BinClient | undefined;
  /** Without it calls are not counted. */
  quota?: BinQuota | undefined;
  store: Store;
  /** Milliseconds since the epoch. */
  clock: () => number;
  events?: LookupEvents | undefined;
}

export interface BinLookup {
  /** Rejects only when the store cannot answer (`storage_unavailable`). Callers that ask for the same BIN at once share one look-up. */
  lookUp(bin: Bin): Promise<LookupAnswer>;
  /**
   * Answers in the same order, each different BIN looked up once.
   * @throws AppError `invalid_request` for more than 1,000
   */
  lookUpMany(bins: readonly Bin[]): Promise<LookupAnswer[]>;
}

export const MOST_BINS_AT_ONCE = 1_000;
const BULK_CONCURRENCY = 8;

export function createBinLookup(parts: BinLookupParts): BinLookup {
  const { client, events } = parts;
  const service = client && createServiceSource({ ...parts, client });
  const local = createLocalSources(parts);

  /** For what no imported data set answers completely. */
  const findWith = async (bin: Bin, source: ServiceSource): Promise<LookupAnswer> => {
    const told = await source.find(bin);
    return local.after(told, bin, parts.imported?.());
  };
  const single = service && sharing((bin) => findWith(bin, service));

  return {
    async lookUp(bin) {
      const answer = single
        ? (local.complete(bin, parts.imported?.()) ?? (await single(bin)))
        : local.only(bin, parts.imported?.());
      events?.answered?.(answer.problem ?? answer.source, 1);
      return answer;
    },
    async lookUpMany(bins) {
      if (bins.length > MOST_BINS_AT_ONCE) {
        throw new AppError('invalid_request', { detail: `Look up at most ${MOST_BINS_AT_ONCE} BINs at once.` });
      }
      const { answers, open } = findLocally(bins, service ? local.complete : local.only, parts.imported?.());
      const source = open.length > 0 ? service?.forBulk() : undefined;
      if (source) await answerEach(open, (bin) => findWith(bin, source), answers);
      report(answers.values(), events);
      return bins.map((bin) => answers.get(bin) ?? { problem: 'bin_not_found' });
    },
  };
}

function createLocalSources({ builtIn }: BinLookupParts) {
  /** An imported data set that knows as many digits as were asked makes every call needless. */
  const complete = (bin: Bin, dataset: Dataset | undefined): LookupAnswer | undefined => {
    const hit = dataset?.find(bin);
    return dataset && hit?.digitsMatched === bin.length ? fromDataset(dataset, hit) : undefined;
  };
  const after = (told: ServiceAnswer, bin: Bin, dataset: Dataset | undefined): LookupAnswer => {
    if (told !== 'unknown' && told.problem === undefined) return told;
    for (const source of [() => dataset, builtIn]) {
      const one = source();
      const hit = one?.find(bin);
      if (one && hit) return fromDataset(one, hit);
    }
    // While the service may have a better answer the rules are none: the caller should come back.
    return told === 'unknown' ? fromRules(bin) : told;
  };
  return { complete, after, only: (bin: Bin, dataset: Dataset | undefined) => after('unknown', bin, dataset) };
}

/** Callers that ask for the same BIN at once get one answer. */
function sharing(find: (bin: Bin) => Promise<LookupAnswer>): (bin: Bin) => Promise<LookupAnswer> {
  const running = new Map<Bin, Promise<LookupAnswer>>();
  return (bin) => {
    const known = running.get(bin);
    if (known) return known;
    const started = find(bin).finally(() => running.delete(bin));
    running.set(bin, started);
    return started;
  };
}

/** Whatever needs no call is answered in one go: waiting for each would cost more than finding it. */
function findLocally(
  bins: readonly Bin[],
  find: (bin: Bin, dataset: Dataset | undefined) => LookupAnswer | undefined,
  dataset: Dataset | undefined,
): { answers: Map<Bin, LookupAnswer>; open: Bin[] } {
  const answers = new Map<Bin, LookupAnswer>();
  const open = new Set<Bin>();
  for (const bin of bins) {
    if (answers.has(bin) || open.has(bin)) continue;
    const answer = find(bin, dataset);
    if (answer) answers.set(bin, answer);
    else open.add(bin);
  }
  return { answers, open: [...open] };
}

/** A few at a time. */
async function answerEach(
  bins: readonly Bin[],
  answer: (bin: Bin) => Promise<LookupAnswer>,
  answers: Map<Bin, LookupAnswer>,
): Promise<void> {
  const waiting = bins.values();
  const work = async () => {
    for (const bin of waiting) answers.set(bin, await answer(bin));
  };
  await Promise.all(Array.from({ length: BULK_CONCURRENCY }, work));
}

function report(answers: Iterable<LookupAnswer>, events: LookupEvents | undefined): void {
  const counts = new Map<LookupOutcome, number>();
  for (const answer of answers) {
    const outcome = answer.problem ?? answer.source;
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  }
  for (const [outcome, count] of counts) events?.answered?.(outcome, count);
}

function fromRules(bin: Bin): LookupAnswer {
  const network = networkOfBin(bin);
  if (!network) return { problem: 'bin_not_found' };
  const { number, scheme, digitsMatched } = network;
  const record = number ? { number, scheme } : { scheme };
  return { record, source: 'rules', asOf: NETWORK_RULES_AS_OF, digitsMatched };
}
