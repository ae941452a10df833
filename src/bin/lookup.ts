/** Owns the order in which the sources of BIN facts are asked, and the one answer that comes of it. */
import { AppError } from '../errors.ts';
import type { Store } from '../storage/store.ts';
import { fromDataset, type LookupAnswer, type LookupProblem, type LookupSource } from './answer.ts';
import type { Bin } from './bin.ts';
import type { BinClient } from './bin-client.ts';
import type { Dataset } from './dataset.ts';
import { NETWORK_RULES_AS_OF, networkOfBin } from './network.ts';
import type { BinQuota } from './quota.ts';
import { createServiceSource, type RemoteEvents, type ServiceSource } from './service-source.ts';

/** What happened, for metrics and logs. Never a digit of what was looked up. */
export interface LookupEvents extends RemoteEvents {
  /** Once for each look-up; in bulk once for each different BIN. */
  answered?(outcome: LookupSource | LookupProblem['problem']): void;
}

export interface BinLookupParts {
  imported?: Dataset | undefined;
  builtIn: Dataset;
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
  const { imported, builtIn, client, events } = parts;
  const service = client && createServiceSource({ ...parts, client });
  const running = new Map<Bin, Promise<LookupAnswer>>();

  const find = async (bin: Bin, source: ServiceSource | undefined): Promise<LookupAnswer> => {
    const hit = imported?.find(bin);
    if (imported && hit?.digitsMatched === bin.length) return fromDataset(imported, hit);
    const told = source ? await source.find(bin) : 'unknown';
    if (told !== 'unknown' && told.problem === undefined) return told;
    if (imported && hit) return fromDataset(imported, hit);
    const builtInHit = builtIn.find(bin);
    if (builtInHit) return fromDataset(builtIn, builtInHit);
    // While the service may have a better answer the rules are none: the caller should come back.
    return told === 'unknown' ? fromRules(bin) : told;
  };

  const share = async (bin: Bin, source: ServiceSource | undefined): Promise<LookupAnswer> => {
    const started = running.get(bin) ?? find(bin, source).finally(() => running.delete(bin));
    running.set(bin, started);
    const answer = await started;
    events?.answered?.(answer.problem ?? answer.source);
    return answer;
  };

  return {
    lookUp: (bin) => share(bin, service),
    async lookUpMany(bins) {
      if (bins.length > MOST_BINS_AT_ONCE) {
        throw new AppError('invalid_request', { detail: `Look up at most ${MOST_BINS_AT_ONCE} BINs at once.` });
      }
      const source = service?.forBulk();
      return answerEach(bins, (bin) => share(bin, source));
    },
  };
}

/** A few at a time; duplicates share one answer. */
async function answerEach(bins: readonly Bin[], answer: (bin: Bin) => Promise<LookupAnswer>): Promise<LookupAnswer[]> {
  const answers = new Map<Bin, LookupAnswer>();
  const waiting = new Set(bins).values();
  const work = async () => {
    for (const bin of waiting) answers.set(bin, await answer(bin));
  };
  await Promise.all(Array.from({ length: BULK_CONCURRENCY }, work));
  return bins.map((bin) => answers.get(bin) ?? { problem: 'bin_not_found' });
}

function fromRules(bin: Bin): LookupAnswer {
  const network = networkOfBin(bin);
  if (!network) return { problem: 'bin_not_found' };
  const { number, scheme, digitsMatched } = network;
  const record = number ? { number, scheme } : { scheme };
  return { record, source: 'rules', asOf: NETWORK_RULES_AS_OF, digitsMatched };
}
