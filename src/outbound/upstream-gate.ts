/** Limits the calls that run and wait for each host; further calls are refused at once (R89). */
import { type BulkheadPolicy, BulkheadRejectedError, bulkhead } from 'cockatiel';

export interface UpstreamLimits {
  /** Calls to one host at a time. */
  concurrency: number;
  /** Calls to one host that wait for a connection. */
  waiting: number;
}

/** Calls to all hosts. */
export interface UpstreamLoad {
  running: number;
  waiting: number;
}

/** @param refuse makes the error of a call for which there is no room */
export function createUpstreamGate({ concurrency, waiting }: UpstreamLimits, refuse: () => Error) {
  const calls = new Map<string, number>();
  // One entry for each origin that registered apps name, so nothing is ever removed.
  const anonymous = new Map<string, BulkheadPolicy>();
  const anonymousSlots = Math.max(1, Math.floor(concurrency / 2));
  const anonymousQueue = Math.floor(waiting / 2);

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
      return () => {
        const left = (calls.get(origin) ?? 1) - 1;
        if (left > 0) calls.set(origin, left);
        else calls.delete(origin);
      };
    },

    /**
     * Makes the call as soon as one of the slots for anonymous requests is free: half of the host's slots, so that
     * refreshes and code exchanges keep the rest (R92). A call whose signal is aborted before that is not made.
     */
    async shareAnonymous<T>(origin: string, signal: AbortSignal, call: () => Promise<T>): Promise<T> {
      const share = anonymous.get(origin) ?? bulkhead(anonymousSlots, anonymousQueue);
      anonymous.set(origin, share);
      try {
        return await share.execute(call, signal);
      } catch (error) {
        throw error instanceof BulkheadRejectedError ? refuse() : error;
      }
    },

    load(): UpstreamLoad {
      const all = [...calls.values()];
      const running = all.reduce((sum, count) => sum + Math.min(count, concurrency), 0);
      const queued = [...anonymous.values()].reduce((sum, share) => sum + anonymousQueue - share.queueSlots, 0);
      return { running, waiting: all.reduce((sum, count) => sum + count, 0) - running + queued };
    },
  };
}
