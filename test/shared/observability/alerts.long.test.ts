/** Tests each alert rule with promtool: scenarios that must fire it, and small failures that must not. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sandboxApp, signIn, startSite } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingPrometheus, promtool } from '../../support/prometheus.ts';
import { sendRequest } from '../../support/send-request.ts';

const RULES = join(import.meta.dirname, '../../..', 'docs', 'alerts.yml');
const rules = readFileSync(RULES, 'utf8');
const alertNames = [...rules.matchAll(/^ {6}- alert: (\w+)$/gm)].map(([, name = '']) => name);
/** The text before the first rule, and the text of each rule. */
const [HEAD = '', ...RULE_TEXTS] = rules.split(/^(?= {6}- alert: )/m);
const metricsOf = (text: string) => new Set(text.match(/\b(?:up|(?:gatehouse|process|nodejs)_\w+)(?=\{)/g));

/** Seconds between two values of a series. Thresholds must also hold with slow scrapes. */
const SCRAPE_SECONDS = 30;
const HOUR = 3_600;
const DAY = 24 * HOUR;

const LAST_BACKUP = 'gatehouse_last_backup_age_seconds';
const SECRET = 'gatehouse_client_secret_remaining_seconds';

/** Evaluated once a minute, the default of Prometheus. */
const NIGHT = { seconds: 3 * HOUR, evaluationSeconds: 60 };
/** For scenarios of days, which would take promtool minutes otherwise. */
const COARSE = { scrapeSeconds: 120, evaluationSeconds: 120 };

type Labels = Record<string, string>;
/** The value at a time in seconds; undefined if nothing is scraped. */
type Course = (seconds: number) => number | undefined;

interface Change {
  metric: string;
  labels?: Labels;
  /** One process; default: both. */
  instance?: string;
  course: Course;
}

interface Scenario {
  /** Default: one hour. */
  seconds?: number;
  scrapeSeconds?: number;
  /** Between two evaluations of the rules. Default: 30. */
  evaluationSeconds?: number;
  changes: Change[];
  /** Alerts that fire at any time, with their label of an app or a process. */
  fires: string[];
}

const INSTANCES = ['10.0.0.5:3009', '10.0.0.6:3009'];
const [FIRST = '', SECOND = ''] = INSTANCES;

/** The metrics of a real Gatehouse with two apps before any failure. */
let samples: { metric: string; labels: Labels; value: number }[] = [];
let directory: string;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-alerts-'));
  const site = await startSite({
    apps: (parts) => [sandboxApp(parts, 'platform'), sandboxApp(parts, 'second', { signIn: undefined })],
  });
  const { agent } = await signIn(site);
  await agent.get(`${site.url}/session`);
  const { body } = await sendRequest(`${site.managementUrl}/metrics`);
  await site.close();
  const named = metricsOf(rules);
  samples = [...body.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)]
    .map(([, metric = '', labels = '', value]) => ({ metric, labels: readLabels(labels), value: Number(value) }))
    // One route represents all.
    .filter(({ metric, labels: { route } }) => named.has(metric) && (route === undefined || route === '/session'));
  // The value of an idle process, because this machine may be busy with other tests.
  for (const sample of samples) if (sample.metric === 'nodejs_eventloop_lag_p90_seconds') sample.value = 0.01;
  samples.push({ metric: 'up', labels: {}, value: 1 });
  // These two need a backup, and a provider that sends the end of a client secret: see stored-gauges.test.ts.
  samples.push({ metric: LAST_BACKUP, labels: {}, value: HOUR });
  samples.push({ metric: SECRET, labels: { app: 'platform' }, value: 90 * DAY });
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const readLabels = (text: string): Labels =>
  Object.fromEntries([...text.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = '', value = '']) => [name, value]));
const writeLabels = (labels: Labels) =>
  `{${Object.entries(labels)
    .map(([name, value]) => `${name}="${value}"`)
    .join(',')}}`;
