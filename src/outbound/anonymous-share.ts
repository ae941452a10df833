/** Limits calls for anonymous requests to half of a host's slots; refreshes and code exchanges keep the rest (R92). */
import { type BulkheadPolicy, BulkheadRejectedError, bulkhead } from 'cockatiel';
import type { UpstreamLimits } from './upstream-gate.ts';

export interface AnonymousShare {
  /** Makes the call as soon as a slot is free. A call whose signal is aborted before that is not made. */
  run<T>(origin: string, signal: AbortSignal, call: () => Promise<T>): Promise<T>;
  /** Calls that wait for a slot, over all hosts. */
  waiting(): number;
}

/** @param parts `refuse`: makes the error of a call for which the queue has no room */
export function createAnonymousShare(parts: { limits: UpstreamLimits; refuse: () => Error }): AnonymousShare {
  const slots = Math.max(1, Math.floor(parts.limits.concurrency / 2));
  const queueSlots = Math.floor(parts.limits.waiting / 2);
  // One entry for each origin that registered apps name, so nothing is ever removed.
  const hosts = new Map<string, BulkheadPolicy>();

  return {
    async run(origin, signal, call) {
      const host = hosts.get(origin) ?? bulkhead(slots, queueSlots);
      hosts.set(origin, host);
      try {
        return await host.execute(call, signal);
      } catch (error) {
        throw error instanceof BulkheadRejectedError ? parts.refuse() : error;
      }
    },
    waiting: () => [...hosts.values()].reduce((sum, host) => sum + queueSlots - host.queueSlots, 0),
  };
}
