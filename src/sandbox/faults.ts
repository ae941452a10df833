/** Owns the fault switches: which requests are to go wrong, how, and how often. Reachable from this process only. */
import type { ListenerName } from './listeners.ts';

/** Which requests: those to `on` whose path is `path` or lies below it. Everything left out means "all". */
export interface FaultScope {
  on: ListenerName;
  path?: string;
  method?: string;
  /** After so many requests the switch turns itself off. */
  times?: number;
}

export type FaultKind =
  /** Handled as usual, after a while. */
  | { kind: 'slow'; ms: number }
  /** Handled as usual, once the promise is settled. */
  | { kind: 'hold'; until: Promise<unknown> }
  /** 500 with an HTML page. */
  | { kind: 'error' }
  /** 503 with JSON and `Retry-After` (default 5). */
  | { kind: 'unavailable'; retryAfterSeconds?: number }
  /** 200 that calls itself JSON and is noise. */
  | { kind: 'garbage' }
  /** 200 whose body comes a byte at a time (default one each 1000 ms) and does not end. */
  | { kind: 'drip'; intervalMs?: number }
  /** 200 with a JSON string of so many bytes (default 200 MB), streamed. */
  | { kind: 'huge'; bytes?: number }
  /** The connection is cut: unanswered, amid the body, or after the request took effect but before its answer. */
  | { kind: 'reset'; when?: 'before_headers' | 'after_headers' | 'after_handling' }
  /** 200 that ends before its Content-Length is reached. */
  | { kind: 'truncated' }
  /** Exactly this answer instead; an object is sent as JSON, a string as it is. */
  | { kind: 'answer'; status: number; body?: string | object; headers?: Record<string, string> }
  /** Handled as usual, then the JSON of the answer is changed. */
  | { kind: 'rewrite'; change: (body: Record<string, unknown>) => object | Promise<object> }
  /** Another issuer in discovery (`issuer`), in ID tokens (`iss`, properly signed) and in the callback (`iss`). */
  | { kind: 'wrong_issuer'; issuer?: string }
  /** ID tokens signed by a key that is not in the JWK set. */
  | { kind: 'wrong_signature' };

export type Fault = FaultScope & FaultKind;

export interface Faults {
  /** Switches a fault on; the latest that fits a request is taken. Returns what switches it off again. */
  set(fault: Fault): () => void;
  clear(): void;
}

export interface FaultBook extends Faults {
  /** The fault that this request is to meet, counted as met. */
  take(on: ListenerName, method: string, path: string): Fault | undefined;
}

export function createFaults(): FaultBook {
  let switches: { fault: Fault; left: number }[] = [];

  return {
    set(fault) {
      const entry = { fault, left: fault.times ?? Number.POSITIVE_INFINITY };
      switches.unshift(entry);
      return () => {
        switches = switches.filter((one) => one !== entry);
      };
    },
    clear() {
      switches = [];
    },
    take(on, method, path) {
      const entry = switches.find(({ fault, left }) => left > 0 && fits(fault, on, method, path));
      if (entry === undefined) return undefined;
      entry.left -= 1;
      return entry.fault;
    },
  };
}

function fits(fault: FaultScope, on: ListenerName, method: string, path: string): boolean {
  if (fault.on !== on || (fault.method ?? method) !== method) return false;
  const prefix = (fault.path ?? '/').replace(/\/$/, '');
  return path === prefix || path.startsWith(`${prefix}/`);
}
