/** Owns the remote service as one source among others: its cache first, then the call, and what is kept of it. */
import { setTimeout } from 'node:timers/promises';
import { keys } from '../storage/keys.ts';
import { createLeases } from '../storage/lease.ts';
import type { Store } from '../storage/store.ts';
import type { LookupFound, LookupProblem } from './answer.ts';
import type { Bin } from './bin.ts';
import type { BinClient, RemoteAnswer, RemoteFailure, UnavailableReason } from './bin-client.ts';
import { type CachedAnswer, createBinCache } from './cache.ts';
import type { BinQuota } from './quota.ts';

export interface RemoteEvents {
  /** The service was asked, or would have been. */
  remoteAnswered?(outcome: RemoteAnswer['outcome'], reason?: UnavailableReason): void;
  /** Whether a fresh answer was at hand. */
  cacheAsked?(hit: boolean): void;
  /** The service's answer could not be kept; it was handed on all the same. */
  cacheFailed?(error: unknown): void;
}

/** Facts; that none are known; or a failure that may pass. */
export type ServiceAnswer = LookupFound | 'unknown' | LookupProblem;

export interface ServiceSource {
  /** Rejects only when the store cannot answer. Of any number of processes that ask for one BIN at once, one calls. */
  find(bin: Bin): Promise<ServiceAnswer>;
  /** The same source for one bulk job: it leaves the quota's reserve alone, and after three calls without an answer makes no more. */
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
const LEASE_MILLISECONDS = 3_000;
/** How often it is looked whether another process has its answer, and for how long: as long as its call may take. */
const WAIT_MILLISECONDS = 50;
const MOST_WAITS = 140;

export function createServiceSource(parts: ServiceSourceParts): ServiceSource {
  const { client, quota, store, clock, events } = parts;
  const cache = createBinCache({ store, clock });
  const leases = createLeases({ store, milliseconds: LEASE_MILLISECONDS });

  const askFor =
    (use: 'single' | 'bulk'): Ask =>
    async (bin) => {
      const answer = await client.ask(bin, quota && (() => quota.reserve(use)));
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

  const callAndKeep = async (bin: Bin, asking: Ask): Promise<ServiceAnswer> => {
    const answer = await asking(bin);
    if (answer.outcome === 'not_found') {
      await keep(bin, { found: false });
      return 'unknown';
    }
    if (answer.outcome !== 'found') return problemOf(answer);
    const asOf = new Date(clock()).toISOString().slice(0, 10);
    const found = { record: answer.record, asOf, digitsMatched: answer.digitsMatched };
    await keep(bin, { found: true, ...found });
    return foundBy('service', found);
  };

  /** One call of all processes: the others find its answer in the cache. */
  const callOnce = async (bin: Bin, asking: Ask): Promise<ServiceAnswer> => {
    for (let waits = 0; waits < MOST_WAITS; waits++) {
      const refused = await client.refusal();
      if (refused) return problemOf(refused);
      const held = await leases.hold(keys.binCall(bin), async () => {
        const cached = await cache.get(bin);
        return cached?.fresh ? fromCache(cached) : callAndKeep(bin, asking);
      });
      if (held) return held.value;
      await setTimeout(WAIT_MILLISECONDS);
    }
    return { problem: 'bin_service_unavailable', retryAfterSeconds: RETRY_SECONDS };
  };

  const findWith = async (bin: Bin, asking: Ask): Promise<ServiceAnswer> => {
    const cached = await cache.get(bin);
    events?.cacheAsked?.(cached?.fresh === true);
    if (cached?.fresh) return fromCache(cached);
    const answer = await callOnce(bin, asking);
    const failed = answer !== 'unknown' && answer.problem !== undefined;
    // An old answer with its date is better than none.
    return failed && cached?.found ? fromCache(cached) : answer;
  };

  const sourceWith = (asking: Ask): ServiceSource => ({
    find: (bin) => findWith(bin, asking),
    forBulk: () => sourceWith(givingUp(askFor('bulk'))),
  });
  return sourceWith(askFor('single'));
}

function fromCache(cached: CachedAnswer): LookupFound | 'unknown' {
  return cached.found ? foundBy('cache', cached) : 'unknown';
}

function foundBy(
  source: 'cache' | 'service',
  { record, asOf, digitsMatched }: Omit<LookupFound, 'source'>,
): LookupFound {
  return { record, source, asOf, digitsMatched };
}

/** The service's own limit and ours are one to the caller: wait, then ask again. */
function problemOf(answer: RemoteFailure): LookupProblem {
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