const isWithin = (part: Labels, whole: Labels) => Object.entries(part).every(([name, value]) => whole[name] === value);

/**
 * The alerts that fire at any time of the scenario. promtool runs only the rules that read a changed metric. For all
 * other rules the scenario equals the night without a request, which runs all rules.
 */
function firing({
  seconds = HOUR,
  scrapeSeconds = SCRAPE_SECONDS,
  evaluationSeconds = 30,
  changes,
}: Scenario): string[] {
  const changed = new Set(changes.map(({ metric }) => metric));
  const selectedRules = RULE_TEXTS.filter((text) => changes.length === 0 || !changed.isDisjointFrom(metricsOf(text)));
  const read = metricsOf(selectedRules.join(''));
  const used = new Set<Change>();
  const count = Math.floor(seconds / scrapeSeconds);
  const input = INSTANCES.flatMap((instance) =>
    samples.flatMap(({ metric, labels, value }) => {
      if (!read.has(metric)) return [];
      const change = changes.find(
        (item) =>
          item.metric === metric && isWithin(item.labels ?? {}, labels) && (item.instance ?? instance) === instance,
      );
      if (change) used.add(change);
      const course = change?.course;
      const values = course
        ? Array.from({ length: count + 1 }, (_, n) => course(n * scrapeSeconds) ?? '_').join(' ')
        : `${value}x${count}`;
      return { series: `${metric}${writeLabels({ ...labels, job: 'gatehouse', instance })}`, values };
    }),
  );
  expect(
    changes.filter((change) => !used.has(change)),
    'changes of series that Gatehouse does not have',
  ).toEqual([]);
  const firedAlerts = 'sum by (alertname, app, instance) (max_over_time(ALERTS{alertstate="firing"}[2d]))';
  const rulesFile = join(directory, 'rules.yml');
  const testsFile = join(directory, 'tests.json');
  writeFileSync(rulesFile, HEAD + selectedRules.join(''));
  // promtool prints the actual samples only of an expectation that fails, so this one always fails.
  const expectation = { expr: firedAlerts, eval_time: `${seconds}s`, exp_samples: [{ labels: 'none', value: 0 }] };
  writeFileSync(
    testsFile,
    JSON.stringify({
      rule_files: [rulesFile],
      evaluation_interval: `${evaluationSeconds}s`,
      tests: [{ interval: `${scrapeSeconds}s`, input_series: input, promql_expr_test: [expectation] }],
    }),
  );
  const { text } = promtool(['test', 'rules', testsFile]);
  const [, actualSamples] = /got: *(.*)/s.exec(text) ?? [];
  if (actualSamples === undefined) throw new Error(text);
  const alerts: string[] = [];
  for (const [, labelText = ''] of actualSamples.matchAll(/\{([^}]*)\} \S+/g)) {
    const { alertname, app, instance } = readLabels(labelText);
    alerts.push([alertname, app ?? instance].filter(Boolean).join(' of '));
  }
  return alerts;
}

/** Stays at 0, and rises once by this much. */
const risesOnce =
  (by = 1, at = HOUR / 2): Course =>
  (seconds) =>
    seconds < at ? 0 : by;
/** Rises by this much per minute, between two times. */
const rises =
  (perMinute: number, from = 0, to = Number.POSITIVE_INFINITY): Course =>
  (seconds) =>
    (Math.max(0, Math.min(seconds, to) - from) / 60) * perMinute;
/** Has its usual value, and another one between two times. */
const dips =
  (usual: number, value: number | undefined, from: number, to = Number.POSITIVE_INFINITY): Course =>
  (seconds) =>
    seconds >= from && seconds < to ? value : usual;

