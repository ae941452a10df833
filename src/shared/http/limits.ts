/** Limits the bytes, headers, parameters, connections and time of a peer, and refuses requests under overload (R89). */
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { ProblemCode } from '../errors.ts';
import type { Refuse } from './refusal.ts';

export interface ListenerLimits {
  /** Size of the request line and all headers together; a larger head gets 431. */
  headBytes: number;
  headers: number;
  /** Length of the request target; a longer one gets 414. */
  targetBytes: number;
  /** Number of parameters in the query; a request with more gets 400. */
  parameters: number;
  /** Number of open connections; further ones are closed at once. */
  connections: number;
  /** Number of idle connections of one address (IPv6: one /64); `TRUSTED_PROXIES` have no cap. */
  idlePerAddress: number;
  /**
   * Time until the last header has arrived, and time until the last byte of the body has arrived. Slower requests get
   * 408.
   */
  headMilliseconds: number;
  requestMilliseconds: number;
  /** The interval at which these two times are checked. */
  checkMilliseconds: number;
  /**
   * Time between two requests of a connection. It is longer than that of common proxies, so that the proxy closes
   * first.
   */
  idleMilliseconds: number;
}

export const LISTENER_LIMITS: ListenerLimits = {
  headBytes: 16 * 1024,
  headers: 100,
  targetBytes: 8 * 1024,
  parameters: 100,
  connections: 10_000,
  idlePerAddress: 500,
  headMilliseconds: 10_000,
  requestMilliseconds: 30_000,
  checkMilliseconds: 2_000,
  idleMilliseconds: 65_000,
};

/** Creates a server that closes connections beyond these limits before any handler runs. */
export function createLimitedServer(limits: ListenerLimits, listener: RequestListener): Server {
  const options = {
    // `enforceRequestLimits` refuses a head that is up to twice too large, since it knows whose request it is.
    maxHeaderSize: limits.headBytes * 2,
    headersTimeout: limits.headMilliseconds,
    requestTimeout: limits.requestMilliseconds,
    connectionsCheckingInterval: limits.checkMilliseconds,
    keepAliveTimeout: limits.idleMilliseconds,
  };
  // `enforceRequestLimits` refuses a missing Host and unknown expectations: Node's refusals would lack our headers.
  const server = createServer({ ...options, requireHostHeader: false }, listener);
  server.on('checkExpectation', listener);
  // Node silently drops headers beyond this count. With room for one more, `enforceRequestLimits` sees the excess.
  server.maxHeadersCount = limits.headers + 1;
  server.maxConnections = limits.connections;
  return server;
}

/** Above this median delay of the event loop, responses come too late to be useful. */
const BUSY_MS = 500;
const WINDOW_MS = 1_000;
const MIN_SAMPLES = 3;
const RESOLUTION_MS = 20;

/** The part of Node's delay histogram that is used here. Percentiles are in nanoseconds. */
interface Delays {
  readonly count: number;
  enable(): boolean;
  disable(): boolean;
  reset(): void;
  percentile(percentile: number): number;
}

export interface EventLoopMonitor {
  isBusy(): boolean;
  stop(): void;
}

/**
 * Monitors the event loop by the median of a window: a persistent queue counts as busy, one long pause or a suspended
 * process does not.
 * @param parts `monitor`: starts to measure the delay of the event loop
 */
export function createEventLoopMonitor({
  windowMilliseconds = WINDOW_MS,
  monitor = monitorEventLoopDelay,
}: {
  windowMilliseconds?: number;
  monitor?: (options: { resolution: number }) => Delays;
} = {}): EventLoopMonitor {
  const delays = monitor({ resolution: RESOLUTION_MS });
  delays.enable();
  let isBusy = false;
  const windowTimer = setInterval(() => {
    if (delays.count < MIN_SAMPLES) return;
    isBusy = delays.percentile(50) / 1e6 - RESOLUTION_MS > BUSY_MS;
    delays.reset();
  }, windowMilliseconds).unref();
  return {
    isBusy: () => isBusy,
    stop() {
      clearInterval(windowTimer);
      delays.disable();
    },
  };
}

/**
 * Returns a function that wraps a listener with the limits.
 * @param parts `isBusy`: whether to refuse new requests with 503
 */
export function enforceRequestLimits(parts: {
  limits: Pick<ListenerLimits, 'headBytes' | 'headers' | 'targetBytes' | 'parameters'>;
  isBusy: () => boolean;
  refuse: Refuse;
}): (listener: RequestListener) => RequestListener {
  const { limits, isBusy } = parts;
  const refuse = (res: ServerResponse, code: ProblemCode, status: number, addedHeaders: Record<string, string>) => {
    const { method, headers } = res.req;
    const { accept, cookie } = headers;
    const response = parts.refuse({ code, status, method, accept, cookie });
    res.writeHead(status, { ...addedHeaders, ...response.headers });
    res.end(response.body);
  };
  return (listener) => (req, res) => {
    if (isBusy()) return refuse(res, 'overloaded', 503, { 'Retry-After': '2' });
    if (req.rawHeaders.length > limits.headers * 2 || headBytesOf(req) > limits.headBytes)
      return refuse(res, 'too_large', 431, {});
    const target = req.url ?? '';
    if (target.length > limits.targetBytes) return refuse(res, 'too_large', 414, {});
    if (hasMoreParameters(target, limits.parameters)) return refuse(res, 'invalid_request', 400, {});
    if (req.headers.host === undefined && req.httpVersion === '1.1') return refuse(res, 'invalid_request', 400, {});
    if (hasUnmetExpectation(req)) return refuse(res, 'invalid_request', 417, {});
    return listener(req, res);
  };
}

/** Returns the size of the request line and the headers, as Node counts it. */
function headBytesOf({ method = '', url = '', rawHeaders }: IncomingMessage): number {
  let bytes = method.length + url.length;
  for (const text of rawHeaders) bytes += text.length;
  return bytes;
}

/** Returns true for an unknown expectation, by the pattern of Node's own check (RFC 9110 section 10.1.1). */
function hasUnmetExpectation({ headers: { expect } }: IncomingMessage): boolean {
  return expect !== undefined && !/(?:^|\W)100-continue(?:$|\W)/i.test(expect);
}

function hasMoreParameters(target: string, max: number): boolean {
  let separator = target.indexOf('?');
  for (let count = 0; separator >= 0; count += 1) {
    if (count >= max) return true;
    separator = target.indexOf('&', separator + 1);
  }
  return false;
}
