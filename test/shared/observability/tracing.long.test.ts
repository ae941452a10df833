/** Traces of a running Gatehouse, as received by a collector, the platform and the provider. */
import { readdirSync, readFileSync } from 'node:fs';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { scrubCardNumbers } from '../../../src/shared/observability/card-numbers.ts';
import { createTracing } from '../../../src/shared/observability/tracing.ts';
import { type CollectedSpan, type Collector, startCollector } from '../../support/collector.ts';
import { CLIENT_SECRET, PASSWORD, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { type OutboundRecorder, recordOutbound } from '../../support/outbound-recorder.ts';
import { freePort } from '../../support/ports.ts';
import { ACCEPT_HTML, ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { startStopwatch } from '../../support/stopwatch.ts';

const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../../package.json'), 'utf8'));
const SERVER = 2;
const CLIENT = 3;
const CALLER = { trace: '0af7651916cd43dd8448eb211c80319c', span: 'b7ad6b7169203331' };
const UNSAMPLED = { trace: '1bf7651916cd43dd8448eb211c80319c', span: 'c7ad6b7169203331' };
const traceparent = ({ trace, span }: typeof CALLER, flags: string) => `00-${trace}-${span}-${flags}`;

async function countersOf(site: TestSite, name: string): Promise<string[]> {
  const { body } = await sendRequest(`${site.managementUrl}/metrics`);
  return body.split('\n').filter((line) => line.startsWith(name));
}

describe('with a collector', () => {
  let collector: Collector;
  let recorder: OutboundRecorder;
  let cookie: string;
  let requestId: string;
  let sent: string;
  let sentToBins: string;
  let spans: CollectedSpan[];

  beforeAll(async () => {
    collector = await startCollector();
    recorder = recordOutbound();
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.endpoint}/`,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-collector-key=canary%20key',
      OTEL_SERVICE_NAME: 'gatehouse-test',
    };
    const site = await startSite({ env });
    const { agent } = await signIn(site);
    cookie = agent.cookies.header(site.url);
    const headers = { ...ACCEPT_JSON, cookie };
    const parent = {
      traceparent: traceparent(CALLER, '01'),
      tracestate: 'vendor=canary-state',
      baggage: 'b=canary-bag',
    };
    const thread = await sendRequest(`${site.url}/threads/current?app=platform`, {
      headers: { ...headers, ...parent },
    });
    requestId = String(thread.headers['x-request-id']);
    await sendRequest(`${site.url}/threads/current`, {
      headers: { ...headers, traceparent: traceparent(UNSAMPLED, '00') },
    });
    await sendRequest(`${site.url}/threads/current`, { headers: { ...headers, traceparent: 'nonsense' } });
    await sendRequest(`${site.url}/threads/current`, {
      headers: { ...headers, traceparent: `00-4111111111111111${'a'.repeat(16)}-${CALLER.span}-01` },
    });
    await sendRequest(`${site.url}/bin/45717360`, { headers: { ...headers, ...ACCEPT_HTML } });
    await sendRequest(`${site.url}/no-such-page?code=canary-in-url`, { headers });
    const clearError = site.sandbox.faults.set({ listener: 'platform', kind: 'error' });
    await sendRequest(`${site.url}/threads/current`, { headers });
    clearError();
    const clearReset = site.sandbox.faults.set({ listener: 'platform', kind: 'reset' });
    await sendRequest(`${site.url}/threads/current`, { headers });
    clearReset();
    const { issuer, platformUrl, binServiceUrl } = site.sandbox;
    const [provider = 0, platform = 0, bins = 0] = [issuer, platformUrl, binServiceUrl].map((url) =>
      Number(new URL(url).port),
    );
    await site.close();
    recorder.stop();
    sent = recorder.sentTo([provider, platform]);
    sentToBins = recorder.sentTo([bins]);
    spans = collector.spans();
  });
  afterAll(() => collector.close());

  const requestSpans = (route: string) =>
    spans.filter(({ kind, attributes }) => kind === SERVER && attributes['http.route'] === route);
  const callsOf = (parent: CollectedSpan | undefined) =>
    spans.filter(({ parentSpanId }) => parentSpanId === parent?.spanId);
  const callersSpan = () => requestSpans('/threads/current').find(({ traceId }) => traceId === CALLER.trace);

  test('a request has one span, as a child of the span of the caller, with route, status and request id', () => {
    expect(callersSpan()).toMatchObject({ parentSpanId: CALLER.span, name: 'GET /threads/current', status: 0 });
    expect(callersSpan()?.attributes).toEqual({
      'http.request.method': 'GET',
      'http.route': '/threads/current',
      'http.response.status_code': 200,
      'gatehouse.request_id': requestId,
    });
    expect(spans.filter(({ attributes }) => attributes['gatehouse.request_id'] === requestId)).toHaveLength(1);
  });

  test('its outgoing call has one child span, which the platform gets as its parent', () => {
    const [call, ...others] = callsOf(callersSpan());
    expect(others).toEqual([]);
    expect(call).toMatchObject({ traceId: CALLER.trace, kind: CLIENT, name: 'GET 127.0.0.1' });
    expect(call?.attributes).toMatchObject({ 'server.address': '127.0.0.1', 'http.response.status_code': 200 });
    expect(sent).toContain(`traceparent: 00-${CALLER.trace}-${call?.spanId}-01`);
  });

  test('calls to the provider have spans, too: the code exchange, below its callback', () => {
    const [callback] = requestSpans('/oauth/callback/:app');
    const calls = callsOf(callback);
    expect(calls.map(({ name }) => name)).toContain('POST 127.0.0.1');
    for (const { traceId, spanId } of calls) expect(sent).toContain(`traceparent: 00-${traceId}-${spanId}-01`);
  });

  test('a caller that does not sample is not traced, and the platform gets the same decision', () => {
    expect(spans.filter(({ traceId }) => traceId === UNSAMPLED.trace)).toEqual([]);
    expect(sent).toMatch(new RegExp(`traceparent: 00-${UNSAMPLED.trace}-[0-9a-f]{16}-00`));
  });

  test('R86 an invalid context, or one with a card number, starts a new trace', () => {
    const roots = requestSpans('/threads/current').filter(({ parentSpanId }) => parentSpanId === '');
    expect(roots.length).toBeGreaterThanOrEqual(2);
    expect(sent).not.toContain('4111111111111111');
  });

  test('a request without a route has no path in its span, and failures are marked', () => {
    const unrouted = spans.find(
      ({ kind, attributes }) => kind === SERVER && attributes['http.response.status_code'] === 404,
    );
    expect(unrouted).toMatchObject({ name: 'GET', status: 0 });

    const [broken, unreachable] = requestSpans('/threads/current').filter(({ status }) => status === 2);
    for (const span of [broken, unreachable]) {
      expect(span?.attributes).toMatchObject({ 'http.response.status_code': 502, 'error.type': '502' });
    }
    expect(callsOf(broken)[0]).toMatchObject({ status: 2, attributes: { 'error.type': '500' } });

    const [call] = callsOf(unreachable);
    expect(call).toMatchObject({ status: 2, attributes: { 'error.type': expect.stringMatching(/^[A-Za-z_]+$/) } });
    expect(call?.attributes).not.toHaveProperty('http.response.status_code');
  });

  test('R61 no span holds a token, a secret, a cookie, a code, a BIN or anything else of a URL', () => {
    const canaries = new Set([CLIENT_SECRET, PASSWORD, 'canary', '45717360', 'user@example.test']);
    for (const [, value = ''] of sent.matchAll(/\b(?:code|code_verifier|refresh_token|token)=([\w.-]{16,})/g))
      canaries.add(value);
    for (const [, value = ''] of sent.matchAll(/authorization: \w+ ([\w.+/=-]+)/gi)) canaries.add(value);
    for (const [, value = ''] of cookie.matchAll(/=([^;]{16,})/g)) canaries.add(value);
    expect(canaries.size).toBeGreaterThanOrEqual(10);

    for (const canary of canaries) expect(collector.raw().includes(canary), canary.slice(0, 6)).toBe(false);
  });

  test('R86 the BIN lookup service gets no trace context', () => {
    const [lookup] = requestSpans('/bin/:bin');
    expect(callsOf(lookup).map(({ name }) => name)).toEqual(['GET 127.0.0.1']);
    expect(sentToBins).toContain('GET /45717360');
    expect(sentToBins).not.toMatch(/traceparent/i);
  });

  test('tracestate and baggage of the caller are not passed on', () => {
    expect(sent).not.toMatch(/tracestate|baggage|canary-(state|bag)/i);
  });

  test('the collector gets the resource of the process, and its API key', () => {
    expect(collector.resource()).toMatchObject({
      'service.name': 'gatehouse-test',
      'service.version': version,
      'service.instance.id': expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    expect(collector.headers()[0]).toMatchObject({ 'x-collector-key': 'canary key' });
  });
});

test('callers cannot start traces if the sampler does not depend on them', async () => {
  const collector = await startCollector();
  const site = await startSite({
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
      OTEL_TRACES_SAMPLER: 'traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0',
    },
  });
  await sendRequest(`${site.url}/`, { headers: { traceparent: traceparent(CALLER, '01') } });
  await site.close();
  expect(collector.spans()).toEqual([]);

  await collector.close();
});

test('R86 the log leaves every trace id unchanged', () => {
  const tracing = createTracing({
    settings: {
      endpoint: 'http://127.0.0.1:9',
      headers: {},
      serviceName: undefined,
      sampler: 'always_off',
      ratio: 1,
    },
    factsOf: () => undefined,
    onExported: () => {},
  });
  const ids: (string | undefined)[] = [];
  const listener = tracing.around(() => ids.push(tracing.traceId()));
  // One of 570 random ids has digits that look like a card number.
  for (let request = 0; request < 10_000; request++) {
    const req = new IncomingMessage(new Socket());
    listener(req, new ServerResponse(req));
  }
  expect(new Set(ids).size).toBe(10_000);
  expect(ids.filter((id) => scrubCardNumbers(String(id)) !== id)).toEqual([]);
});

test('R90 without its collector, Gatehouse loses and counts traces, and stops without delay', async () => {
  const site = await startSite({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await freePort()}` } });
  expect((await sendRequest(`${site.url}/`)).status).toBe(200);
  await expect
    .poll(() => countersOf(site, 'gatehouse_spans_total{outcome="lost"}'))
    .toEqual([expect.stringMatching(/outcome="lost"\} [1-9]/)]);

  await sendRequest(`${site.url}/`);
  const elapsed = startStopwatch();
  await site.close();
  expect(elapsed()).toBeLessThan(8_000);
});

describe('without a collector', () => {
  test('no context is passed on, and the libraries are not loaded', async () => {
    const recorder = recordOutbound();
    const site = await startSite();
    const { agent } = await signIn(site);
    const headers = { ...ACCEPT_JSON, cookie: agent.cookies.header(site.url), traceparent: traceparent(CALLER, '01') };
    expect((await sendRequest(`${site.url}/threads/current`, { headers })).status).toBe(200);

    recorder.stop();
    expect(recorder.sentTo([Number(new URL(site.sandbox.platformUrl).port)])).not.toMatch(/traceparent/i);

    await site.close();
    const src = join(import.meta.dirname, '../../..', 'src');
    const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
    const source = (path: string) => readFileSync(join(src, path), 'utf8');
    expect(files.filter((path) => source(path).includes("from '@opentelemetry/"))).toEqual([
      'shared/observability/tracing.ts',
    ]);
    expect(files.filter((path) => /^import (?!type )[^;]*\/tracing\.ts'/m.test(source(path)))).toEqual([]);
  });
});
