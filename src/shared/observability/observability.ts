/** Makes the log, the metrics, the events that feed both, traces and health. */
import type { RequestListener } from 'node:http';
import type { Config, TracingSettings } from '../config/config.ts';
import { watchClock } from './clock-watch.ts';
import { createEvents } from './events.ts';
import { createHealth } from './health.ts';
import { createLogger, type LogDestination } from './logger.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { createRequestScope } from './request-scope.ts';
import { type StorageFault, watchStorage } from './storage-watch.ts';
import type { Tracing } from './tracing.ts';

export type Observability = Awaited<ReturnType<typeof createObservability>>;

/** @param parts `monotonicClock`: milliseconds that no change of the system's time moves */
export async function createObservability(parts: {
  config: Pick<Config, 'logLevel' | 'tracing'>;
  logDestination: LogDestination;
  clock: () => number;
  monotonicClock: () => number;
}) {
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
    watchStorage: (probe: () => Promise<StorageFault | undefined>) => watchStorage({ probe, events, monotonicClock }),
    healthOf: (parts: Omit<Parameters<typeof createHealth>[0], 'metrics'>) => createHealth({ ...parts, metrics }),
    /** Undefined where tracing is off. */
    tracing,
    beginRequest: requests.begin,
    /** Remembers the request for what it logs, and adds a span where tracing is on. */
    observed: (listener: RequestListener) => requests.around(tracing?.around(listener) ?? listener),
    async close() {
      stopClockWatch();
      await tracing?.close();
    },
  };
}

/** Imports the libraries only where tracing is on. */
async function openTracing(settings: TracingSettings, metrics: Metrics): Promise<Tracing> {
  const { createTracing } = await import('./tracing.ts');
  return createTracing({
    settings,
    factsOf: ({ context }) => context,
    onExported: (outcome, spans) => metrics.spans.inc({ outcome }, spans),
  });
}
