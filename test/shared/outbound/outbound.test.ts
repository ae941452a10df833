/** Real calls to listeners that misbehave, with a resolver of the test. */
import type { lookup as systemLookup } from 'node:dns';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type Outbound, OutboundError } from '../../../src/shared/outbound/outbound.ts';
import { type HostileProvider, type ModeName, startHostileProvider } from '../../support/hostile-provider.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { until } from '../../support/until.ts';

const MAX_BYTES = 64 * 1024;
/** Long enough that no call exceeds the deadline on a busy machine. */
const LIMITS = { deadlineMilliseconds: 120_000, maxBytes: MAX_BYTES };
const SHORT_DEADLINE = { deadlineMilliseconds: 1_500, maxBytes: MAX_BYTES };
let provider: HostileProvider;
let outbound: Outbound;

beforeAll(async () => {
  provider = await startHostileProvider();
  outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
});
afterEach(() => provider.reset());
afterAll(async () => {
  await outbound.close();
  await provider.close();
});

const jwks = (limits = LIMITS) => outbound.fetch(`${provider.issuer}/jwks`, {}, limits);

async function reasonOf(call: Promise<unknown>): Promise<string> {
  const error: unknown = await call.then(
    () => 'response',
    (thrown: unknown) => thrown,
  );
  return error instanceof OutboundError ? error.reason : String(error);
}

