/** Compares docs/operating.md, its reference, the alert rules and the dashboard with a running Gatehouse. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { UnavailableReason } from '../../../src/gatehouse/bin/bin-client.ts';
import type { LookupOutcome } from '../../../src/gatehouse/bin/lookup.ts';
import type { Grant, Health } from '../../../src/gatehouse/grants/grant.ts';
import type { GrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { FAILURE_WORDS, type RefreshFailure } from '../../../src/gatehouse/grants/refresh-failure.ts';
import type { RefreshCall } from '../../../src/gatehouse/grants/refresh-journal.ts';
import { createRefreshOutcomes } from '../../../src/gatehouse/grants/refresh-outcome.ts';
import { PROBLEMS } from '../../../src/shared/errors.ts';
import type { Events } from '../../../src/shared/observability/events.ts';
import { LABEL_VALUES } from '../../../src/shared/observability/metrics.ts';
import { STORAGE_REFUSALS } from '../../../src/shared/observability/storage-watch.ts';
import type { createTracing } from '../../../src/shared/observability/tracing.ts';
import type { CallOutcome, Peer } from '../../../src/shared/outbound/outbound.ts';
import type { OutboundLoad } from '../../../src/shared/outbound/outbound-gate.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import type { RefreshOutcome } from '../../../src/shared/provider/token-refresh.ts';
import type { TokenResponse } from '../../../src/shared/provider/token-response.ts';
import { signIn, startSite } from '../../support/gatehouse.ts';
import { ADMIN_ROUTES, ROUTES } from '../../support/routes.ts';
import { sendRequest } from '../../support/send-request.ts';

const docs = join(import.meta.dirname, '../../..', 'docs');
const read = (path: string) => readFileSync(join(docs, path), 'utf8');
const guide = read('operating.md');
const reference = read('operating-reference.md');
const rules = read('alerts.yml');

/** The text between a heading of the second level and the next one. */
function section(text: string, title: string): string {
  const [, rest = ''] = text.split(`\n## ${title}\n`);
  return rest.split(/\n## /)[0] ?? '';
}

/** Lists all values of a type: the compiler reports missing and surplus ones. */
const allValuesOf = <Value extends string>(values: Record<Value, true>): string[] => Object.keys(values);
type Refreshed = Exclude<RefreshOutcome['kind'], 'tokens'> | 'refreshed';
type RelayOutcome = Parameters<Events['relayCalled']>[0]['outcome'];
type SpanOutcome = Parameters<Parameters<typeof createTracing>[0]['onExported']>[0];
/** The values of labels that other types define. */
const VALUES_BY_TYPE = {
  refreshes: allValuesOf<Refreshed>({
    refreshed: true,
    refused: true,
    unclear_refusal: true,
    unavailable: true,
    unusable: true,
    app_fault: true,
  }),
  binLookups: allValuesOf<LookupOutcome>({
    dataset: true,
    service: true,
    cache: true,
    rules: true,
    bin_not_found: true,
    bin_quota_exhausted: true,
    bin_user_quota_exhausted: true,
    bin_service_unavailable: true,
  }),
  binServiceFailures: allValuesOf<UnavailableReason>({
    timeout: true,
    connection: true,
    status: true,
    response: true,
    key_refused: true,
    paused: true,
    busy: true,
  }),
  spans: allValuesOf<SpanOutcome>({ sent: true, lost: true }),
  relayCalls: allValuesOf<RelayOutcome>({ succeeded: true, failed: true, refused: true }),
  outboundRequests: allValuesOf<CallOutcome>({
    '2xx': true,
    '3xx': true,
    '4xx': true,
    '5xx': true,
    timeout: true,
    connection: true,
    address: true,
    busy: true,
    too_large: true,
    encoding: true,
    stopped: true,
  }),
};
const VALUES_OF = {
  gatehouse_sign_ins_total: LABEL_VALUES.signIns,
  gatehouse_refreshes_total: LABEL_VALUES.refreshes,
  gatehouse_reconnects_needed_total: LABEL_VALUES.reconnectsNeeded,
  gatehouse_bin_lookups_total: LABEL_VALUES.binLookups,
  gatehouse_bin_service_failures_total: LABEL_VALUES.binServiceFailures,
  gatehouse_storage_refused: [...STORAGE_REFUSALS],
  gatehouse_outbound_calls: allValuesOf<keyof OutboundLoad>({ running: true, waiting: true }),
  gatehouse_spans_total: LABEL_VALUES.spans,
  gatehouse_connections: allValuesOf<Health>({
    active: true,
    expiring: true,
    unverified: true,
    reconnect_needed: true,
  }),
  gatehouse_relay_calls_total: LABEL_VALUES.relayCalls,
  gatehouse_outbound_requests_total: LABEL_VALUES.outboundRequests,
  gatehouse_outbound_request_duration_seconds: allValuesOf<Peer>({
    provider: true,
    platform: true,
    webhook: true,
    bin_service: true,
  }),
};

/** Routes whose response may wait for another system than the storage. GatehouseSlow covers the others. */
const WAITS_FOR = {
  platform: [
    '/',
    '/threads/current',
    '/relay/threads/current',
    '/api/:app/*platformPath',
    '/relay/api/:app/*platformPath',
  ],
  provider: [
    '/sign-in',
    '/oauth/callback/:app',
    '/oauth/backchannel-logout/:app',
    '/sign-out',
    '/sign-out/everywhere',
    '/connections/:app',
    '/connections/:app/disconnect',
    '/account/delete',
    '/relay/token',
    '/connect/:link',
  ],
  binService: ['/bin', '/bin/:bin', '/relay/bin', '/relay/bin/:bin'],
};
/** Routes that wait only for the storage. Every new route must be in one of the two lists. */
const WAITS_FOR_STORAGE = [
  '/account/deleted',
  '/session',
  '/session/verify',
  '/sessions',
  '/sessions/:id/end',
  '/connections',
  '/relay/connections',
  '/relay/connect-links',
  '/api/:app',
  '/relay/api/:app',
  '/problems/:code',
  '/.well-known/jwks.json',
  '/openapi.json',
  '/docs',
  '/docs/:guide',
];

/** The names of metrics and their labels, from /metrics. */
let servedLabels: Map<string, Set<string>>;
beforeAll(async () => {
  const site = await startSite();
  // Labels appear only once they have a value.
  await sendRequest(`${site.url}/no-such-page`);
  const { agent } = await signIn(site);
  await agent.get(`${site.url}/bin/45717360`);
  const { body } = await sendRequest(`${site.managementUrl}/metrics`);
  await site.close();
  servedLabels = new Map([...body.matchAll(/^# TYPE (\w+) \w+$/gm)].map(([, name = '']) => [name, new Set<string>()]));
  for (const [, sample = '', labels = ''] of body.matchAll(/^(\w+)\{(.*)\} /gm)) {
    const labelNames = servedLabels.get(sample) ?? servedLabels.get(sample.replace(/_(bucket|sum|count)$/, ''));
    for (const [, label = ''] of labels.matchAll(/(\w+)="/g)) labelNames?.add(label);
  }
});

describe('metrics', () => {
  const metrics = section(reference, 'Metrics');

  test('each served metric is documented, and each documented one is served', () => {
    const onLinux = metrics.slice(metrics.indexOf('| metric (Linux) |'));
    const expectedText = process.platform === 'linux' ? metrics : metrics.replace(onLinux, '');
    const rows = expectedText.split('\n').filter((line) => line.startsWith('| `'));
    const documented = rows.flatMap((row) =>
      [...(row.split(' | ')[0] ?? '').matchAll(/`(\w+)`/g)].map(([, name]) => name),
    );
    expect(documented.toSorted()).toEqual([...servedLabels.keys()].toSorted());
  });

  test('served labels are documented', () => {
    const labelled = [...servedLabels].filter(([name, labels]) => name.startsWith('gatehouse_') && labels.size > 0);
    expect(labelled.length).toBeGreaterThanOrEqual(5);
    for (const [name] of labelled) {
      const row = metrics.split('\n').find((line) => line.startsWith(`| \`${name}\``)) ?? '';
      const labels = [...(servedLabels.get(name) ?? [])].filter((label) => label !== 'le');
      expect(labels.length).toBeGreaterThan(0);
      for (const label of labels) expect(row.split(' | ')[1]).toContain(`\`${label}\``);
    }
  });

  test.each(Object.entries(VALUES_OF))('of %s: exactly the values of its label are documented', (name, values) => {
    const row = metrics.split('\n').find((line) => line.startsWith(`| \`${name}\``)) ?? '';
    const [, valuesText = ''] = row.split(' | ')[1]?.split(/`: /) ?? [];
    const documented = [...valuesText.replaceAll(/\]\([^)]*\)/g, ']').matchAll(/`(\w+)`/g)].map(([, value]) => value);
    expect(documented.toSorted()).toEqual(values.toSorted());
  });

  test.each(Object.entries(VALUES_BY_TYPE))(
    'of %s: each value of the type has a series from the start',
    (name, values) => {
      expect(LABEL_VALUES[name as keyof typeof VALUES_BY_TYPE].toSorted()).toEqual(values.toSorted());
    },
  );
});

describe('causes of failed connections', () => {
  const rows = [...section(reference, 'Why a connection fails').matchAll(/^\| `(\w+)` \| ([\w ]+) \| .{20,} \|$/gm)];
  const effects = new Map(rows.map(([, cause = '', effect]) => [cause, effect]));
  const WORDS = { reconnect_needed: 'reconnect needed', unverified: 'unverified', passing: 'passing' } as const;

  test('are exactly those of the code', () => {
    expect([...effects.keys()]).toEqual(Object.keys(FAILURE_WORDS));
  });

  test('have the documented effects', async () => {
    const failures = (await failingRefreshes()).map(({ failure }) => failure);
    const actual = new Map(failures.map(({ cause, kind }) => [cause, WORDS[kind]]));
    // A record that no key opens. No refresh finds it.
    actual.set('unreadable', 'reconnect needed');
    // An import stores this before the first refresh.
    actual.set('not_checked', 'passing');
    // The app has moved to another registration.
    actual.set('registration_changed', 'reconnect needed');
    expect(Object.fromEntries(effects)).toEqual(Object.fromEntries(actual));
  });

  test('are counted as documented', async () => {
    const causes = (await failingRefreshes()).flatMap(({ counted }) => counted);
    expect([...new Set(causes)].toSorted()).toEqual(LABEL_VALUES.reconnectsNeeded.toSorted());
  });
});

test.each([
  ['before the tokens were stored', 61_000],
  ['more than a quarter of an hour ago', 16 * 60_000],
])('a refusal is not attributed to a failover %s', async (_when, ago) => {
  const { failure } = await failureAfter(({ saveOutcome }, call) => saveOutcome(call, { kind: 'refused' }), {
    failedOverAt: () => NOW - ago,
  });
  expect(failure.cause).toBe('grant_refused');
});

describe('alert rules and dashboard', () => {
  const alerts = [...rules.matchAll(/^ {6}- alert: (\w+)\n([\s\S]*?)(?=^ {6}- alert:|$(?![\s\S]))/gm)].map(
    ([, name = '', body = '']) => ({ name, body }),
  );
  const dashboard = JSON.parse(read('grafana/gatehouse.json')) as {
    panels: { targets?: { expr: string }[]; id: number }[];
    templating: { list: { type: string; query: string | { query: string }; definition?: string }[] };
  };
  const ruleOf = (body: string) => body.slice(0, body.search(/\n {8}(for|labels):/));
  const expressions = [
    ...alerts.map(({ body }) => ruleOf(body)),
    ...dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
  ];
  const rule = (alert: string) => ruleOf(alerts.find(({ name }) => name === alert)?.body ?? '');
  /** The pattern of the routes that the rule excludes, anchored as in Prometheus. */
  const routesExcludedBy = (alert: string) => {
    const patterns = new Set([...rule(alert).matchAll(/route!~"([^"]+)"/g)].map(([, pattern]) => pattern));
    expect(patterns.size).toBe(1);
    return new RegExp(`^(?:${[...patterns][0]})$`);
  };

  test('name only existing metrics', () => {
    expect(expressions.length).toBeGreaterThan(40);

    const named = expressions.flatMap((text) => text.match(/\b(?:gatehouse|process|nodejs)_\w+/g) ?? []);
    const isServed = (name: string) =>
      servedLabels.has(name) || servedLabels.has(name.replace(/_(bucket|sum|count)$/, ''));
    expect(new Set(named.filter((name) => !isServed(name)))).toEqual(new Set());

    // `up` is a metric of Prometheus.
    const others = expressions.filter((text) => !/\b(gatehouse|process|nodejs)_\w+/.test(text) && !/\bup\{/.test(text));
    expect(others).toEqual([]);
  });

  test('name only existing problem codes', () => {
    const codes = expressions.flatMap((text) =>
      [...text.matchAll(/code=~?"([^"]+)"/g)].flatMap(([, codeList = '']) => codeList.split('|')),
    );
    expect(codes.length).toBeGreaterThan(5);
    expect(codes.filter((code) => !(code in PROBLEMS))).toEqual([]);
  });

  test('select the job gatehouse for every metric, because the BIN lookup service has metrics with the same names', () => {
    const variables = dashboard.templating.list.filter(({ type }) => type === 'query');
    const queries = variables.flatMap(({ query, definition = '' }) => [
      typeof query === 'string' ? query : query.query,
      definition,
    ]);
    expect(queries.length).toBeGreaterThan(0);
    for (const text of [...expressions, ...queries]) {
      const selectors = [...text.matchAll(/\b(?:up|(?:gatehouse|process|nodejs)_\w+)\b(\{[^}]*\})?/g)];
      expect(selectors.length, text).toBeGreaterThan(0);
      for (const [selector, matchers = ''] of selectors) expect(matchers, selector).toMatch(/[{,]job="gatehouse"[,}]/);
    }
  });

  test('select the job of the documented scrape configuration, which is not that of the BIN lookup service', () => {
    const [, example = ''] = /^```yaml\n([\s\S]*?)^```$/m.exec(section(guide, 'Watch it')) ?? [];
    const jobs = [...example.matchAll(/^ {2}- job_name: (\S+)$/gm)].map(([, name]) => name);
    expect(jobs[0]).toBe('gatehouse');
    expect(jobs.slice(1)).toEqual(['bin-lookup-service']);
  });

  test('GatehouseSlow covers exactly the routes that wait only for the storage', () => {
    const excluded = routesExcludedBy('GatehouseSlow');
    const paths = new Set(ROUTES.map(({ pattern }) => pattern));
    expect([...paths].toSorted()).toEqual([...Object.values(WAITS_FOR).flat(), ...WAITS_FOR_STORAGE].toSorted());
    expect([...paths].filter((path) => !excluded.test(path)).toSorted()).toEqual(WAITS_FOR_STORAGE.toSorted());
    // Few users call the admin routes, and many of these call providers or platforms, or resolve names.
    expect(ADMIN_ROUTES.filter(({ pattern }) => pattern !== '/admin' && !excluded.test(pattern))).toEqual([]);
    expect(excluded.test('none')).toBe(false);
  });

  test('GatehousePlatformFails counts each outcome that the platform or its address causes', () => {
    const [outcomes, ...others] = new Set(
      [...rule('GatehousePlatformFails').matchAll(/outcome!~"([^"]+)"/g)].map(([, pattern]) => pattern),
    );
    expect(others).toEqual([]);

    const excluded = outcomes?.split('|') ?? [];
    // `busy` has its own alert, and `stopped` is caused by the caller.
    expect(excluded).toEqual(['2xx', '3xx', '4xx', 'stopped', 'busy']);
    expect(
      excluded.filter((outcome) => !(LABEL_VALUES.outboundRequests as readonly string[]).includes(outcome)),
    ).toEqual([]);
  });

  test('have balanced brackets', () => {
    for (const text of expressions) {
      for (const pair of ['()', '{}', '[]'])
        expect(text.split(pair[0] ?? '').length, text).toBe(text.split(pair[1] ?? '').length);
    }
  });

  test('each alert links to its section of the runbook, in the same order', () => {
    const sections = [...section(guide, 'Alerts: what to do').matchAll(/^### (\w+)\n\n(.+)/gm)];
    expect(alerts.map(({ name }) => name)).toEqual(sections.map(([, name]) => name));
    for (const { name, body } of alerts) {
      expect(body).toContain(`runbook: docs/operating.md#${name.toLowerCase()}\n`);
      expect(body).toMatch(/severity: (critical|warning|info) /);
      expect(body).toMatch(/summary: .{20,}/);
    }
  });

  test('each panel has its own id', () => {
    const ids = dashboard.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

test('exactly the problem codes are documented, with their statuses', () => {
  const rows = [...section(reference, 'Problem codes').matchAll(/^\| `(\w+)` \| (\d{3}) \| (.+) \|$/gm)];
  expect(rows.map(([, code, status]) => [code, Number(status)])).toEqual(
    Object.entries(PROBLEMS).map(([code, { status }]) => [code, status]),
  );
});

const NOW = 1_800_000_000_000;

/** Each way in which a refresh can fail, with a fake store: the failure in the grant, and the counted causes. */
async function failingRefreshes(): Promise<{ failure: RefreshFailure; counted: string[] }[]> {
  const outcomes: Exclude<RefreshOutcome, { kind: 'tokens' }>[] = [
    { kind: 'refused' },
    { kind: 'app_fault', reason: 'invalid_client' },
    { kind: 'unclear_refusal', reason: 'status_400' },
    { kind: 'unusable', reason: 'token_response_invalid', refreshToken: undefined },
    { kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined },
    { kind: 'unavailable', reason: 'status_429', retryAfterSeconds: undefined, limited: true },
  ];
  const refused = ({ saveOutcome }: ReturnType<typeof createRefreshOutcomes>, call: RefreshCall) =>
    saveOutcome(call, { kind: 'refused' });
  return Promise.all([
    ...outcomes.map((outcome) => failureAfter(({ saveOutcome }, call) => saveOutcome(call, outcome))),
    failureAfter(refused, { failedOverAt: () => NOW - 1_000 }),
    failureAfter(({ saveOutcome }, call) =>
      saveOutcome({ ...call, lostEntry: { startedAt: 1, received: undefined } }, { kind: 'refused' }),
    ),
    failureAfter(({ saveNotRefreshable }, call) => saveNotRefreshable(call, false)),
    failureAfter(({ saveNotRefreshable }, call) => saveNotRefreshable(call, true)),
  ]);
}

async function failureAfter(
  work: (outcomes: ReturnType<typeof createRefreshOutcomes>, call: RefreshCall) => Promise<unknown>,
  overrides: { failedOverAt?: () => number } = {},
): Promise<{ failure: RefreshFailure; counted: string[] }> {
  const response: TokenResponse = { accessToken: 'access', refreshToken: 'refresh' } as TokenResponse;
  let grant = {
    ...response,
    userId: 'user',
    appId: 'platform',
    scopes: [],
    account: {},
    obtainedAt: NOW - 60_000,
  } as unknown as Grant;
  const counted: string[] = [];
  const outcomes = createRefreshOutcomes({
    grants: {
      loadStored: async () => ({ grant, version: 1 }),
      async save(changed: Grant) {
        grant = changed;
        return true;
      },
    } as unknown as GrantStore,
    revokeUnowned: async () => ({ outcome: 'revoked' }),
    events: { reconnectNeeded: ({ cause }: { cause: string }) => void counted.push(cause) } as unknown as Events,
    clock: () => NOW,
    random: () => 0.5,
    ...overrides,
  });
  const app = { id: 'platform', name: 'Platform' } as ConnectedApp;
  await work(outcomes, { app, grant, version: 1, fence: undefined, lostEntry: undefined });
  if (!grant.failure) throw new Error('This refresh stored no failure.');
  return { failure: grant.failure, counted };
}
