/** docs/operating.md, its reference, the alert rules and the dashboard, held to what a running Gatehouse gives. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { UnavailableReason } from '../../../src/gatehouse/bin/bin-client.ts';
import type { LookupOutcome } from '../../../src/gatehouse/bin/lookup.ts';
import { FAILURE_WORDS, type Grant, type Health, type RefreshFailure } from '../../../src/gatehouse/grants/grant.ts';
import type { GrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import type { RefreshCall } from '../../../src/gatehouse/grants/refresh-journal.ts';
import { createRefreshOutcomes } from '../../../src/gatehouse/grants/refresh-outcome.ts';
import { PROBLEMS } from '../../../src/shared/errors.ts';
import type { Events } from '../../../src/shared/observability/events.ts';
import { LABEL_VALUES } from '../../../src/shared/observability/metrics.ts';
import { STORAGE_REFUSALS } from '../../../src/shared/observability/storage-watch.ts';
import type { createTracing } from '../../../src/shared/observability/tracing.ts';
import type { CallOutcome, Peer } from '../../../src/shared/outbound/outbound.ts';
import type { UpstreamLoad } from '../../../src/shared/outbound/upstream-gate.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import type { RefreshOutcome } from '../../../src/shared/provider/token-refresh.ts';
import type { TokenResponse } from '../../../src/shared/provider/token-response.ts';
import { ask } from '../../support/ask.ts';
import { signIn, startSite } from '../../support/gatehouse.ts';
import { ADMIN_ROUTES, ROUTES } from '../../support/routes.ts';

const docs = join(import.meta.dirname, '../../..', 'docs');
const read = (path: string) => readFileSync(join(docs, path), 'utf8');
const guide = read('operating.md');
const reference = read('operating-reference.md');
const rules = read('alerts.yml');

/** From one heading of the second level to the next. */
function section(text: string, title: string): string {
  const [, rest = ''] = text.split(`\n## ${title}\n`);
  return rest.split(/\n## /)[0] ?? '';
}

/** By its type nothing is left out: a value that the code gains or loses is an error here until it is noted. */
const every = <Value extends string>(values: Record<Value, true>): string[] => Object.keys(values);
type Refreshed = Exclude<RefreshOutcome['kind'], 'tokens'> | 'refreshed';
type RelayOutcome = Parameters<Events['relayCalled']>[0]['outcome'];
type SpanOutcome = Parameters<Parameters<typeof createTracing>[0]['onExported']>[0];
/** Of labels whose values come from elsewhere. */
const SAID_BY_TYPES = {
  refreshes: every<Refreshed>({
    refreshed: true,
    refused: true,
    doubtful: true,
    unavailable: true,
    unusable: true,
    app_fault: true,
  }),
  binLookups: every<LookupOutcome>({
    dataset: true,
    service: true,
    cache: true,
    rules: true,
    bin_not_found: true,
    bin_quota_exhausted: true,
    bin_user_quota_exhausted: true,
    bin_service_unavailable: true,
  }),
  binServiceFailures: every<UnavailableReason>({
    timeout: true,
    connection: true,
    status: true,
    response: true,
    key_refused: true,
    paused: true,
  }),
  spans: every<SpanOutcome>({ sent: true, lost: true }),
  relayCalls: every<RelayOutcome>({ answered: true, failed: true, refused: true }),
  outboundRequests: every<CallOutcome>({
    ...{ '2xx': true, '3xx': true, '4xx': true, '5xx': true, timeout: true, connection: true, address: true },
    ...{ busy: true, too_large: true, encoding: true, stopped: true },
  }),
};
const VALUES_OF = {
  gatehouse_sign_ins_total: LABEL_VALUES.signIns,
  gatehouse_refreshes_total: LABEL_VALUES.refreshes,
  gatehouse_reconnects_needed_total: LABEL_VALUES.reconnectsNeeded,
  gatehouse_bin_lookups_total: LABEL_VALUES.binLookups,
  gatehouse_bin_service_failures_total: LABEL_VALUES.binServiceFailures,
  gatehouse_storage_refused: [...STORAGE_REFUSALS],
  gatehouse_outbound_calls: every<keyof UpstreamLoad>({ running: true, waiting: true }),
  gatehouse_spans_total: LABEL_VALUES.spans,
  gatehouse_connections: every<Health>({ active: true, expiring: true, unverified: true, reconnect_needed: true }),
  gatehouse_relay_calls_total: LABEL_VALUES.relayCalls,
  gatehouse_outbound_requests_total: LABEL_VALUES.outboundRequests,
  gatehouse_outbound_request_duration_seconds: every<Peer>({
    ...{ provider: true, platform: true, webhook: true, bin_service: true },
  }),
};

/** Routes whose response may wait for somebody else than the storage; the others are what GatehouseSlow looks at. */
const WAITS_FOR = {
  platform: ['/', '/threads/current', '/relay/threads/current'],
  provider: [
    ...['/sign-in', '/oauth/callback/:app', '/oauth/backchannel-logout/:app', '/sign-out', '/sign-out/everywhere'],
    ...['/connections/:app', '/connections/:app/disconnect', '/account/delete', '/relay/token'],
    '/connect/:link',
  ],
  binService: ['/bin', '/bin/:bin', '/relay/bin', '/relay/bin/:bin'],
};
/** A new route has to be thought about: either it stands here or above. */
const WAITS_FOR_NOBODY = [
  ...['/session', '/session/verify', '/sessions', '/sessions/:id/end', '/connections', '/relay/connections'],
  '/relay/connect-links',
  ...['/problems/:code', '/.well-known/jwks.json', '/openapi.json', '/docs'],
];

/** Names and label names, as /metrics gives them. */
let given: Map<string, Set<string>>;
beforeAll(async () => {
  const site = await startSite();
  // Something of each kind that can be had: labels are told only once they have a value.
  await ask(`${site.url}/no-such-page`);
  const { agent } = await signIn(site);
  await agent.get(`${site.url}/bin/45717360`);
  const { body } = await ask(`${site.managementUrl}/metrics`);
  await site.close();
  given = new Map([...body.matchAll(/^# TYPE (\w+) \w+$/gm)].map(([, name = '']) => [name, new Set<string>()]));
  for (const [, sample = '', labels = ''] of body.matchAll(/^(\w+)\{(.*)\} /gm)) {
    const known = given.get(sample) ?? given.get(sample.replace(/_(bucket|sum|count)$/, ''));
    for (const [, label = ''] of labels.matchAll(/(\w+)="/g)) known?.add(label);
  }
});

describe('metrics', () => {
  const metrics = section(reference, 'Metrics');

  test('every one that is given is documented, and every documented one is given', () => {
    const onLinux = metrics.slice(metrics.indexOf('| metric (Linux) |'));
    const told = process.platform === 'linux' ? metrics : metrics.replace(onLinux, '');
    const rows = told.split('\n').filter((line) => line.startsWith('| `'));
    const documented = rows.flatMap((row) =>
      [...(row.split(' | ')[0] ?? '').matchAll(/`(\w+)`/g)].map(([, name]) => name),
    );
    expect(documented.toSorted()).toEqual([...given.keys()].toSorted());
  });

  test('labels that are given are documented', () => {
    const labelled = [...given].filter(([name, labels]) => name.startsWith('gatehouse_') && labels.size > 0);
    expect(labelled.length).toBeGreaterThanOrEqual(5);
    for (const [name] of labelled) {
      const row = metrics.split('\n').find((line) => line.startsWith(`| \`${name}\``)) ?? '';
      const labels = [...(given.get(name) ?? [])].filter((label) => label !== 'le');
      expect(labels.length).toBeGreaterThan(0);
      for (const label of labels) expect(row.split(' | ')[1]).toContain(`\`${label}\``);
    }
  });

  test.each(Object.entries(VALUES_OF))('of %s documents each value of its label, and no other', (name, values) => {
    const row = metrics.split('\n').find((line) => line.startsWith(`| \`${name}\``)) ?? '';
    const [, told = ''] = row.split(' | ')[1]?.split(/`: /) ?? [];
    const documented = [...told.replaceAll(/\]\([^)]*\)/g, ']').matchAll(/`(\w+)`/g)].map(([, value]) => value);
    expect(documented.toSorted()).toEqual(values.toSorted());
  });

  test.each(Object.entries(SAID_BY_TYPES))('of %s begin with each value that the code can say', (name, values) => {
    expect(LABEL_VALUES[name as keyof typeof SAID_BY_TYPES].toSorted()).toEqual(values.toSorted());
  });
});

describe('causes for which a connection fails', () => {
  const rows = [...section(reference, 'Why a connection fails').matchAll(/^\| `(\w+)` \| ([\w ]+) \| .{20,} \|$/gm)];
  const follows = new Map(rows.map(([, cause = '', what]) => [cause, what]));
  const WORDS = { reconnect_needed: 'reconnect needed', unverified: 'unverified', passing: 'passing' } as const;

  test('are all explained, and no other', () => {
    expect([...follows.keys()]).toEqual(Object.keys(FAILURE_WORDS));
  });

  test('follow what the document says follows', async () => {
    const failures = (await refreshesThatFail()).map(({ failure }) => failure);
    const seen = new Map(failures.map(({ cause, kind }) => [cause, WORDS[kind]]));
    // What no key opens is nothing that a refresh finds.
    seen.set('unreadable', 'reconnect needed');
    // What an import stores before its first refresh.
    seen.set('not_checked', 'passing');
    // What a move of the app to another registration leaves.
    seen.set('registration_changed', 'reconnect needed');
    expect(Object.fromEntries(follows)).toEqual(Object.fromEntries(seen));
  });

  test('are counted as the document says', async () => {
    const told = (await refreshesThatFail()).flatMap(({ counted }) => counted);
    expect([...new Set(told)].toSorted()).toEqual(LABEL_VALUES.reconnectsNeeded.toSorted());
  });
});

test.each([
  ['before the tokens were stored', 61_000],
  ['more than a quarter of an hour ago', 16 * 60_000],
])('a refusal is not put down to a failover that was %s', async (_when, ago) => {
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
  /** The pattern for routes that the rule leaves out wherever it names any, matched as Prometheus does it: from end to end. */
  const leftOutBy = (alert: string) => {
    const patterns = new Set([...rule(alert).matchAll(/route!~"([^"]+)"/g)].map(([, pattern]) => pattern));
    expect(patterns.size).toBe(1);
    return new RegExp(`^(?:${[...patterns][0]})$`);
  };

  test('name only metrics that there are', () => {
    expect(expressions.length).toBeGreaterThan(40);
    const named = expressions.flatMap((text) => text.match(/\b(?:gatehouse|process|nodejs)_\w+/g) ?? []);
    const known = (name: string) => given.has(name) || given.has(name.replace(/_(bucket|sum|count)$/, ''));
    expect(new Set(named.filter((name) => !known(name)))).toEqual(new Set());
    // `up` is Prometheus' own.
    const others = expressions.filter((text) => !/\b(gatehouse|process|nodejs)_\w+/.test(text) && !/\bup\{/.test(text));
    expect(others).toEqual([]);
  });

  test('name only problem codes that there are', () => {
    const codes = expressions.flatMap((text) =>
      [...text.matchAll(/code=~?"([^"]+)"/g)].flatMap(([, one = '']) => one.split('|')),
    );
    expect(codes.length).toBeGreaterThan(5);
    expect(codes.filter((code) => !(code in PROBLEMS))).toEqual([]);
  });

  test('ask for the job gatehouse wherever they name a metric: the BIN lookup service has metrics of the same names', () => {
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

  test('ask for the job that the example in the document scrapes, and that is not the BIN lookup service', () => {
    const [, example = ''] = /^```yaml\n([\s\S]*?)^```$/m.exec(section(guide, 'Watch it')) ?? [];
    const jobs = [...example.matchAll(/^ {2}- job_name: (\S+)$/gm)].map(([, name]) => name);
    expect(jobs[0]).toBe('gatehouse');
    expect(jobs.slice(1)).toEqual(['bin-service']);
  });

  test('GatehouseSlow looks at the routes that wait for nobody but the storage, and at all of them', () => {
    const leftOut = leftOutBy('GatehouseSlow');
    const paths = new Set(ROUTES.map(({ pattern }) => pattern));
    expect([...paths].toSorted()).toEqual([...Object.values(WAITS_FOR).flat(), ...WAITS_FOR_NOBODY].toSorted());
    expect([...paths].filter((path) => !leftOut.test(path)).toSorted()).toEqual(WAITS_FOR_NOBODY.toSorted());
    // Few people ask for it, and much of it asks providers, the platform or the names of hosts.
    expect(ADMIN_ROUTES.filter(({ pattern }) => pattern !== '/admin' && !leftOut.test(pattern))).toEqual([]);
    expect(leftOut.test('none')).toBe(false);
  });

  test('GatehousePlatformFails counts each outcome of a call that is the fault of the platform or of its address', () => {
    const [outcomes, ...others] = new Set(
      [...rule('GatehousePlatformFails').matchAll(/outcome!~"([^"]+)"/g)].map(([, one]) => one),
    );
    expect(others).toEqual([]);
    const leftOut = outcomes?.split('|') ?? [];
    // `busy` has an alert of its own; of `stopped` the caller is the cause.
    expect(leftOut).toEqual(['2xx', '3xx', '4xx', 'stopped', 'busy']);
    expect(
      leftOut.filter((outcome) => !(LABEL_VALUES.outboundRequests as readonly string[]).includes(outcome)),
    ).toEqual([]);
  });

  test('have balanced brackets', () => {
    for (const text of expressions) {
      for (const pair of ['()', '{}', '[]'])
        expect(text.split(pair[0] ?? '').length, text).toBe(text.split(pair[1] ?? '').length);
    }
  });

  test('each alert has a section that says what to do, in the same order, and points to it', () => {
    const sections = [...section(guide, 'Alerts: what to do').matchAll(/^### (\w+)\n\n(.+)/gm)];
    expect(alerts.map(({ name }) => name)).toEqual(sections.map(([, name]) => name));
    for (const { name, body } of alerts) {
      expect(body).toContain(`runbook: docs/operating.md#${name.toLowerCase()}\n`);
      expect(body).toMatch(/severity: (critical|warning|info) /);
      expect(body).toMatch(/summary: .{20,}/);
    }
  });

  test('each panel has a place and an id of its own', () => {
    const ids = dashboard.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

test('every problem code is explained with its status, and no other', () => {
  const rows = [...section(reference, 'Problem codes').matchAll(/^\| `(\w+)` \| (\d{3}) \| (.+) \|$/gm)];
  expect(rows.map(([, code, status]) => [code, Number(status)])).toEqual(
    Object.entries(PROBLEMS).map(([code, { status }]) => [code, status]),
  );
});

const NOW = 1_800_000_000_000;

/** Every way in which a refresh can fail, at a store and a provider made by hand: what the grant then says, and what was counted. */
async function refreshesThatFail(): Promise<{ failure: RefreshFailure; counted: string[] }[]> {
  const outcomes: Exclude<RefreshOutcome, { kind: 'tokens' }>[] = [
    { kind: 'refused' },
    { kind: 'app_fault', reason: 'invalid_client' },
    { kind: 'doubtful', reason: 'status_400' },
    { kind: 'unusable', reason: 'token_answer_invalid', refreshToken: undefined },
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
    failureAfter(({ withoutRefreshToken }, call) => withoutRefreshToken(call, false)),
    failureAfter(({ withoutRefreshToken }, call) => withoutRefreshToken(call, true)),
  ]);
}

async function failureAfter(
  work: (outcomes: ReturnType<typeof createRefreshOutcomes>, call: RefreshCall) => Promise<unknown>,
  more: { failedOverAt?: () => number } = {},
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
    ...more,
  });
  const app = { id: 'platform', name: 'Platform' } as ConnectedApp;
  await work(outcomes, { app, grant, version: 1, fence: undefined, lostEntry: undefined });
  if (!grant.failure) throw new Error('This refresh left no failure behind.');
  return { failure: grant.failure, counted };
}