test('the connection to a host that is called once is closed, even if the host requests a longer keep-alive', async () => {
  let openConnections = 0;
  const server = createServer({ keepAliveTimeout: 600_000 }, (_req, res) => {
    res.setHeader('keep-alive', 'timeout=600');
    res.end('{}');
  });
  server.on('connection', (socket) => {
    openConnections += 1;
    socket.on('close', () => {
      openConnections -= 1;
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const hosts = Array.from({ length: 100 }, (_, number) => `tenant-${number}.localhost`);
  const lookup = ((_host: string, _options: object, done: (...result: unknown[]) => void) =>
    done(null, [{ address: '127.0.0.1', family: 4 }])) as unknown as typeof systemLookup;
  const outbound = createOutbound({ policy: createAddressPolicy(hosts), lookup });
  await Promise.all(hosts.map((host) => outbound.fetch(`http://${host}:${port}/`, {}, LIMITS)));
  expect(openConnections).toBe(hosts.length);
  expect(await until(() => openConnections === 0)).toBeLessThan(30_000);

  await outbound.close();
  server.close();
});

describe('R28: every response has a limit in bytes and time', () => {
  const table: [ModeName, string][] = [
    ['jwks-huge', 'too_large'],
    ['jwks-drip', 'timeout'],
    ['jwks-hang', 'timeout'],
    ['jwks-reset', 'connection'],
    ['jwks-reset-after-headers', 'connection'],
    ['jwks-gzip-cut-off', 'encoding'],
    ['jwks-unknown-encoding', 'encoding'],
    ['jwks-many-headers', 'connection'],
  ];
  test('a call that takes too long names the host', async () => {
    provider.setModes('jwks-hang');
    await expect(jwks(SHORT_DEADLINE)).rejects.toThrow(`${new URL(provider.issuer).host} did not respond in time`);
  });

  test.each(table)('%s: %s', async (mode, reason) => {
    provider.setModes(mode);
    const elapsed = startStopwatch();
    expect(await reasonOf(jwks(reason === 'timeout' ? SHORT_DEADLINE : LIMITS))).toBe(reason);
    expect(elapsed()).toBeLessThan(SHORT_DEADLINE.deadlineMilliseconds + 1_000);
    expect(provider.hits).toHaveLength(1);
  });

  test('20 concurrent responses of 200 MB do not increase memory', async () => {
    provider.setModes('jwks-huge');
    const memoryBefore = process.memoryUsage.rss();
    const reasons = await Promise.all(Array.from({ length: 20 }, () => reasonOf(jwks())));
    expect(new Set(reasons)).toEqual(new Set(['too_large']));
    expect((process.memoryUsage.rss() - memoryBefore) / 2 ** 20).toBeLessThan(64);
  });

  test('a response of exactly the limit is read, and one byte more is refused', async () => {
    const exact = Buffer.byteLength(await (await jwks()).text());
    const fetchWith = (maxBytes: number) => outbound.fetch(`${provider.issuer}/jwks`, {}, { ...LIMITS, maxBytes });
    expect((await fetchWith(exact)).status).toBe(200);
    expect(await reasonOf(fetchWith(exact - 1))).toBe('too_large');
  });

  test('a call requests no compression', async () => {
    await jwks();
    expect(provider.hits[0]?.headers['accept-encoding']).toBe('identity');
  });
});

describe('R25: redirects', () => {
  test.each(['jwks-redirect', 'jwks-redirect-301', 'jwks-redirect-307'] as const)(
    '%s is not followed',
    async (mode) => {
      provider.setModes(mode);
      expect((await jwks()).status).toBeGreaterThanOrEqual(300);
      expect(provider.trapped).toEqual([]);
    },
  );
});

describe('R79: addresses', () => {
  /** Returns the first list at the first lookup, and so on; the last list from then on. */
  function resolver(...results: string[][]) {
    const lookedUp: string[] = [];
    const lookup = (name: string, _options: unknown, done: (error: null, all: object[]) => void) => {
      const addresses = results[Math.min(lookedUp.length, results.length - 1)] ?? [];
      lookedUp.push(name);
      const all = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
      done(null, all);
    };
    return { lookedUp, lookup: lookup as unknown as typeof systemLookup };
  }
  test('the error for a name that resolves to a private address contains the host, the rule and advice', async () => {
    const calls = createOutbound({ policy: createAddressPolicy([]), lookup: resolver(['10.0.0.1']).lookup });
    const error: unknown = await calls
      .fetch('https://idp.example.com/token?code=1', {}, LIMITS)
      .catch((thrown: unknown) => thrown);
    await calls.close();
    expect(error).toMatchObject({
      message: 'the address policy refuses idp.example.com:443 (private_address)',
      advice: expect.stringContaining('INTERNAL_HOSTS'),
    });
  });

  async function callNamed(lookup: typeof systemLookup): Promise<string> {
    const calls = createOutbound({ policy: createAddressPolicy(['127.0.0.1']), lookup });
    const { port } = new URL(provider.issuer);
    const reason = await reasonOf(calls.fetch(`https://provider.example.com:${port}/jwks`, {}, LIMITS));
    await calls.close();
    return reason;
  }

  test.each([[['10.0.0.1']], [['169.254.169.254']], [['::1']], [['::ffff:10.0.0.1']], [['93.184.216.34', '10.0.0.1']]])(
    'refuses a name that resolves to %s before a connection is opened',
    async (addresses) => {
      expect(await callNamed(resolver(addresses).lookup)).toBe('address');
      expect(provider.hits).toEqual([]);
    },
  );

  test('a call resolves a name once, and connects to the address that was checked', async () => {
    // The first address is allowed, and its server does not use TLS; all later ones are forbidden.
    const { lookedUp, lookup } = resolver(['127.0.0.1'], ['169.254.169.254']);
    expect(await callNamed(lookup)).toBe('connection');
    expect(lookedUp).toEqual(['provider.example.com']);
    expect(await callNamed(lookup)).toBe('address');
  });

  test('the host of a URL that breaks the policy is not resolved', async () => {
    const { lookedUp, lookup } = resolver(['93.184.216.34']);
    const calls = createOutbound({ policy: createAddressPolicy([]), lookup });
    for (const url of ['http://provider.example.com/', 'https://10.0.0.1/', 'https://u:p@provider.example.com/', 'x']) {
      expect(await reasonOf(calls.fetch(url, {}, LIMITS))).toBe('address');
    }
    expect(lookedUp).toEqual([]);

    await calls.close();
  });

  test('an error never contains the URL, which may hold a code', async () => {
    const secret = 'canary-code-1234';
    for (const url of [`https://10.0.0.1/?code=${secret}`, `http://127.0.0.1:1/?code=${secret}`]) {
      const error: unknown = await outbound.fetch(url, {}, LIMITS).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(OutboundError);
      const all = JSON.stringify(error, Object.getOwnPropertyNames(error)) + String((error as Error).cause);
      expect(all).not.toContain(secret);
    }
  });
});