const problemCounter = (code: string, course: Course, instance = FIRST): Change => ({
  metric: 'gatehouse_problems_total',
  labels: { code },
  instance,
  course,
});
const counter = (name: string, labels: Labels, course: Course): Change => ({
  metric: `gatehouse_${name}_total`,
  labels,
  instance: FIRST,
  course,
});
const onAllProcesses = (metric: string, course: Course): Change => ({ metric, course });
const platformCalls = (app: string, outcome: string, course: Course) =>
  counter('outbound_requests', { peer: 'platform', app, outcome }, course);
const sessionBuckets = (le: string, course: Course): Change => ({
  metric: 'gatehouse_http_request_duration_seconds_bucket',
  labels: { route: '/session', le },
  instance: FIRST,
  course,
});
const SESSION_LES = ['0.001', '0.0025', '0.005', '0.01', '0.025', '0.05', '0.1', '0.25', '0.5', '1'];
const SLOW_LES = ['2.5', '5', '10', '30', '+Inf'];
const sessions = (fast: Course, slow: Course): Change[] => [
  ...SESSION_LES.map((le) => sessionBuckets(le, fast)),
  ...SLOW_LES.map((le) => sessionBuckets(le, (seconds) => (fast(seconds) ?? 0) + (slow(seconds) ?? 0))),
  {
    metric: 'gatehouse_http_request_duration_seconds_count',
    labels: { route: '/session' },
    instance: FIRST,
    course: (seconds) => (fast(seconds) ?? 0) + (slow(seconds) ?? 0),
  },
];

/** Flushes of the embedded database: all, or those within `le` seconds. */
const flushes = (le: string | undefined, course: Course): Change => ({
  metric: `gatehouse_storage_command_duration_seconds_${le === undefined ? 'count' : 'bucket'}`,
  labels: { command: 'flush', ...(le !== undefined && { le }) },
  instance: FIRST,
  course,
});

