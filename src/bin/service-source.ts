/** Owns the remote service as one source among others: its cache first, then the call, and what is kept of it. */
import type { Store } from '../storage/store.ts';
import type { LookupFound, LookupProblem } from './answer.ts';
import type { Bin } from './bin.ts';
import type { BinClient, RemoteAnswer, UnavailableReason } from './bin-client.ts';
import { createBinCache } from './cache.ts';
import type { BinQuota } from './quota.ts';

export interface RemoteEvents {
  remoteAnswered?(outcome: RemoteAnswer['outcome'], reason?: UnavailableReason): void;
  /** The service's answer could not be kept; it was handed on all the same. */
  cacheFailed?(error: unknown): void;
}

/** Facts; that none are known; or a failure that may pass. */
export type ServiceAnswer = LookupFound | 'unknown' | LookupProblem;

export interface ServiceSource {
  /** Rejects only when the store cannot answer. */
  find(bin: Bin): Promise<ServiceAnswer>;
  /** The same source for one bulk job: after three calls without an answer it makes no more of them. */
  forBulk(): ServiceSource;
}

export interface ServiceSourceParts {
  client: BinClient;
  /** Without it calls are not counted. */
  quota?: BinQuota | undefined;
  store: Store;
  /** Milliseconds since the epoch. */
  clock: () => number;
  events?: RemoteEvents | undefined;
}

type Ask = (bin: Bin) => Promise<RemoteAnswer>;

const RETRY_SECONDS = 30;
const BULK_FAILURES = 3;

export function createServiceSource(parts: ServiceSourceParts): ServiceSource {
  const { client, quota, clock, events } = parts;
  const cache = createBinCache(parts.store);
  const today = () => new Date(clock()).toISOString().slice(0, 10);

  const ask: Ask = async (bin) => {
    const answer = await client.ask(bin, quota && (() => quota.reserve()));
    events?.remoteAnswered?.(answer.outcome, answer.outcome === 'unavailable' ? answer.reason : undefined);
    return answer;
  };

  const keep = async (bin: Bin, answer: Parameters<typeof cache.put>[1]): Promise<void> => {
    try {
      await cache.put(bin, answer);
    } catch (error) {
      // The call is spent: its answer is worth more than the cache.
      events?.cacheFailed?.(error);
    }
  };

  const findWith = async (bin: Bin, asking: Ask): Promise<ServiceAnswer> => {
    const cached = await cache.get(bin);
    if (cached) return cached.found ? foundBy('cache', cached) : 'unknown';
    const answer = await asking(bin);
    if (answer.outcome === 'not_found') {
      await keep(bin, { found: false });
      return 'unknown';
    }
    if (answer.outcome !== 'found') return problemOf(answer);
    const found = { record: answer.record, asOf: today(), digitsMatched: answer.digitsMatched };
    await keep(bin, { found: true, ...found });
    return foundBy('service', found);
  };

  const sourceWith = (asking: Ask): ServiceSource => ({
    find: (bin) => findWith(bin, asking),
    forBulk: () => sourceWith(givingUp(asking)),
  });
  return sourceWith(ask);
}

function foundBy(
  source: 'cache' | 'service',
  { record, asOf, digitsMatched }: Omit<LookupFound, 'source'>,
): LookupFound {
  return { record, source, asOf, digitsMatched };
}

/** The service's own limit and ours are one to the caller: wait, then ask again. */
function problemOf(answer: Exclude<RemoteAnswer, { outcome: 'found' | 'not_found' }>): LookupProblem {
  switch (answer.outcome) {
    case 'limited':
      return { problem: 'bin_quota_exhausted', retryAfterSeconds: answer.retryAfterSeconds };
    case 'not_reserved':
      return { problem: 'bin_quota_exhausted', retryAfterSeconds: answer.secondsLeft };
    case 'unavailable':
      return { problem: 'bin_service_unavailable', retryAfterSeconds: answer.retryAfterSeconds ?? RETRY_SECONDS };
  }
}

/** A thousand timeouts in a row would hold the request for minutes and spend the month's calls on nothing. */
function givingUp(ask: Ask): Ask {
  let failures = 0;
  let last: RemoteAnswer | undefined;
  return async (bin) => {
    if (last && failures >= BULK_FAILURES) return last;
    const answer = await ask(bin);
    if (answer.outcome === 'unavailable') {
      failures++;
      last = answer;
    }
    return answer;
  };
}
