/** How many calls reach one host at a time: real calls to a host that keeps them waiting, alone and through a running Gatehouse. */
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type Outbound, OutboundError } from '../../../src/shared/outbound/outbound.ts';
import type { ProviderError } from '../../../src/shared/provider/provider-error.ts';
import { createProviderMetadata } from '../../../src/shared/provider/provider-metadata.ts';
import { ask, DATA } from '../../support/ask.ts';
import { signIn, startSite } from '../../support/gatehouse.ts';
import { startStopwatch } from '../../support/stopwatch.ts';

/** A host whose answers come when the test says so. */
interface SlowHost {
  url: string;
  held: ServerResponse[];
  /** The most that it ever had at a time. */
  most(): number;
  answerAll(): void;
  close(): Promise<void>;
}

async function startSlowHost(): Promise<SlowHost> {
  const held: ServerResponse[] = [];
  let most = 0;
  const server: Server = createServer((_req, res) => {
    held.push(res);
    most = Math.max(most, held.length);
    res.on('close', () => void held.splice(held.indexOf(res), 1));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    held,
    most: () => most,
    answerAll() {
      for (const res of [...held]) res.end('{}');
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
let busy: number;
beforeEach(async () => {
  host = await startSlowHost();
  busy = 0;
  const policy = createAddressPolicy(['127.0.0.1']);
  const onBusy = () => {
    busy += 1;
  };
  outbound = createOutbound({ policy, limits: { concurrency: 3, waiting: 2 }, onBusy });
});
afterEach(async () => {
  await outbound.close();
  await host.close();
});

const reasonOf = (call: Promise<unknown>) =>
  call.then(
    () => 'answered',
    (error: unknown) => (error instanceof OutboundError ? error.reason : String(error)),
  );
const fetchOne = (deadlineMilliseconds = LIMITS.deadlineMilliseconds) =>
  reasonOf(outbound.fetch(`${host.url}/`, {}, { ...LIMITS, deadlineMilliseconds }));
const streamOne = async () => {
  const { body } = await outbound.stream(outbound.target(`${host.url}/`), []).response;
  return body;
};

test('R89 so many calls run, so many wait, and whoever comes beyond that is told at once', async () => {
  const calls = Array.from({ length: 5 }, () => fetchOne());
  await expect.poll(() => host.held.length).toBe(3);
  expect(outbound.load()).toEqual({ running: 3, waiting: 2 });
  const took = startStopwatch();
  expect(await fetchOne()).toBe('busy');
  expect(await reasonOf(streamOne())).toBe('busy');
  expect(took()).toBeLessThan(500);
  expect(busy).toBe(2);
  host.answerAll();
  await expect.poll(() => host.held.length).toBe(2);
  host.answerAll();
  expect(new Set(await Promise.all(calls))).toEqual(new Set(['answered']));
  expect(host.most()).toBe(3);
  expect(outbound.load()).toEqual({ running: 0, waiting: 0 });
});

test('R89 hosts are counted each by itself', async () => {
  const other = await startSlowHost();
  const calls = Array.from({ length: 5 }, () => fetchOne());
  const elsewhere = reasonOf(outbound.fetch(`${other.url}/`, {}, LIMITS));
  await expect.poll(() => other.held.length).toBe(1);
  other.answerAll();
  expect(await elsewhere).toBe('answered');
  await other.close();
  await outbound.close();
  await Promise.all(calls);
});

test('R89 a place is free again however a call ends: broken off, given up, destroyed', async () => {
  const broken = [fetchOne(), fetchOne(), fetchOne()];
  await expect.poll(() => host.held.length).toBe(3);
  for (const res of [...host.held]) res.destroy();
  expect(await Promise.all(broken)).toEqual(['connection', 'connection', 'connection']);
  expect(await Promise.all([fetchOne(200), fetchOne(200), fetchOne(200)])).toEqual(['timeout', 'timeout', 'timeout']);
  const streams = Array.from({ length: 3 }, () => outbound.stream(outbound.target(`${host.url}/`), []));
  const ends = streams.map(({ response }) => reasonOf(response));
  await expect.poll(() => host.held.length).toBe(3);
  for (const { destroy } of streams) destroy(new Error('enough'));
  expect(new Set(await Promise.all(ends))).toEqual(new Set(['Error: enough']));
  // The connections are closed after the callers have heard.
  await expect.poll(() => outbound.load()).toEqual({ running: 0, waiting: 0 });
});

test('R28 a call that waits for its turn gives up at its deadline', async () => {
  const running = [fetchOne(), fetchOne(), fetchOne()];
  await expect.poll(() => host.held.length).toBe(3);
  const took = startStopwatch();
  expect(await fetchOne(300)).toBe('timeout');
  expect(took()).toBeLessThan(1_500);
  host.answerAll();
  await Promise.all(running);
  await expect.poll(() => outbound.load()).toEqual({ running: 0, waiting: 0 });
});

test('R89 a platform that hangs: 503 at once for whoever finds no room, and the rest goes on', async () => {
  const site = await startSite({
    env: { UPSTREAM_CONCURRENCY: '2', UPSTREAM_WAITING: '1' },
    app: { apiBaseUrl: host.url },
  });
  // Not to the home page, which would wait for a thread of its own.
  const { agent } = await signIn(site, undefined, { path: '/sign-in?return_to=/connections' });
  const headers = { ...DATA, cookie: agent.cookies.header(site.url) };
  const thread = () => ask(`${site.url}/threads/current`, { headers });
  const gauges = async () => {
    const { body } = await ask(`${site.managementUrl}/metrics`);
    return [...body.matchAll(/^gatehouse_outbound_\w+(?:\{.*\})? \d+$/gm)].map(([line]) => line);
  };
  const first = [thread(), thread(), thread()];
  await expect.poll(() => host.held.length).toBe(2);
  await expect.poll(gauges).toContain('gatehouse_outbound_calls{state="waiting"} 1');
  const refused = await thread();
  expect([refused.status, JSON.parse(refused.body).code]).toEqual([503, 'overloaded']);
  expect(refused.headers).toMatchObject({
    'retry-after': '2',
    'proxy-status': 'gatehouse; error=connection_limit_reached',
  });
  expect((await ask(`${site.url}/session`, { headers })).status).toBe(200);
  expect((await ask(`${site.url}/bin/45717360`, { headers })).status).toBe(200);
  expect(await gauges()).toContain('gatehouse_outbound_refused_total 1');
  host.answerAll();
  await expect.poll(() => host.held.length).toBe(1);
  host.answerAll();
  expect((await Promise.all(first)).map(({ status }) => status)).toEqual([200, 200, 200]);
  await site.close();
});

describe('R92 what anonymous requests cause', () => {
  const limits = { concurrency: 8, waiting: 4 };
  const shared = () => createOutbound({ policy: createAddressPolicy(['127.0.0.1']), limits, onBusy: () => undefined });
  const call = (through: Outbound, anonymous?: 'discovery' | 'pushed request', deadlineMilliseconds = 10_000) =>
    reasonOf(through.fetch(`${host.url}/`, { anonymous }, { ...LIMITS, deadlineMilliseconds }));

  test('runs on a quarter of the slots, waits on a quarter of the places, and is counted', async () => {
    const outbound = shared();
    const push = (deadlineMilliseconds?: number) => call(outbound, 'pushed request', deadlineMilliseconds);
    const running = [push(), push()];
    const waiting = push(3_000);
    await expect.poll(() => host.held.length).toBe(2);
    expect(outbound.load()).toEqual({ running: 2, waiting: 1 });
    expect(await push()).toBe('busy');
    const others = Array.from({ length: 6 }, () => call(outbound));
    await expect.poll(() => host.held.length).toBe(8);
    expect(await waiting).toBe('timeout');
    host.answerAll();
    expect(new Set(await Promise.all([...running, ...others]))).toEqual(new Set(['answered']));
    const next = push();
    await expect.poll(() => host.held.length).toBe(1);
    host.answerAll();
    expect(await next).toBe('answered');
    expect(outbound.load()).toEqual({ running: 0, waiting: 0 });
    await outbound.close();
  });

  test('leaves half of the slots when apps are discovered while sign-ins are pushed, and neither delays the other', async () => {
    const outbound = shared();
    const metadata = createProviderMetadata({ outbound, monotonicClock: () => performance.now(), random: () => 0 });
    const pushed = Array.from({ length: 3 }, () => call(outbound, 'pushed request'));
    const apps = ['a', 'b', 'c'].map((name) => ({ issuer: `${host.url}/${name}` }));
    const discovered = apps.map((app) => metadata.load(app).catch(({ reason }: ProviderError) => reason));
    await expect.poll(() => host.held.length).toBe(4);
    expect(outbound.load()).toEqual({ running: 4, waiting: 2 });
    while (outbound.load().running > 0) {
      host.answerAll();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(await Promise.all(pushed)).toEqual(['answered', 'answered', 'answered']);
    expect(await Promise.all(discovered)).toEqual(Array(3).fill('discovery_not_json'));
    expect(host.most()).toBe(4);
    await outbound.close();
  });
});
