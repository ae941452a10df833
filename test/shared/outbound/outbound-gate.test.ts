/** The limit of concurrent calls to one host: real calls to a slow host, directly and through a running Gatehouse. */
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type Outbound, OutboundError } from '../../../src/shared/outbound/outbound.ts';
import { createOutboundGate, type OutboundGate, type Share } from '../../../src/shared/outbound/outbound-gate.ts';
import type { ProviderError } from '../../../src/shared/provider/provider-error.ts';
import { createProviderMetadata } from '../../../src/shared/provider/provider-metadata.ts';
import { signIn, startSite } from '../../support/gatehouse.ts';
import { ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { startStopwatch } from '../../support/stopwatch.ts';

/** A host that responds when the test tells it to. */
interface SlowHost {
  url: string;
  pending: ServerResponse[];
  /** The most concurrent requests so far. */
  peak(): number;
  respondToAll(): void;
  close(): Promise<void>;
}

async function startSlowHost(): Promise<SlowHost> {
  const pending: ServerResponse[] = [];
  let peak = 0;
  const server: Server = createServer((_req, res) => {
    pending.push(res);
    peak = Math.max(peak, pending.length);
    res.on('close', () => void pending.splice(pending.indexOf(res), 1));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    pending,
    peak: () => peak,
    respondToAll() {
      for (const res of [...pending]) res.end('{}');
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const LIMITS = { deadlineMilliseconds: 10_000, maxBytes: 1_000 };
let host: SlowHost;
let outbound: Outbound;
let refusedCalls: number;
beforeEach(async () => {
  host = await startSlowHost();
  refusedCalls = 0;
  const policy = createAddressPolicy(['127.0.0.1']);
  const onBusy = () => {
    refusedCalls += 1;
  };
  outbound = createOutbound({ policy, limits: { concurrency: 3, waiting: 2 }, onBusy });
});
afterEach(async () => {
  await outbound.close();
  await host.close();
});

const reasonOf = (call: Promise<unknown>) =>
  call.then(
    () => 'response',
    (error: unknown) => (error instanceof OutboundError ? error.reason : String(error)),
  );
const fetchOne = (deadlineMilliseconds = LIMITS.deadlineMilliseconds) =>
  reasonOf(outbound.fetch(`${host.url}/`, {}, { ...LIMITS, deadlineMilliseconds }));
const streamOne = async () => {
  const { body } = await outbound.stream(outbound.target(`${host.url}/`), []).response;
  return body;
};

test('R89 a limited number of calls run and wait, and further ones are refused at once', async () => {
  const calls = Array.from({ length: 5 }, () => fetchOne());
  await expect.poll(() => host.pending.length).toBe(3);
  expect(outbound.load()).toEqual({ running: 3, waiting: 2 });

  const elapsed = startStopwatch();
  expect(await fetchOne()).toBe('busy');
  expect(await reasonOf(streamOne())).toBe('busy');
  expect(elapsed()).toBeLessThan(500);
  expect(refusedCalls).toBe(2);

  host.respondToAll();
  await expect.poll(() => host.pending.length).toBe(2);

  host.respondToAll();
  expect(new Set(await Promise.all(calls))).toEqual(new Set(['response']));
  expect(host.peak()).toBe(3);
  expect(outbound.load()).toEqual({ running: 0, waiting: 0 });
});

test('R89 the calls to each host are counted separately', async () => {
  const otherHost = await startSlowHost();
  const calls = Array.from({ length: 5 }, () => fetchOne());
  const otherCall = reasonOf(outbound.fetch(`${otherHost.url}/`, {}, LIMITS));
  await expect.poll(() => otherHost.pending.length).toBe(1);

  otherHost.respondToAll();
  expect(await otherCall).toBe('response');

  await otherHost.close();
  await outbound.close();
  await Promise.all(calls);
});

test('R89 a call that is cut off, times out or is destroyed frees its slot', async () => {
  const brokenCalls = [fetchOne(), fetchOne(), fetchOne()];
  await expect.poll(() => host.pending.length).toBe(3);

  for (const res of [...host.pending]) res.destroy();
  expect(await Promise.all(brokenCalls)).toEqual(['connection', 'connection', 'connection']);
  expect(await Promise.all([fetchOne(200), fetchOne(200), fetchOne(200)])).toEqual(['timeout', 'timeout', 'timeout']);

  const streams = Array.from({ length: 3 }, () => outbound.stream(outbound.target(`${host.url}/`), []));
  const ends = streams.map(({ response }) => reasonOf(response));
  await expect.poll(() => host.pending.length).toBe(3);

  for (const { destroy } of streams) destroy(new Error('enough'));
  expect(new Set(await Promise.all(ends))).toEqual(new Set(['Error: enough']));
  // The connections close after the promises of the callers settle.
  await expect.poll(() => outbound.load()).toEqual({ running: 0, waiting: 0 });
});

test('R28 a waiting call times out at its deadline', async () => {
  const running = [fetchOne(), fetchOne(), fetchOne()];
  await expect.poll(() => host.pending.length).toBe(3);

  const elapsed = startStopwatch();
  expect(await fetchOne(300)).toBe('timeout');
  expect(elapsed()).toBeLessThan(1_500);

  host.respondToAll();
  await Promise.all(running);
  await expect.poll(() => outbound.load()).toEqual({ running: 0, waiting: 0 });
});

test('R89 while a platform hangs, calls beyond the limits get 503 at once, and other routes work', async () => {
  const site = await startSite({
    env: { OUTBOUND_CONCURRENT_CALLS: '2', OUTBOUND_WAITING_CALLS: '1' },
    app: { apiBaseUrl: host.url },
  });
  // The home page would add a call to the platform.
  const { agent } = await signIn(site, undefined, { path: '/sign-in?return_to=/connections' });
  const headers = { ...ACCEPT_JSON, cookie: agent.cookies.header(site.url) };
  const thread = () => sendRequest(`${site.url}/threads/current`, { headers });
  const gauges = async () => {
    const { body } = await sendRequest(`${site.managementUrl}/metrics`);
    return [...body.matchAll(/^gatehouse_outbound_\w+(?:\{.*\})? \d+$/gm)].map(([line]) => line);
  };
  const first = [thread(), thread(), thread()];
  await expect.poll(() => host.pending.length).toBe(2);
  await expect.poll(gauges).toContain('gatehouse_outbound_calls{state="waiting"} 1');

  const refused = await thread();
  expect([refused.status, JSON.parse(refused.body).code]).toEqual([503, 'overloaded']);
  expect(refused.headers).toMatchObject({
    'retry-after': '2',
    'proxy-status': 'gatehouse; error=connection_limit_reached',
  });
  expect((await sendRequest(`${site.url}/session`, { headers })).status).toBe(200);
  expect((await sendRequest(`${site.url}/bin/45717360`, { headers })).status).toBe(200);
  expect(await gauges()).toContain('gatehouse_outbound_refused_total 1');

  host.respondToAll();
  await expect.poll(() => host.pending.length).toBe(1);

  host.respondToAll();
  expect((await Promise.all(first)).map(({ status }) => status)).toEqual([200, 200, 200]);

  await site.close();
});

describe('R92 calls that anonymous requests cause', () => {
  const limits = { concurrency: 16, waiting: 8 };
  const createOutboundForAll = () =>
    createOutbound({ policy: createAddressPolicy(['127.0.0.1']), limits, onBusy: () => undefined });
  const call = (through: Outbound, anonymous?: 'discovery' | 'pushed request', deadlineMilliseconds = 10_000) =>
    reasonOf(through.fetch(`${host.url}/`, { anonymous }, { ...LIMITS, deadlineMilliseconds }));

  test('use an eighth of the slots and of the queue, and are counted', async () => {
    const outbound = createOutboundForAll();
    const push = (deadlineMilliseconds?: number) => call(outbound, 'pushed request', deadlineMilliseconds);
    const running = [push(), push()];
    const waiting = push(3_000);
    await expect.poll(() => host.pending.length).toBe(2);
    expect(outbound.load()).toEqual({ running: 2, waiting: 1 });
    expect(await push()).toBe('busy');

    const others = Array.from({ length: 14 }, () => call(outbound));
    await expect.poll(() => host.pending.length).toBe(16);
    expect(await waiting).toBe('timeout');

    host.respondToAll();
    expect(new Set(await Promise.all([...running, ...others]))).toEqual(new Set(['response']));

    const next = push();
    await expect.poll(() => host.pending.length).toBe(1);

    host.respondToAll();
    expect(await next).toBe('response');
    expect(outbound.load()).toEqual({ running: 0, waiting: 0 });

    await outbound.close();
  });

  test('leave three quarters of the slots during discovery and pushed requests, which do not delay each other', async () => {
    const outbound = createOutboundForAll();
    const metadata = createProviderMetadata({ outbound, monotonicClock: () => performance.now(), random: () => 0 });
    const pushed = Array.from({ length: 3 }, () => call(outbound, 'pushed request'));
    const apps = ['a', 'b', 'c'].map((name) => ({ issuer: `${host.url}/${name}` }));
    const discovered = apps.map((app) => metadata.load(app).catch(({ reason }: ProviderError) => reason));
    await expect.poll(() => host.pending.length).toBe(4);
    expect(outbound.load()).toEqual({ running: 4, waiting: 2 });

    while (outbound.load().running > 0) {
      host.respondToAll();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(await Promise.all(pushed)).toEqual(['response', 'response', 'response']);
    expect(await Promise.all(discovered)).toEqual(Array(3).fill('discovery_not_json'));
    expect(host.peak()).toBe(4);

    await outbound.close();
  });
});

describe('R134 calls that services cause', () => {
  const limits = { concurrency: 8, waiting: 8 };
  const createSharedOutbound = () =>
    createOutbound({ policy: createAddressPolicy(['127.0.0.1']), limits, onBusy: () => undefined });
  const endOf = ({ response, destroy }: ReturnType<Outbound['stream']>) => ({ ended: reasonOf(response), destroy });

  /** Lets the host respond until all these calls have ended. */
  const respondUntilEnded = async <T>(calls: readonly Promise<T>[]): Promise<T[]> => {
    const timer = setInterval(host.respondToAll, 5);
    return Promise.all(calls).finally(() => clearInterval(timer));
  };

  test('a service that floods has half of the five eighths for services, and users have their slots at once', async () => {
    const outbound = createSharedOutbound();
    const call = (service?: string) => endOf(outbound.stream(outbound.target(`${host.url}/`), [], { service }));
    const floodingCalls = Array.from({ length: 20 }, () => call('flood'));
    await expect.poll(() => host.pending.length).toBe(2);
    expect(outbound.load()).toEqual({ running: 2, waiting: 2 });
    expect(await Promise.all(floodingCalls.slice(4).map(({ ended }) => ended))).toEqual(Array(16).fill('busy'));
    const secondServiceCalls = [call('beside'), call('beside'), call('third')];
    await expect.poll(() => host.pending.length).toBe(5);
    const others = [call('third'), call()];
    await expect.poll(() => host.pending.length).toBe(6);
    expect(outbound.load()).toEqual({ running: 6, waiting: 3 });
    const users = [call(), call()];
    await expect.poll(() => host.pending.length).toBe(8);
    const ends = [...floodingCalls.slice(0, 4), ...secondServiceCalls, ...others, ...users].map(({ ended }) => ended);
    expect(new Set(await respondUntilEnded(ends))).toEqual(new Set(['response']));
    expect(outbound.load()).toEqual({ running: 0, waiting: 0 });

    await outbound.close();
  });

  test('a call that ends while it waits for its share occupies no slot', async () => {
    const outbound = createSharedOutbound();
    const call = () => endOf(outbound.stream(outbound.target(`${host.url}/`), [], { service: 'flood' }));
    const calls = Array.from({ length: 4 }, call);
    await expect.poll(() => host.pending.length).toBe(2);
    for (const { destroy } of calls.toReversed()) destroy(new Error('enough'));
    await Promise.all(calls.map(({ ended }) => ended));
    await expect.poll(() => outbound.load()).toEqual({ running: 0, waiting: 0 });

    const newCalls = [call(), call()].map(({ ended }) => ended);
    expect(await respondUntilEnded(newCalls)).toEqual(['response', 'response']);

    await outbound.close();
  });

  test('work of a service waits for its share, and calls of the service for users do not', async () => {
    const outbound = createSharedOutbound();
    const done = Promise.withResolvers<void>();
    let running = 0;
    const work = async () => {
      running += 1;
      await done.promise;
      return reasonOf(outbound.fetch(`${host.url}/`, {}, LIMITS));
    };
    const results = Array.from({ length: 5 }, () =>
      outbound.runInServiceShare('host', 'flood', work).catch((error) => error.reason),
    );
    expect(await results[4]).toBe('busy');
    expect(running).toBe(2);
    done.resolve();
    expect(await respondUntilEnded(results.slice(0, 4))).toEqual(Array(4).fill('response'));
    expect(outbound.load()).toEqual({ running: 0, waiting: 0 });

    await outbound.close();
  });
});

test('R92 R134 services, discovery and pushed requests together leave users slots of their own, whatever the limits are', () => {
  const countRunning = (gate: OutboundGate, share: Share | undefined, attempts: number): number => {
    let running = 0;
    for (let attempt = 0; attempt < attempts; attempt += 1) {
      try {
        gate.reserve('https://host.test', share).begin(() => {
          running += 1;
        });
      } catch {
        // The share is at its limits.
      }
    }
    return running;
  };
  fc.assert(
    fc.property(fc.integer({ min: 4, max: 100 }), fc.integer({ min: 0, max: 100 }), (concurrency, waiting) => {
      const gate = createOutboundGate({ concurrency, waiting }, () => new Error('busy'));
      const attempts = concurrency + waiting + 1;
      const ofOneToken = countRunning(gate, { service: 'flood' }, attempts);
      const services = Array.from({ length: 8 }, (_, n) => countRunning(gate, { service: `service ${n}` }, attempts));
      const ofServices = services.reduce((sum, running) => sum + running, ofOneToken);
      const discovery = countRunning(gate, { anonymous: 'discovery' }, attempts);
      const pushed = countRunning(gate, { anonymous: 'pushed request' }, attempts);
      const ofUsers = countRunning(gate, undefined, attempts);
      expect(Math.min(ofOneToken, discovery, pushed)).toBeGreaterThanOrEqual(1);
      expect(ofOneToken).toBeLessThanOrEqual(Math.max(1, ofServices / 2));
      expect(ofServices).toBeLessThanOrEqual((concurrency * 5) / 8);
      expect(ofUsers).toBeGreaterThanOrEqual(Math.max(1, Math.floor(concurrency / 8)));
      expect(ofServices + discovery + pushed + ofUsers).toBe(concurrency);
    }),
  );
});
