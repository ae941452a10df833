/** Owns how much one peer may ask of a listener: bytes, headers, parameters, connections and time; and what is turned away when all is busy (R89). */
import { randomUUID } from 'node:crypto';
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { PROBLEMS, type ProblemCode } from '../errors.ts';

export interface ListenerLimits {
  /** Of the request line and all headers together; what is longer gets 431. */
  headBytes: number;
  headers: number;
  /** Of the request target; what is longer gets 413. */
  targetBytes: number;
  /** In the query; more of them get 400. */
  parameters: number;
  /** Open at a time; whoever comes beyond that is hung up on. */
  connections: number;
  /** Until the last header, and until the last byte of the body, has come; slower ones get 408. */
  headMilliseconds: number;
  requestMilliseconds: number;
  /** How often the two before are checked. */
  checkMilliseconds: number;
  /** Between two requests of a kept connection. Longer than a proxy's own, so that it is the proxy that closes. */
  idleMilliseconds: number;
}

export const LISTENER_LIMITS: ListenerLimits = {
  headBytes: 16 * 1024,
  headers: 100,
  targetBytes: 8 * 1024,
  parameters: 100,
  connections: 10_000,
  headMilliseconds: 10_000,
  requestMilliseconds: 30_000,
  checkMilliseconds: 2_000,
  idleMilliseconds: 65_000,
};

/** A server that cuts off whoever is slow or takes too much, before anything of ours runs. */
export function createLimitedServer(limits: ListenerLimits, listener: RequestListener): Server {
  const options = {
    maxHeaderSize: limits.headBytes,
    headersTimeout: limits.headMilliseconds,
    requestTimeout: limits.requestMilliseconds,
    connectionsCheckingInterval: limits.checkMilliseconds,
    keepAliveTimeout: limits.idleMilliseconds,
  };
  const server = createServer(options, listener);
  // Node drops what is beyond it without a word, so one less is counted than is refused below.
  server.maxHeadersCount = limits.headers + 1;
  server.maxConnections = limits.connections;
  return server;
}

/** How late the event loop is: beyond this again and again, answers come too late to be of use. */
const BUSY_MILLISECONDS = 500;
const WINDOW_MILLISECONDS = 1_000;
const LEAST_SAMPLES = 3;
const RESOLUTION_MILLISECONDS = 20;

/** What is read of Node's histogram of delays; percentiles in nanoseconds. */
type Delays = Pick<ReturnType<typeof monitorEventLoopDelay>, 'count' | 'enable' | 'disable' | 'reset' | 'percentile'>;

export interface BusyGauge {
  isBusy(): boolean;
  stop(): void;
}

/**
 * The median of a window: one long pause, or a process that was stopped, turns nobody away; a queue that does not end does.
 * @param parts `monitor` begins to measure how late the event loop is
 */
export function createBusyGauge({
  windowMilliseconds = WINDOW_MILLISECONDS,
  monitor = monitorEventLoopDelay,
}: {
  windowMilliseconds?: number;
  monitor?: (options: { resolution: number }) => Delays;
} = {}): BusyGauge {
  const delays = monitor({ resolution: RESOLUTION_MILLISECONDS });
  delays.enable();
  let busy = false;
  const windows = setInterval(() => {
    if (delays.count < LEAST_SAMPLES) return;
    busy = delays.percentile(50) / 1e6 - RESOLUTION_MILLISECONDS > BUSY_MILLISECONDS;
    delays.reset();
  }, windowMilliseconds).unref();
  return {
    isBusy: () => busy,
    stop() {
      clearInterval(windows);
      delays.disable();
    },
  };
}

/** @param parts `isBusy`: whether new work is turned away with 503; `onRefused`: hears of each refusal, for metrics */
export function withinLimits(parts: {
  limits: Pick<ListenerLimits, 'headers' | 'targetBytes' | 'parameters'>;
  isBusy: () => boolean;
  onRefused?: (code: ProblemCode) => void;
  publicHref: string;
}): (listener: RequestListener) => RequestListener {
  const { limits, isBusy, publicHref } = parts;
  const refuse = (res: ServerResponse, code: ProblemCode, status: number, headers: Record<string, string>) => {
    parts.onRefused?.(code);
    sendRefusal(res, { code, status, headers, publicHref });
  };
  return (listener) => (req, res) => {
    if (isBusy()) return refuse(res, 'overloaded', 503, { 'Retry-After': '2' });
    if (req.rawHeaders.length > limits.headers * 2) return refuse(res, 'too_large', 431, {});
    const target = req.url ?? '';
    if (target.length > limits.targetBytes) return refuse(res, 'too_large', 413, {});
    if (hasMoreParameters(target, limits.parameters)) return refuse(res, 'invalid_request', 400, {});
    return listener(req, res);
  };
}

function hasMoreParameters(target: string, most: number): boolean {
  let at = target.indexOf('?');
  for (let count = 0; at >= 0; count += 1) {
    if (count >= most) return true;
    at = target.indexOf('&', at + 1);
  }
  return false;
}

/** The connection ends with it: what else comes over it is not read. */
function sendRefusal(
  res: ServerResponse,
  refusal: { code: ProblemCode; status: number; headers: Record<string, string>; publicHref: string },
): void {
  const { code, status, headers, publicHref } = refusal;
  const id = randomUUID();
  const { title } = PROBLEMS[code];
  const type = `${publicHref}/problems/${code}`;
  const body = JSON.stringify({ type, title, status, instance: `urn:uuid:${id}`, code });
  res.writeHead(status, {
    ...headers,
    Connection: 'close',
    'Content-Type': 'application/problem+json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
    'Cache-Control': 'no-store',
    'Content-Security-Policy': "default-src 'none'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    'Referrer-Policy': 'same-origin',
    'X-Content-Type-Options': 'nosniff',
    'X-Request-Id': id,
  });
  res.end(body);
}
