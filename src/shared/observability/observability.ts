/** Creates the log and the metrics, the events that go to both, the traces, and the health of a process. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { RequestListener } from 'node:http';
import type { Config, TracingSettings } from '../config/config.ts';
import { createEvents, type EventSource } from './events.ts';
import { createHealth, type Health, type HealthParts } from './health.ts';
import { createLogger, type LogDestination } from './logger.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { type StorageFault, type StorageWatch, watchStorage } from './storage-watch.ts';
import type { Tracing } from './tracing.ts';

export interface Observability {
  events: EventSource;
  metrics: Metrics;
  watchStorage(probe: () => Promise<StorageFault | undefined>): StorageWatch;
  healthOf(parts: Omit<HealthParts, 'metrics'>): Health;
  /** Undefined if tracing is off. */
  tracing: Tracing | undefined;
  /** Sets the id of the current request. */
  beginRequest(requestId: string): void;
  /** Wraps a listener so that log lines have the id of their request, and requests have spans if tracing is on. */
  observed(listener: RequestListener): RequestListener;
  close(): Promise<void>;
}

/** @param parts `monotonicClock`: milliseconds, unaffected by changes of the system time */
export async function createObservability(parts: {
  config: Pick<Config, 'logLevel' | 'tracing'>;
  logDestination: LogDestination;
  clock: () => number;
  monotonicClock: () => number;
}): Promise<Observability> {
  const { config, logDestination, clock, monotonicClock } = parts;
  const metrics = createMetrics(logDestination.dropped);
  const tracing = config.tracing && (await openTracing(config.tracing, metrics));
  const requests = createRequestScope();
  const logger = createLogger({
    level: config.logLevel,
    destination: logDestination,
    context: () => ({ requestId: requests.requestId(), traceId: tracing?.traceId() }),
  });
  const events = createEvents({ logger, metrics });
  const stopClockWatch = watchClock({ clock, monotonicClock, onJump: (seconds) => events.clockJumped({ seconds }) });
  return {
    events,
    metrics,
    watchStorage: (probe) => watchStorage({ probe, events, monotonicClock }),
    healthOf: (parts) => createHealth({ ...parts, metrics }),
    tracing,
    beginRequest: requests.begin,
    observed: (listener) => requests.around(tracing?.around(listener) ?? listener),
    async close() {
      stopClockWatch();
      await tracing?.close();
    },
  };
}

/** Imports the tracing libraries, which are not loaded if tracing is off. */
async function openTracing(settings: TracingSettings, metrics: Metrics): Promise<Tracing> {
  const { createTracing } = await import('./tracing.ts');
  return createTracing({
    settings,
    factsOf: ({ context }) => context,
    onExported: (outcome, spans) => metrics.spans.inc({ outcome }, spans),
  });
}

/** The scope of a request. It is small, because a connection that the request opens retains it. */
interface Scope {
  requestId: string | undefined;
}

interface RequestScope {
  around(listener: RequestListener): RequestListener;
  /** Sets the id of the current request. */
  begin(requestId: string): void;
  /** Returns the id of the current request; undefined outside requests, such as in a scheduled task. */
  requestId(): string | undefined;
}

/** Associates running code with its request, so that log lines have the id of the request. */
function createRequestScope(): RequestScope {
  const scopes = new AsyncLocalStorage<Scope>();
  return {
    around: (listener) => (req, res) => scopes.run({ requestId: undefined }, listener, req, res),
    begin(requestId) {
      const scope = scopes.getStore();
      if (scope) scope.requestId = requestId;
    },
    requestId: () => scopes.getStore()?.requestId,
  };
}

const CHECK_INTERVAL_MS = 10_000;
const MIN_JUMP_MS = 30_000;

/**
 * Compares the system clock, by which sessions and tokens expire, with the monotonic clock to detect that it was set. A
 * suspended machine also causes a jump.
 * @returns a function that stops the watch
 */
export function watchClock(parts: {
  clock: () => number;
  monotonicClock: () => number;
  onJump: (seconds: number) => void;
  intervalMilliseconds?: number;
}): () => void {
  const { clock, monotonicClock, onJump, intervalMilliseconds = CHECK_INTERVAL_MS } = parts;
  const difference = () => clock() - monotonicClock();
  let lastDifference = difference();
  const timer = setInterval(() => {
    const currentDifference = difference();
    const jump = currentDifference - lastDifference;
    lastDifference = currentDifference;
    if (Math.abs(jump) >= MIN_JUMP_MS) onJump(Math.round(jump / 1_000));
  }, intervalMilliseconds);
  timer.unref();
  return () => clearInterval(timer);
}
