/** The metrics: names, labels and registry. Labels have few values, and none is a user, a BIN or a URL. */
import { PROBLEMS } from '../errors.ts';
import { VERSION } from '../version.ts';
import { type AppCounter, type AppHistogram, createAppSeries, type RegisteredApps } from './app-series.ts';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from './prom-client.ts';
import { STORAGE_REFUSALS, type StorageFault } from './storage-watch.ts';
import { createStoredGauges, type WatchedFacts } from './stored-gauges.ts';

/** The label values of each counter. */
export const LABEL_VALUES = {
  signIns: ['signed_in', 'connected', 'refused', 'failed'],
  refreshes: ['refreshed', 'refused', 'unclear_refusal', 'unavailable', 'unusable', 'app_fault'],
  reconnectsNeeded: ['grant_refused', 'lost_in_failover', 'response_lost', 'access_ended'],
  binLookups: [
    'dataset',
    'service',
    'cache',
    'rules',
    'bin_not_found',
    'bin_quota_exhausted',
    'bin_user_quota_exhausted',
    'bin_service_unavailable',
  ],
  binServiceFailures: ['timeout', 'connection', 'status', 'response', 'key_refused', 'paused', 'busy'],
  spans: ['sent', 'lost'],
  relayCalls: ['succeeded', 'failed', 'refused'],
  countsLost: ['relay_uses', 'overview', 'bin_lookups'],
  outboundRequests: [
    '2xx',
    '3xx',
    '4xx',
    '5xx',
    'timeout',
    'connection',
    'address',
    'busy',
    'too_large',
    'encoding',
    'stopped',
  ],
} as const;

/** Gauges of prom-client whose suffix is for counters. Each is the sum of a gauge with the label `type`. */
const MISNAMED = ['nodejs_active_resources_total', 'nodejs_active_handles_total', 'nodejs_active_requests_total'];

/** `storageFault`: undefined if the storage accepted the last write of the probe. */
interface Readiness {
  ready: boolean;
  storageFault: StorageFault['reason'] | undefined;
}

interface OutboundLoad {
  running: number;
  waiting: number;
}

/** The metrics that events and modules update. `docs/operating-reference.md` describes each. */
export interface Metrics {
  registry: Registry;
  /** The duration of requests in seconds, by route pattern, method and class of the status. */
  requests: Histogram<'route' | 'method' | 'status'>;
  signIns: AppCounter;
  refreshes: AppCounter;
  refreshDuration: AppHistogram;
  relayCalls: AppCounter;
  outboundEnded(call: { app: string | undefined; peer: string; outcome: string; seconds: number }): void;
  /** Sets the source of the connected apps. Before that, every id counts as `other`. */
  watchApps(registered: RegisteredApps): void;
  /** Sets the source of the facts of the storage. */
  watchStored(facts: WatchedFacts): void;
  /** Returns the histogram of a storage command. Call it once for each command. */
  storageCommand(command: string): { observe(seconds: number): void };
  storageLogBytes(bytes: number): void;
  connectLinksUsed: Counter;
  reconnectsNeeded: Counter<'cause'>;
  scopesMissing: Counter;
  binLookups: Counter<'result'>;
  binServiceFailures: Counter<'reason'>;
  /** Problem responses, including those to requests that reach no route. */
  problems: Counter<'code'>;
  spans: Counter<'outcome'>;
  auditLost: Counter;
  announcementsLost: Counter;
  listingsLost: Counter;
  countsLost: Counter<'kind'>;
  outboundRefused: Counter;
  slowNames: Counter;
  /** Sets the source of readiness, which each scrape reads. */
  watchReadiness(read: () => Readiness): void;
  /** Sets the source of the number of running and waiting calls, which each scrape reads. */
  watchOutbound(load: () => OutboundLoad): void;
}

