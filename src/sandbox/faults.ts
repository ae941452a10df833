/** Fault switches for tests: which requests fail, how, and how often. Only this process can set them. */
import type { ListenerName } from './listeners.ts';

/** Matches requests to the listener `on` whose path is `path` or below it. A missing field matches everything. */
export interface FaultScope {
  on: ListenerName;
  path?: string;
  method?: string;
  /** The number of requests after which the fault ends. */
  times?: number;
}

export type FaultKind =
  /** Handled as usual after a delay. */
  | { kind: 'slow'; ms: number }
  /** Handled as usual once the promise is settled. */
  | { kind: 'hold'; until: Promise<unknown> }
  /** 500 with an HTML page. */
  | { kind: 'error' }
  /** 503 with JSON and `Retry-After` (default 5). */
  | { kind: 'unavailable'; retryAfterSeconds?: number }
  /** 200 with a JSON content type and random bytes. */
  | { kind: 'garbage' }
  /** 200 with an endless body, one byte at a time (default every 1000 ms). */
  | { kind: 'drip'; intervalMs?: number }
  /** 200 with a streamed JSON string of `bytes` bytes (default 200 MB). */
  | { kind: 'huge'; bytes?: number }
  /**
   * The connection is reset: before a response, within the body, or after the request took effect but before the
   * response.
   */
  | { kind: 'reset'; when?: 'before_headers' | 'after_headers' | 'after_handling' }
  /** 200 that ends before its Content-Length. */
  | { kind: 'truncated' }
  /** This response instead. An object is sent as JSON, a string unchanged. */
  | { kind: 'response'; status: number; body?: string | object; headers?: Record<string, string> }
  /** Handled as usual, but with changed JSON in the response. */
  | { kind: 'rewrite'; change: (body: Record<string, unknown>) => object | Promise<object> }
  /** Another issuer in discovery (`issuer`), in validly signed ID tokens (`iss`) and in the callback (`iss`). */
  | { kind: 'wrong_issuer'; issuer?: string }
  /** ID tokens signed by a key that is not in the JWK set. */
  | { kind: 'wrong_signature' };

export type Fault = FaultScope & FaultKind;

export interface Faults {
  /** Adds a fault; the latest one that matches a request applies. Returns a function that removes it. */
  set(fault: Fault): () => void;
  clear(): void;
}

export interface FaultBook extends Faults {
  /** Returns the fault for this request, and counts the request. */
  take(on: ListenerName, method: string, path: string): Fault | undefined;
}

export function createFaults(): FaultBook {
  let switches: { fault: Fault; remaining: number }[] = [];

  return {
    set(fault) {
      const entry = { fault, remaining: fault.times ?? Number.POSITIVE_INFINITY };
      switches.unshift(entry);
      return () => {
        switches = switches.filter((other) => other !== entry);
      };
    },
    clear() {
      switches = [];
    },
    take(on, method, path) {
      const entry = switches.find(({ fault, remaining }) => remaining > 0 && matches(fault, on, method, path));
      if (entry === undefined) return undefined;
      entry.remaining -= 1;
      return entry.fault;
    },
  };
}

function matches(fault: FaultScope, on: ListenerName, method: string, path: string): boolean {
  if (fault.on !== on || (fault.method ?? method) !== method) return false;
  const prefix = (fault.path ?? '/').replace(/\/$/, '');
  return path === prefix || path.startsWith(`${prefix}/`);
}
