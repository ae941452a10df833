/** Limits the calls that run and wait for each host; further calls are refused at once (R89). */
import { type BulkheadPolicy, BulkheadRejectedError, bulkhead } from 'cockatiel';

export interface UpstreamLimits {
  /** Calls to one host at a time. */
  concurrency: number;
  /** Calls to one host that wait for their turn. */
  waiting: number;
}

/** What anonymous requests can cause at a provider. */
export type AnonymousCall = 'discovery' | 'pushed request';

/** Calls to all hosts. */
export interface UpstreamLoad {
  running: number;
  waiting: number;
}

/** The place of one call. */
export interface Place {
  /** Begins the call now, or once enough of those before it have left. */
  begin(start: () => void): void;
  /** To call once the call has ended, also if it never began. */
  leave(): void;
}

export interface UpstreamGate {
  /** Reserves a place for a call to this origin. @throws the error of `refuse` */
  enter(origin: string): Place;
  /**
   * Makes the call as soon as a slot for its kind is free: a quarter of the host's slots each, so that refreshes and
   * code exchanges keep the rest, and no pushed request delays discovery (R92). A call whose signal is aborted
   * before that is not made.
   */
  shareAnonymous<T>(kind: AnonymousCall, origin: string, signal: AbortSignal, call: () => Promise<T>): Promise<T>;
  load(): UpstreamLoad;
}

interface Host {
  running: number;
  /** In the order in which they begin. */
  waiting: Set<() => void>;
}

/** @param refuse makes the error of a call for which there is no room */
export function createUpstreamGate({ concurrency, waiting }: UpstreamLimits, refuse: () => Error): UpstreamGate {
  const hosts = new Map<string, Host>();
  // At most two entries for each origin that registered apps name, so nothing is ever removed.
  const shares = new Map<string, BulkheadPolicy>();
  const slots = Math.max(1, Math.floor(concurrency / 4));
  const places = Math.floor(waiting / 4);

  return {
    enter(origin) {
      const host = hosts.get(origin) ?? { running: 0, waiting: new Set() };
      if (host.running + host.waiting.size >= concurrency + waiting) throw refuse();
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
        leave() {
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
      const share = shares.get(name) ?? bulkhead(slots, places);
      shares.set(name, share);
      try {
        return await share.execute(call, signal);
      } catch (error) {
        throw error instanceof BulkheadRejectedError ? refuse() : error;
      }
    },

    load() {
      const all = [...hosts.values()];
      const queued = [...shares.values()].reduce((sum, share) => sum + places - share.queueSlots, 0);
      return {
        running: all.reduce((sum, host) => sum + host.running, 0),
        waiting: all.reduce((sum, host) => sum + host.waiting.size, 0) + queued,
      };
    },
  };
}
