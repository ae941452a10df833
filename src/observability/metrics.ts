/** The metrics: names, labels and registry. Labels have few values; none holds a user, a BIN or a URL. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { PROBLEMS } from '../errors.ts';

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

export type Metrics = ReturnType<typeof createMetrics>;

/** @param droppedLines returns how many lines of the log could not be written */
export function createMetrics(droppedLines: () => number = () => 0) {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });

  /** Starts each value of the label at 0: the `increase()` of alert rules misses the first count otherwise. */
  const counter = <Label extends string>(name: string, help: string, label?: Label, values: readonly string[] = []) => {
    const labelNames = label === undefined ? [] : [label];
    const made = new Counter<Label>({ name: `gatehouse_${name}_total`, help, labelNames, registers });
    for (const value of values) made.inc({ [label ?? '']: value } as Record<Label, string>, 0);
    return made;
  };

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
    help: 'Outgoing calls, by state: running, or waiting for their turn.',
    labelNames: ['state'],
    registers,
    collect() {
      const { running, waiting } = outboundLoad();
      this.set({ state: 'running' }, running);
      this.set({ state: 'waiting' }, waiting);
    },
  });

  return {
    registry,
    /** By route pattern and status class. */
    requests: new Histogram({
      name: 'gatehouse_http_request_duration_seconds',
      help: 'Time from request to the end of the response, by route, method and status.',
      labelNames: ['route', 'method', 'status'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    }),
    signIns: counter('sign_ins', 'Sign-ins and consents that ended, by outcome.', 'outcome', LABEL_VALUES.signIns),
    refreshes: counter('refreshes', 'Refreshes of access tokens, by outcome.', 'outcome', LABEL_VALUES.refreshes),
    connectionsBroken: counter(
      'connections_broken',
      'Connections that ended by themselves and must be made again, by cause.',
      'cause',
      LABEL_VALUES.connectionsBroken,
    ),
    binLookups: counter(
      'bin_lookups',
      'BIN look-ups, by source of the record or by problem.',
      'source',
      LABEL_VALUES.binLookups,
    ),
    binServiceFailures: counter(
      'bin_service_failures',
      'Calls to the BIN lookup service without a usable response, by reason.',
      'reason',
      LABEL_VALUES.binServiceFailures,
    ),
    /** Includes refusals at the listener, before any route. */
    problems: counter('problems', 'Problem responses, by code.', 'code', Object.keys(PROBLEMS)),
    spans: counter('spans', 'Spans for the collector, by outcome: sent or lost.', 'outcome', LABEL_VALUES.spans),
    auditLost: counter(
      'audit_entries_lost',
      'Entries that the audit trail could not store; their events are in the log.',
    ),
    outboundRefused: counter(
      'outbound_refused',
      'Calls refused because too many to the same host were running and waiting.',
    ),
    /** Sets where each scrape reads the number of running and waiting calls. */
    watchOutbound(load: () => { running: number; waiting: number }) {
      outboundLoad = load;
    },
  };
}
