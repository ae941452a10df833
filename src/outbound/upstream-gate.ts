/** Limits the calls that run and wait for each host; further calls are refused at once (R89). */
import { type BulkheadPolicy, BulkheadRejectedError, bulkhead } from 'cockatiel';

export interface UpstreamLimits {
  /** Calls to one host at a time. */
  concurrency: number;
  /** Calls to one host that wait for a connection. */
  waiting: number;
}

/** What anonymous requests can cause at a provider. */
export type AnonymousCall = 'discovery' | 'pushed request';

/** Calls to all hosts. */
export interface UpstreamLoad {
  running: number;
  waiting: number;
}

/** @param refuse makes the error of a call for which there is no room */
export function createUpstreamGate({ concurrency, waiting }: UpstreamLimits, refuse: () => Error) {
  const calls = new Map<string, number>();
  // At most two entries for each origin that registered apps name, so nothing is ever removed.
  const shares = new Map<string, BulkheadPolicy>();
  const slots = Math.max(1, Math.floor(concurrency / 4));
  const places = Math.floor(waiting / 4);

  return {
    /**
     * Only counts: each pool has `concurrency` connections, so further calls wait in the pool.
     * @returns a function to call once the call has ended
     * @throws the error of `refuse`
     */
    enter(origin: string): () => void {
      const others = calls.get(origin) ?? 0;
      if (others >= concurrency + waiting) throw refuse();
      calls.set(origin, others + 1);
      let hasLeft = false;
      return () => {
        if (hasLeft) return;
        hasLeft = true;
        const left = (calls.get(origin) ?? 1) - 1;
        if (left > 0) calls.set(origin, left);
        else calls.delete(origin);
      };
    },

    /**
     * Makes the call as soon as a slot for its kind is free: a quarter of the host's slots each, so that refreshes and
     * code exchanges keep the rest, and no pushed request delays discovery (R92). A call whose signal is aborted
     * before that is not made.
     */
    async shareAnonymous<T>(
      kind: AnonymousCall,
      origin: string,
      signal: AbortSignal,
      call: () => Promise<T>,
    ): Promise<T> {
      const name = `${kind} ${origin}`;
      const share = shares.get(name) ?? bulkhead(slots, places);
      shares.set(name, share);
      try {
        return await share.execute(call, signal);
      } catch (error) {
        throw error instanceof BulkheadRejectedError ? refuse() : error;
      }
    },

    load(): UpstreamLoad {
      const all = [...calls.values()];
      const running = all.reduce((sum, count) => sum + Math.min(count, concurrency), 0);
      const queued = [...shares.values()].reduce((sum, share) => sum + places - share.queueSlots, 0);
      return { running, waiting: all.reduce((sum, count) => sum + count, 0) - running + queued };
    },
  };
}
