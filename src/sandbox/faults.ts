/** Faults for tests, which only this process can set: each selects requests, and makes them fail in one way. */
import type { ListenerName } from './listeners.ts';

/** Matches requests to `listener` whose path is `path` or below it. A missing `path` or `method` matches any. */
export interface FaultScope {
  listener: ListenerName;
  path?: string;
  method?: string;
  /** The number of requests after which the fault ends. */
  times?: number;
}

export type FaultKind =
  /** The request is handled as usual after a delay. */
  | { kind: 'slow'; ms: number }
  /** The request is handled as usual once the promise is settled. */
  | { kind: 'hold'; until: Promise<unknown> }
  /** The response is a 500 with an HTML page. */
  | { kind: 'error' }
  /** The response is a 503 with JSON and `Retry-After` (default 5). */
  | { kind: 'unavailable'; retryAfterSeconds?: number }
  /** The response is a 200 with a JSON content type and random bytes. */
  | { kind: 'garbage' }
  /** The response is a 200 with an endless body, sent one byte at a time (default every 1000 ms). */
  | { kind: 'drip'; intervalMs?: number }
  /** The response is a 200 with a streamed JSON string of `bytes` bytes (default 200 MB). */
  | { kind: 'huge'; bytes?: number }
  /**
   * The connection is reset: before a response, within the body, or after the request took effect but before the
   * response.
   */
  | { kind: 'reset'; when?: 'before_headers' | 'after_headers' | 'after_handling' }
  /** The response is a 200 that ends before its Content-Length. */
  | { kind: 'truncated' }
  /** This response is sent instead of the handler's. An object is sent as JSON, a string or bytes unchanged. */
  | { kind: 'response'; status: number; body?: string | Uint8Array | object; headers?: Record<string, string> }
  /** The request is handled as usual, and `change` replaces the JSON of the response. */
  | { kind: 'rewrite'; change: (body: Record<string, unknown>) => object | Promise<object> }
  /** Discovery (`issuer`), validly signed ID tokens (`iss`) and the callback (`iss`) name another issuer. */
  | { kind: 'wrong_issuer'; issuer?: string }
  /** ID tokens are signed with a key that is not in the JWK set. */
  | { kind: 'wrong_signature' };

export type Fault = FaultScope & FaultKind;

export interface Faults {
  /** Adds a fault; the latest one that matches a request applies. Returns a function that removes it. */
  set(fault: Fault): () => void;
  clear(): void;
}

export interface FaultBook extends Faults {
  /** Returns the fault for this request, and counts the request. */
  take(listener: ListenerName, method: string, path: string): Fault | undefined;
}

export function createFaults(): FaultBook {
  let entries: { fault: Fault; remaining: number }[] = [];

  return {
    set(fault) {
      const entry = { fault, remaining: fault.times ?? Number.POSITIVE_INFINITY };
      entries.unshift(entry);
      return () => {
        entries = entries.filter((candidate) => candidate !== entry);
      };
    },
    clear() {
      entries = [];
    },
    take(listener, method, path) {
      const entry = entries.find(({ fault, remaining }) => remaining > 0 && matches(fault, listener, method, path));
      if (entry === undefined) return undefined;
      entry.remaining -= 1;
      return entry.fault;
    },
  };
}

function matches(fault: FaultScope, listener: ListenerName, method: string, path: string): boolean {
  if (fault.listener !== listener || (fault.method ?? method) !== method) return false;
  const prefix = (fault.path ?? '/').replace(/\/$/, '');
  return path === prefix || path.startsWith(`${prefix}/`);
}
