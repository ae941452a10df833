/** Limits how many calls to each host run and wait; further calls are refused at once (R89). */
import { type BulkheadPolicy, BulkheadRejectedError, bulkhead } from 'cockatiel';

export interface UpstreamLimits {
  /** Maximum of concurrent calls to one host. */
  concurrency: number;
  /** Maximum of calls to one host that wait for a slot. */
  waiting: number;
}

/** The calls to a provider that anonymous requests can cause. */
export type AnonymousCall = 'discovery' | 'pushed request';

/** The number of calls to all hosts. */
export interface UpstreamLoad {
  running: number;
  waiting: number;
}

/** Lets one call run or wait for its host. */
export interface Reservation {
  /** Starts the call now, or once a slot is free. */
  begin(start: () => void): void;
  /** Must be called once the call has ended, even if it never began. */
  release(): void;
}

export interface UpstreamGate {
  /** @throws the error of `createRefusal` if the host is at its limits */
  reserve(origin: string): Reservation;
  /**
   * Makes the call as soon as a slot for its kind is free, unless its signal is aborted before. Each kind has a quarter
   * of the host's slots; the rest is reserved for refreshes and code exchanges, and pushed requests do not delay
   * discovery (R92).
   */
  shareAnonymous<T>(kind: AnonymousCall, origin: string, signal: AbortSignal, call: () => Promise<T>): Promise<T>;
  load(): UpstreamLoad;
}

interface Host {
  running: number;
  /** In the order in which they begin. */
  waiting: Set<() => void>;
}

/** @param createRefusal returns the error of a call beyond the limits */
export function createUpstreamGate({ concurrency, waiting }: UpstreamLimits, createRefusal: () => Error): UpstreamGate {
  const hosts = new Map<string, Host>();
  // At most two entries for each origin that registered apps name, so none is ever removed.
  const shares = new Map<string, BulkheadPolicy>();
  const slots = Math.max(1, Math.floor(concurrency / 4));
  const queueSize = Math.floor(waiting / 4);

  return {
    reserve(origin) {
      const host = hosts.get(origin) ?? { running: 0, waiting: new Set() };
      if (host.running + host.waiting.size >= concurrency + waiting) throw createRefusal();
      hosts.set(origin, host);
      let run: (() => void) | undefined;
      return {
        begin(start) {
          run = start;
          if (host.running >= concurrency) {
            host.waiting.add(start);
            return;
          }
          host.running += 1;
          start();
        },
        release() {
          if (run && !host.waiting.delete(run)) host.running -= 1;
          const [next] = host.waiting;
          if (next && host.running < concurrency) {
            host.waiting.delete(next);
            host.running += 1;
            next();
          } else if (host.running === 0) hosts.delete(origin);
        },
      };
    },

    async shareAnonymous(kind, origin, signal, call) {
      const name = `${kind} ${origin}`;
      const share = shares.get(name) ?? bulkhead(slots, queueSize);
      shares.set(name, share);
      try {
        return await share.execute(call, signal);
      } catch (error) {
        throw error instanceof BulkheadRejectedError ? createRefusal() : error;
      }
    },

    load() {
      const all = [...hosts.values()];
      const queued = [...shares.values()].reduce((sum, share) => sum + queueSize - share.queueSlots, 0);
      return {
        running: all.reduce((sum, host) => sum + host.running, 0),
        waiting: all.reduce((sum, host) => sum + host.waiting.size, 0) + queued,
      };
    },
  };
}