const QUIET_SCENARIOS: Record<string, Scenario> = {
  'a night without a request': { ...NIGHT, changes: [], fires: [] },
  'one 503 in a night, because a flush took long': {
    ...NIGHT,
    changes: [problemCounter('storage_unavailable', risesOnce())],
    fires: [],
  },
  'a log that grows to 200 MB during a backup': {
    changes: [{ metric: 'gatehouse_storage_log_bytes', instance: FIRST, course: dips(5e6, 2e8, HOUR / 2) }],
    fires: [],
  },
  'a disk that is slow for one minute': {
    changes: [
      flushes('0.5', rises(60)),
      flushes(undefined, (seconds) => (rises(60)(seconds) ?? 0) + (risesOnce(5)(seconds) ?? 0)),
    ],
    fires: [],
  },
  'one refresh in a night, which fails': {
    ...NIGHT,
    changes: [counter('refreshes', { app: 'platform', outcome: 'refused' }, risesOnce())],
    fires: [],
  },
  'one sign-in in a night, which fails': {
    ...NIGHT,
    changes: [counter('sign_ins', { app: 'platform', outcome: 'failed' }, risesOnce())],
    fires: [],
  },
  'one failure of each other kind in a night': {
    ...NIGHT,
    changes: [
      ...['overloaded', 'provider_unavailable', 'platform_error', 'platform_timeout'].map((code) =>
        problemCounter(code, risesOnce()),
      ),
      ...['platform_rate_limited', 'relay_token_invalid'].map((code) => problemCounter(code, risesOnce())),
      platformCalls('platform', '5xx', risesOnce()),
      platformCalls('second', '4xx', risesOnce()),
      counter('reconnects_needed', { cause: 'grant_refused' }, risesOnce()),
      counter('outbound_refused', {}, risesOnce()),
      counter('slow_name_lookups', {}, risesOnce()),
      counter('bin_service_failures', { reason: 'timeout' }, risesOnce()),
      counter('bin_lookups', { result: 'bin_quota_exhausted' }, risesOnce()),
      counter('spans', { outcome: 'lost' }, risesOnce()),
      ...sessions(() => 0, risesOnce()),
    ],
    fires: [],
  },
  'both processes restarted for a new version': {
    changes: [
      ...INSTANCES.map((instance, n) => ({
        metric: 'process_start_time_seconds',
        instance,
        course: risesOnce(1_000, 1_000 + n * 60),
      })),
      ...INSTANCES.map((instance, n) => ({
        metric: 'up',
        instance,
        course: dips(1, 0, 1_000 + n * 60, 1_030 + n * 60),
      })),
    ],
    fires: [],
  },
  'a failover of Redis under load: ten seconds of 503s': {
    scrapeSeconds: 10,
    changes: [
      onAllProcesses('gatehouse_storage_up', dips(1, 0, 1_000, 1_010)),
      problemCounter('storage_unavailable', (seconds) => Math.max(0, Math.min(seconds - 1_000, 10)) * 50),
    ],
    fires: [],
  },
  'a few minutes above each threshold': {
    seconds: 2 * HOUR,
    changes: [
      { metric: 'up', instance: FIRST, course: dips(1, 0, HOUR, HOUR + 30) },
      { metric: 'up', instance: SECOND, course: dips(1, undefined, HOUR, HOUR + 120) },
      { metric: 'process_start_time_seconds', instance: SECOND, course: risesOnce(HOUR, HOUR) },
      { metric: 'gatehouse_storage_up', instance: FIRST, course: dips(1, 0, HOUR, HOUR + 30) },
      { metric: 'nodejs_eventloop_lag_p90_seconds', instance: FIRST, course: dips(0.01, 0.2, HOUR, HOUR + 120) },
      { metric: 'process_open_fds', instance: FIRST, course: dips(100, 900, HOUR, HOUR + 120) },
      onAllProcesses('process_max_fds', () => 1_000),
      {
        metric: 'gatehouse_outbound_calls',
        labels: { state: 'waiting' },
        instance: FIRST,
        course: dips(0, 200, HOUR, HOUR + 120),
      },
      problemCounter('storage_unavailable', rises(5, HOUR, HOUR + 120)),
      problemCounter('overloaded', rises(10, HOUR, HOUR + 60)),
      ...sessions(rises(1), rises(1, HOUR, HOUR + 300)),
    ],
    fires: [],
  },
  'slightly below each threshold': {
    seconds: 2 * HOUR,
    changes: [
      problemCounter('provider_unavailable', rises(0.4)),
      problemCounter('platform_rate_limited', rises(3)),
      problemCounter('relay_token_invalid', rises(12)),
      counter('reconnects_needed', { cause: 'grant_refused' }, rises(0.3)),
      counter('outbound_refused', {}, rises(0.5)),
      counter('bin_service_failures', { reason: 'timeout' }, rises(0.3)),
      counter('bin_lookups', { result: 'bin_quota_exhausted' }, rises(0.05)),
      platformCalls('platform', '2xx', rises(2)),
      platformCalls('platform', '4xx', rises(8)),
      onAllProcesses(LAST_BACKUP, () => 25.5 * HOUR),
      onAllProcesses(SECRET, () => 14.5 * DAY),
    ],
    fires: [],
  },
  'a first backup within two days': {
    seconds: 2 * DAY + HOUR,
    ...COARSE,
    changes: [onAllProcesses(LAST_BACKUP, (seconds) => (seconds < 1.9 * DAY ? undefined : seconds % DAY))],
    fires: [],
  },
  'a process with full caches, and a small one that grows': {
    seconds: 9 * HOUR,
    changes: [
      { metric: 'process_resident_memory_bytes', instance: FIRST, course: () => 1_800e6 },
      {
        metric: 'process_resident_memory_bytes',
        instance: SECOND,
        course: (seconds) => 250e6 + (50e6 * seconds) / HOUR,
      },
    ],
    fires: [],
  },
  'an app for which one call in twenty fails': {
    changes: [
      platformCalls('platform', '2xx', rises(95)),
      platformCalls('platform', '5xx', rises(5)),
      counter('refreshes', { app: 'platform', outcome: 'refreshed' }, rises(95)),
      counter('refreshes', { app: 'platform', outcome: 'unavailable' }, rises(5)),
      counter('sign_ins', { app: 'platform', outcome: 'signed_in' }, rises(95)),
      counter('sign_ins', { app: 'platform', outcome: 'failed' }, rises(5)),
    ],
    fires: [],
  },
};