/** @param droppedLines returns the number of log lines that could not be written */
export function createMetrics(droppedLines: () => number = () => 0): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics(registry);
  for (const name of MISNAMED) registry.removeSingleMetric(name);

  /** Initialises each label value with 0, because the `increase()` of alert rules would miss a first count. */
  const counter = <Label extends string>(name: string, help: string, label?: Label, values: readonly string[] = []) => {
    const labelNames = label === undefined ? [] : [label];
    const created = new Counter<Label>({ name: `gatehouse_${name}_total`, help, labelNames, registers });
    for (const value of values) created.inc({ [label ?? '']: value } as Record<Label, string>, 0);
    return created;
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
  new Gauge({
    name: 'gatehouse_build_info',
    help: 'Always 1: the labels are the versions of this program and of Node.',
    labelNames: ['version', 'node'],
    registers,
  }).set({ version: VERSION, node: process.versions.node }, 1);
  let readiness = (): Readiness => ({ ready: false, storageFault: 'storage' });
  const flag = (name: string, help: string, isSet: () => boolean) =>
    new Gauge({
      name: `gatehouse_${name}`,
      help,
      registers,
      collect() {
        this.set(Number(isSet()));
      },
    });
  flag('ready', '1 if the process accepts requests, as /readyz reports.', () => readiness().ready);
  flag('storage_up', '1 if the storage accepted the last write of the probe.', () => !readiness().storageFault);
  new Gauge({
    name: 'gatehouse_storage_refused',
    help: 'By reason, 1 if the process refuses the storage: it is not the one of the start, or must not be used in its state.',
    labelNames: ['reason'],
    registers,
    collect() {
      for (const reason of STORAGE_REFUSALS) this.set({ reason }, Number(readiness().storageFault === reason));
    },
  });
  const { watchApps, ...ofApps } = createAppSeries(registers);
  const outcomes = (values: readonly string[]) => values.map((outcome) => [outcome]);
  const peers = { ofApps: ['provider', 'platform'], withoutApp: ['webhook', 'bin_service'] };

  const outboundRequests = ofApps.counter('outbound_requests', 'Outgoing calls that ended, by app, peer and outcome.', {
    names: ['peer', 'outcome'],
    ofApps: withPeers(peers.ofApps, LABEL_VALUES.outboundRequests),
    withoutApp: withPeers(peers.withoutApp, LABEL_VALUES.outboundRequests),
  });
  const outboundDuration = ofApps.histogram('outbound_request_duration', 'Time of outgoing calls, by app and peer.', {
    names: ['peer'],
    ofApps: peers.ofApps.map((peer) => [peer]),
    withoutApp: peers.withoutApp.map((peer) => [peer]),
  });
  const storageDuration = new Histogram({
    name: 'gatehouse_storage_command_duration_seconds',
    help: 'Time of the commands to the storage, and of the flushes of SQLite.',
    labelNames: ['command'],
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
    registers,
  });
  const storageLog = new Gauge({
    name: 'gatehouse_storage_log_bytes',
    help: 'Size of the log of the SQLite database. It stays at 0 with Redis.',
    registers,
  });
  let outboundLoad = (): OutboundLoad => ({ running: 0, waiting: 0 });
  new Gauge({
    name: 'gatehouse_outbound_calls',
    help: 'Outgoing calls, by state: running, or waiting.',
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
    requests: new Histogram({
      name: 'gatehouse_http_request_duration_seconds',
      help: 'Time from the request to the end of the response, by route, method and status.',
      labelNames: ['route', 'method', 'status'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    }),
    signIns: ofApps.counter('sign_ins', 'Sign-ins and consents that ended, by app and outcome.', {
      names: ['outcome'],
      ofApps: outcomes(LABEL_VALUES.signIns),
    }),
    refreshes: ofApps.counter('refreshes', 'Refreshes of access tokens, by app and outcome.', {
      names: ['outcome'],
      ofApps: outcomes(LABEL_VALUES.refreshes),
    }),
    refreshDuration: ofApps.histogram('refresh_duration', 'Time of the call that refreshes an access token, by app.'),
    relayCalls: ofApps.counter('relay_calls', 'Calls of services with a relay token, by app and outcome.', {
      names: ['outcome'],
      ofApps: outcomes(LABEL_VALUES.relayCalls),
      withoutApp: outcomes(LABEL_VALUES.relayCalls),
    }),
    outboundEnded({ app, peer, outcome, seconds }) {
      outboundRequests.inc(app, `${peer},${outcome}`);
      outboundDuration.observe(app, seconds, peer);
    },
    watchApps,
    watchStored: createStoredGauges(registers),
    storageCommand(command) {
      storageDuration.zero({ command });
      return storageDuration.labels({ command });
    },
    storageLogBytes: (bytes) => storageLog.set(bytes),
    connectLinksUsed: counter('connect_links_used', 'Connect links that a user has used to connect an app.'),
    reconnectsNeeded: counter(
      'reconnects_needed',
      'Connections that ended by themselves and need reconnecting, by cause.',
      'cause',
      LABEL_VALUES.reconnectsNeeded,
    ),
    scopesMissing: counter('connections_scopes_missing', 'Connections found to lack scopes that their app requires.'),
    binLookups: counter(
      'bin_lookups',
      'BIN lookups, by the source of the record, or by the reason why there is none.',
      'result',
      LABEL_VALUES.binLookups,
    ),
    binServiceFailures: counter(
      'bin_service_failures',
      'Calls to the BIN lookup service without a usable response, by reason.',
      'reason',
      LABEL_VALUES.binServiceFailures,
    ),
    problems: counter('problems', 'Problem responses, by code.', 'code', Object.keys(PROBLEMS)),
    spans: counter('spans', 'Spans for the collector, by outcome: sent or lost.', 'outcome', LABEL_VALUES.spans),
    auditLost: counter(
      'audit_entries_lost',
      'Entries that the audit trail could not store; their events are in the log.',
    ),
    announcementsLost: counter(
      'webhook_messages_lost',
      'Events of connections whose messages to webhooks could not be stored.',
    ),
    listingsLost: counter('connections_not_listed', 'Connections whose entry in the admin lists could not be stored.'),
    countsLost: counter(
      'counts_lost',
      'Counts for admin pages that could not be stored, by kind.',
      'kind',
      LABEL_VALUES.countsLost,
    ),
    outboundRefused: counter(
      'outbound_refused',
      'Calls refused because too many to the same host were running and waiting.',
    ),
    slowNames: counter('slow_name_lookups', 'Lookups of host names that took longer than a second.'),
    watchReadiness(read) {
      readiness = read;
    },
    watchOutbound(load) {
      outboundLoad = load;
    },
  };
}

const withPeers = (peers: readonly string[], outcomes: readonly string[]) =>
  peers.flatMap((peer) => outcomes.map((outcome) => [peer, outcome]));
