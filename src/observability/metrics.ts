/** Owns the metrics: their names, labels and registry. Labels have few values; none holds a user, a BIN or a URL. */
import { Counter, collectDefaultMetrics, Histogram, Registry } from 'prom-client';

export interface Metrics {
  registry: Registry;
  /** Seconds from request to the end of the answer, by route pattern, method and status class. */
  requests: Histogram<'route' | 'method' | 'status'>;
  signIns: Counter<'outcome'>;
  refreshes: Counter<'outcome'>;
  binLookups: Counter<'source'>;
}

export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  return {
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
  };
}