const FIRING_SCENARIOS: Record<string, Scenario> = {
  'the storage is lost while no request arrives': {
    changes: [onAllProcesses('gatehouse_storage_up', dips(1, 0, HOUR / 2))],
    fires: [`GatehouseStorageLost of ${FIRST}`, `GatehouseStorageLost of ${SECOND}`],
  },
  'one process of two loses the storage': {
    changes: [{ metric: 'gatehouse_storage_up', instance: SECOND, course: dips(1, 0, HOUR / 2) }],
    fires: [`GatehouseStorageLost of ${SECOND}`],
  },
  'a storage that accepts the probe and refuses requests': {
    changes: [problemCounter('storage_unavailable', rises(6, HOUR / 2))],
    fires: ['GatehouseStorageUnavailable'],
  },
  'a process whose storage was replaced': {
    changes: [
      {
        metric: 'gatehouse_storage_refused',
        labels: { reason: 'replaced' },
        instance: FIRST,
        course: dips(0, 1, HOUR / 2),
      },
    ],
    fires: [`GatehouseStorageRefused of ${FIRST}`],
  },
  'a disk that takes a second for each write': {
    changes: [flushes('0.5', risesOnce(0)), flushes(undefined, rises(6, HOUR / 2))],
    fires: [`GatehouseDiskSlow of ${FIRST}`],
  },
  'a log that a long read prevents from being reused': {
    changes: [{ metric: 'gatehouse_storage_log_bytes', instance: FIRST, course: dips(5e6, 3e8, HOUR / 2) }],
    fires: [`GatehouseStorageLogGrows of ${FIRST}`],
  },
  'a process that does not respond': {
    changes: [{ metric: 'up', instance: FIRST, course: dips(1, 0, HOUR / 2) }],
    fires: [`GatehouseDown of ${FIRST}`],
  },
  'a service that discovery no longer finds': {
    changes: [onAllProcesses('up', dips(1, undefined, HOUR / 2))],
    fires: ['GatehouseMissing'],
  },
  'a process that restarts every 45 seconds': {
    scrapeSeconds: 15,
    changes: [
      { metric: 'up', instance: FIRST, course: (seconds) => (seconds % 45 < 30 ? 1 : 0) },
      {
        metric: 'process_start_time_seconds',
        instance: FIRST,
        course: (seconds) => (seconds % 45 < 30 ? Math.floor(seconds / 45) * 45 : undefined),
      },
    ],
    fires: [`GatehouseRestarts of ${FIRST}`],
  },
  'an unexpected error': {
    changes: [problemCounter('internal', risesOnce())],
    fires: ['GatehouseInternalErrors'],
  },
  'continuous unexpected errors': {
    changes: [problemCounter('internal', rises(4, HOUR / 2))],
    fires: ['GatehouseInternalErrors', 'GatehouseManyInternalErrors'],
  },
  'requests refused because of the load': {
    changes: [problemCounter('overloaded', rises(10, HOUR / 2))],
    fires: ['GatehouseOverloaded'],
  },
  'an event loop that lags': {
    changes: [{ metric: 'nodejs_eventloop_lag_p90_seconds', instance: FIRST, course: dips(0.01, 0.2, HOUR / 2) }],
    fires: [`GatehouseEventLoopLate of ${FIRST}`],
  },
  'two requests in a hundred take two seconds': {
    changes: sessions(rises(98), rises(2)),
    fires: ['GatehouseSlow'],
  },
  'a provider that cannot be reached': {
    changes: [problemCounter('provider_unavailable', rises(2, HOUR / 2))],
    fires: ['GatehouseProviderUnavailable'],
  },
  'one app with 9 % of the refreshes, all of which fail': {
    changes: [
      counter('refreshes', { app: 'platform', outcome: 'refreshed' }, rises(10)),
      counter('refreshes', { app: 'second', outcome: 'app_fault' }, rises(1)),
    ],
    fires: ['GatehouseRefreshesFail of second'],
  },
  'more than twenty ended connections': {
    changes: [counter('reconnects_needed', { cause: 'grant_refused' }, risesOnce(30))],
    fires: ['GatehouseReconnectsNeeded'],
  },
  'one app with 9 % of the sign-ins, all of which fail': {
    changes: [
      counter('sign_ins', { app: 'platform', outcome: 'signed_in' }, rises(10)),
      counter('sign_ins', { app: 'second', outcome: 'failed' }, rises(1)),
    ],
    fires: ['GatehouseSignInsFail of second'],
  },
  'one app with 9 % of the calls, whose platform fails': {
    changes: [
      platformCalls('platform', '2xx', rises(10)),
      platformCalls('second', '5xx', rises(0.5)),
      platformCalls('second', 'timeout', rises(0.5)),
    ],
    fires: ['GatehousePlatformFails of second'],
  },
  'one app with 9 % of the calls, whose platform refuses every token': {
    changes: [platformCalls('platform', '2xx', rises(30)), platformCalls('second', '4xx', rises(3))],
    fires: ['GatehousePlatformRefuses of second'],
  },
  'calls above the limit of the platform': {
    changes: [problemCounter('platform_rate_limited', rises(10, HOUR / 2))],
    fires: ['GatehousePlatformLimits'],
  },
  'waiting calls to one host': {
    changes: [
      {
        metric: 'gatehouse_outbound_calls',
        labels: { state: 'waiting' },
        instance: FIRST,
        course: dips(0, 200, HOUR / 2),
      },
    ],
    fires: ['GatehouseOutboundFull'],
  },
  'refused calls to one host': {
    changes: [counter('outbound_refused', {}, rises(10, HOUR / 2))],
    fires: ['GatehouseOutboundFull'],
  },
  'names that do not resolve': {
    changes: [counter('slow_name_lookups', {}, rises(30, HOUR / 2))],
    fires: ['GatehouseNamesSlow'],
  },
  'a BIN lookup service that fails': {
    changes: [counter('bin_service_failures', { reason: 'timeout' }, rises(1, HOUR / 2))],
    fires: ['GatehouseBinServiceFails'],
  },
  'a quota that is used up': {
    changes: [counter('bin_lookups', { result: 'bin_quota_exhausted' }, rises(1, HOUR / 2))],
    fires: ['GatehouseBinQuotaSpent'],
  },
  'a lost audit entry': {
    changes: [counter('audit_entries_lost', {}, risesOnce())],
    fires: ['GatehouseAuditLost'],
  },
  'guessed relay tokens': {
    changes: [problemCounter('relay_token_invalid', rises(30, HOUR / 2))],
    fires: ['GatehouseTokensGuessed'],
  },
  'few descriptors left': {
    changes: [
      { metric: 'process_open_fds', instance: FIRST, course: dips(100, 900, HOUR / 2) },
      onAllProcesses('process_max_fds', () => 1_000),
    ],
    fires: [`GatehouseFewDescriptors of ${FIRST}`],
  },
  'memory that grows for hours': {
    seconds: 9 * HOUR,
    changes: [
      {
        metric: 'process_resident_memory_bytes',
        instance: FIRST,
        course: (seconds) => 250e6 + (200e6 * seconds) / HOUR,
      },
    ],
    fires: [`GatehouseMemoryGrows of ${FIRST}`],
  },
  'two days without any backup, with a restart between': {
    seconds: 2 * DAY + HOUR,
    ...COARSE,
    changes: [
      onAllProcesses(LAST_BACKUP, () => undefined),
      onAllProcesses('gatehouse_ready', dips(1, undefined, DAY, DAY + HOUR / 20)),
    ],
    fires: ['GatehouseBackupOld'],
  },
  'a night without its backup': {
    changes: [onAllProcesses(LAST_BACKUP, (seconds) => 25.5 * HOUR + seconds)],
    fires: ['GatehouseBackupOld'],
  },
  'a client secret with less than two weeks left': {
    changes: [onAllProcesses(SECRET, (seconds) => 14 * DAY + HOUR / 2 - seconds)],
    fires: ['GatehouseClientSecretEnds of platform'],
  },
  'a client secret that has ended': {
    changes: [onAllProcesses(SECRET, (seconds) => -seconds)],
    fires: ['GatehouseClientSecretEnds of platform'],
  },
  'a collector that accepts no spans': {
    changes: [counter('spans', { outcome: 'lost' }, rises(10, HOUR / 4))],
    fires: ['GatehouseTracesLost'],
  },
};

