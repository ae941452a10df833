/** The metrics: names, labels and registry. Labels have few values; none holds a user, a BIN or a URL. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { PROBLEMS } from '../errors.ts';

export interface Metrics {
  registry: Registry;
  /** Seconds from the request to the end of the response, by route pattern, method and status class. */
  requests: Histogram<'route' | 'method' | 'status'>;
  signIns: Counter<'outcome'>;
  refreshes: Counter<'outcome'>;
  binLookups: Counter<'source'>;
  binServiceFailures: Counter<'reason'>;
  /** By problem code; includes refusals at the listener, before any route. */
  problems: Counter<'code'>;
  connectionsBroken: Counter<'cause'>;
  auditLost: Counter;
  outboundRefused: Counter;
  spans: Counter<'outcome'>;
  /** Sets where each scrape reads the number of running and waiting calls. */
  watchOutbound(load: () => { running: number; waiting: number }): void;
}

/** The values of each counter's label. */
export const LABEL_VALUES = {
  signIns: ['signed_in', 'connected', 'refused', 'failed'],
  refreshes: ['refreshed', 'refused', 'doubtful', 'unavailable', 'unusable', 'app_fault'],
  connectionsBroken: ['grant_refused', 'answer_lost', 'access_ended'],
  binLookups: [
    ...(['dataset', 'service', 'cache', 'rules'] as const),
    ...(['bin_not_found', 'bin_quota_exhausted', 'bin_user_quota_exhausted', 'bin_service_unavailable'] as const),
  ],
  binServiceFailures: ['timeout', 'connection', 'status', 'answer', 'key_refused', 'paused'],
  spans: ['sent', 'lost'],
} as const;

/** @param droppedLines returns how many lines of the log could not be written */
export function createMetrics(droppedLines: () => number = () => 0): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  new Counter({
    name: 'gatehouse_log_lines_dropped_total',
    help: 'Lines of the log that could not be written.',
    registers,
    collect() {
      this.reset();
      this.inc(droppedLines());
    },
  });
  let outboundLoad = () => ({ running: 0, waiting: 0 });
  new Gauge({
    name: 'gatehouse_outbound_calls',
    help: 'Calls that leave just now, by state: running, or waiting for their turn.',
    labelNames: ['state'],
    registers,
    collect() {
      const { running, waiting } = outboundLoad();
      this.set({ state: 'running' }, running);
      this.set({ state: 'waiting' }, waiting);
    },
  });
  const metrics: Metrics = {
    registry,
    requests: new Histogram({
      name: 'gatehouse_http_request_duration_seconds',
      help: 'Time from request to the end of the answer, by route, method and status.',
      labelNames: ['route', 'method', 'status'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    }),
    signIns: new Counter({
      name: 'gatehouse_sign_ins_total',
      help: 'Sign-ins and consents that ended, by outcome.',
      labelNames: ['outcome'],
      registers,
    }),
    refreshes: new Counter({
      name: 'gatehouse_refreshes_total',
      help: 'Refreshes of access tokens that ended, by outcome.',
      labelNames: ['outcome'],
      registers,
    }),
    binLookups: new Counter({
      name: 'gatehouse_bin_lookups_total',
      help: 'BIN look-ups that were answered, by source of the answer, or by problem.',
      labelNames: ['source'],
      registers,
    }),
    binServiceFailures: new Counter({
      name: 'gatehouse_bin_service_failures_total',
      help: 'Calls to the BIN lookup service that brought no usable answer, by reason.',
      labelNames: ['reason'],
      registers,
    }),
    problems: new Counter({
      name: 'gatehouse_problems_total',
      help: 'Requests that were answered with a problem, by its code.',
      labelNames: ['code'],
      registers,
    }),
    connectionsBroken: new Counter({
      name: 'gatehouse_connections_broken_total',
      help: 'Connections that ended by themselves and must be made again, by cause.',
      labelNames: ['cause'],
      registers,
    }),
    auditLost: new Counter({
      name: 'gatehouse_audit_entries_lost_total',
      help: 'Entries that the audit trail could not keep; their events are in the log.',
      registers,
    }),
    outboundRefused: new Counter({
      name: 'gatehouse_outbound_refused_total',
      help: 'Calls that did not leave, since too many to the same host ran and waited already.',
      registers,
    }),
    spans: new Counter({
      name: 'gatehouse_spans_total',
      help: 'Spans of traces that were handed to the collector, by outcome: sent or lost.',
      labelNames: ['outcome'],
      registers,
    }),
    watchOutbound(load) {
      outboundLoad = load;
    },
  };
  startAtZero(metrics);
  return metrics;
}

/** Alert rules use `increase()`, which misses the first count of a series that does not start at 0. */
function startAtZero(metrics: Metrics): void {
  for (const code of Object.keys(PROBLEMS)) metrics.problems.inc({ code }, 0);
  for (const outcome of LABEL_VALUES.signIns) metrics.signIns.inc({ outcome }, 0);
  for (const outcome of LABEL_VALUES.refreshes) metrics.refreshes.inc({ outcome }, 0);
  for (const cause of LABEL_VALUES.connectionsBroken) metrics.connectionsBroken.inc({ cause }, 0);
  for (const source of LABEL_VALUES.binLookups) metrics.binLookups.inc({ source }, 0);
  for (const reason of LABEL_VALUES.binServiceFailures) metrics.binServiceFailures.inc({ reason }, 0);
  for (const outcome of LABEL_VALUES.spans) metrics.spans.inc({ outcome }, 0);
}
