/** The remote service as a source of lookups: reads its cache first, then calls it and caches the response. */
import { setTimeout } from 'node:timers/promises';
import type { LookupFound, LookupProblem } from '../../shared/bin/lookup-result.ts';
import type { Bin } from '../../shared/bin/parse-bin.ts';
import { keys } from '../../shared/storage/keys.ts';
import { createLeases } from '../../shared/storage/lease.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { BinClient, RemoteFailure, RemoteResult, UnavailableReason } from './bin-client.ts';
import { type CachedResult, createBinCache } from './cache.ts';
import type { BinCaller, BinQuota } from './quota.ts';

export interface RemoteEvents {
  /** The service was called, or the call was refused beforehand. */
  remoteResponded?(outcome: RemoteResult['outcome'], reason?: UnavailableReason): void;
  /** @param hit whether a fresh entry was found */
  cacheRead?(hit: boolean): void;
  /** The response could not be cached, but is returned. */
  cacheFailed?(error: unknown): void;
}

/** A record, `unknown` if the service has none, or a temporary failure. */
export type ServiceResult = LookupFound | 'unknown' | LookupProblem;

/** Rejects only if the store fails. Only one process calls the service for a BIN at a time. */
export type FindAtService = (bin: Bin) => Promise<ServiceResult>;

export interface ServiceSource {
  /** Calls are charged to the caller's budget. */
  single(caller: BinCaller): FindAtService;
  /** For one bulk lookup: makes no more calls after three failures, or once a budget is used up. */
  bulk(caller: BinCaller): FindAtService;
}

export interface ServiceSourceParts {
  client: BinClient;
  /** If undefined, calls are not limited. */
  quota?: BinQuota | undefined;
  store: Store;
  /** Milliseconds since the epoch. */
  clock: () => number;
  events?: RemoteEvents | undefined;
}

type ServiceCalls = Pick<BinClient, 'lookUp' | 'refusal'>;

const RETRY_SECONDS = 30;
const BULK_FAILURES = 3;
const LEASE_MS = 3_000;
/** While another process calls, the cache is checked this often, for as long as a call can take (7 s). */
const WAIT_MS = 50;
const MAX_WAITS = 140;

export function createServiceSource(parts: ServiceSourceParts): ServiceSource {
  const { client, quota, store, clock, events } = parts;
  const cache = createBinCache({ store, clock });
  const leases = createLeases({ store, milliseconds: LEASE_MS });

  const callsFor = (caller: BinCaller): ServiceCalls => ({
    refusal: client.refusal,
    async lookUp(bin) {
      const relayTokenId = caller.kind === 'relay_token' ? caller.id : undefined;
      const result = await client.lookUp(bin, quota && (() => quota.reserve(caller)), relayTokenId);
      events?.remoteResponded?.(result.outcome, result.outcome === 'unavailable' ? result.reason : undefined);
      return result;
    },
  });

  const putInCache = async (bin: Bin, result: Parameters<typeof cache.put>[1]): Promise<void> => {
    try {
      await cache.put(bin, result);
    } catch (error) {
      // The call has been paid for, so its response is returned even if it cannot be cached.
      events?.cacheFailed?.(error);
    }
  };

  const callAndCache = async (bin: Bin, calls: ServiceCalls): Promise<ServiceResult> => {
    const result = await calls.lookUp(bin);
    if (result.outcome === 'not_found') {
      await putInCache(bin, { found: false });
      return 'unknown';
    }
    if (result.outcome !== 'found') return problemOf(result);
    const { outcome: _found, ...facts } = result;
    await putInCache(bin, { found: true, ...facts });
    return { ...facts, source: 'service' };
  };

  /** Makes one call for all processes: the others find its response in the cache. */
  const callOnce = async (bin: Bin, calls: ServiceCalls): Promise<ServiceResult> => {
    for (let waits = 0; waits < MAX_WAITS; waits++) {
      const failure = await calls.refusal();
      if (failure) return problemOf(failure);
      const held = await leases.hold(keys.binCall(bin), async () => {
        const cached = await cache.get(bin);
        return cached?.fresh ? fromCache(cached) : callAndCache(bin, calls);
      });
      if (held) return held.value;
      await setTimeout(WAIT_MS);
    }
    return { problem: 'bin_service_unavailable', retryAfterSeconds: RETRY_SECONDS };
  };

  const findWith =
    (calls: ServiceCalls): FindAtService =>
    async (bin) => {
      const cached = await cache.get(bin);
      events?.cacheRead?.(cached?.fresh === true);
      if (cached?.fresh) return fromCache(cached);
      const result = await callOnce(bin, calls);
      const isFailed = result !== 'unknown' && result.problem !== undefined;
      // An outdated record is better than none.
      return isFailed && cached?.found ? fromCache(cached) : result;
    };

  return {
    single: (caller) => findWith(callsFor(caller)),
    bulk: (caller) => findWith(untilFailing(callsFor(caller))),
  };
}

function fromCache(cached: CachedResult): LookupFound | 'unknown' {
  if (!cached.found) return 'unknown';
  const { found: _found, fresh: _fresh, ...facts } = cached;
  return { ...facts, source: 'cache' };
}

/** The limits of the service and of Gatehouse have the same code, because the caller must wait for both. */
function problemOf(result: RemoteFailure): LookupProblem {
  switch (result.outcome) {
    case 'limited':
      return { problem: 'bin_quota_exhausted', retryAfterSeconds: result.retryAfterSeconds };
    case 'not_reserved':
      return { problem: 'bin_quota_exhausted', retryAfterSeconds: result.secondsLeft, spent: result.spent };
    case 'unavailable':
      return { problem: 'bin_service_unavailable', retryAfterSeconds: result.retryAfterSeconds ?? RETRY_SECONDS };
  }
}

/** Stops after a few failures: a thousand timeouts would delay the request for minutes and waste the month's calls. */
function untilFailing(calls: ServiceCalls): ServiceCalls {
  let failures = 0;
  let finalFailure: RemoteFailure | undefined;
  return {
    refusal: async () => finalFailure ?? calls.refusal(),
    async lookUp(bin) {
      if (finalFailure) return finalFailure;
      const result = await calls.lookUp(bin);
      if (result.outcome === 'unavailable') failures++;
      if (result.outcome === 'not_reserved' || (result.outcome === 'unavailable' && failures >= BULK_FAILURES))
        finalFailure = result;
      return result;
    },
  };
}