test('promtool accepts the rules without remarks', (context) => {
  skipIfMissing(context, missingPrometheus);
  const { status, text } = promtool(['check', 'rules', '--lint-fatal', RULES]);
  expect([status, text]).toEqual([0, expect.stringContaining(`SUCCESS: ${alertNames.length} rules found`)]);
});

test('each alert has a quiet scenario below its threshold, or fires at the first event', () => {
  const quietChanges = Object.values(QUIET_SCENARIOS).flatMap(({ changes }) => changes);
  const untestedAlerts = [...rules.matchAll(/^ {6}- alert: (\w+)\n {8}expr: ([\s\S]*?)\n {8}(?:for|labels):/gm)]
    .filter(([, , rule = '']) => {
      const { code } = readLabels(rule);
      return !quietChanges.some(
        ({ metric, labels = {} }) => rule.includes(`${metric}{`) && (code ?? labels.code) === labels.code,
      );
    })
    .map(([, name]) => name);
  expect(untestedAlerts).toEqual([
    'GatehouseStorageRefused',
    'GatehouseManyInternalErrors',
    'GatehouseInternalErrors',
    'GatehouseAuditLost',
  ]);
});

test('each alert has a scenario that fires it', () => {
  const testedAlerts = Object.values(FIRING_SCENARIOS).flatMap(({ fires }) =>
    fires.map((alert) => alert.split(' of ')[0]),
  );
  expect(alertNames.filter((name) => !testedAlerts.includes(name))).toEqual([]);
});

test('the summary of an alert for one app or process names it', () => {
  const fired = Object.values(FIRING_SCENARIOS).flatMap(({ fires }) => fires.map((alert) => alert.split(' of ')));
  const specific = new Set(fired.filter(([, subject]) => subject !== undefined).map(([name]) => name));
  const summaries = [...rules.matchAll(/alert: (\w+)\n[\s\S]*?summary: (.+)\n/g)];
  const naming = summaries.filter(([, , summary = '']) => /\{\{ \$labels\.(app|instance) \}\}/.test(summary));
  expect(naming.map(([, name]) => name).toSorted()).toEqual([...specific].toSorted());
});

describe('no alert fires in', () => {
  test.for(Object.entries(QUIET_SCENARIOS))('%s', ([, scenario], context) => {
    skipIfMissing(context, missingPrometheus);
    expect(firing(scenario)).toEqual([]);
  });
});

describe('exactly the expected alerts fire in', () => {
  test.for(Object.entries(FIRING_SCENARIOS))('%s', ([, scenario], context) => {
    skipIfMissing(context, missingPrometheus);
    expect(firing(scenario).toSorted()).toEqual(scenario.fires.toSorted());
  });
});
