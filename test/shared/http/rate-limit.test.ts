/** R89: rate limits, counted in one process and across processes. */
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createRateLimits, type LimitKind, type RateLimits } from '../../../src/shared/http/rate-limit.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import type { Store } from '../../../src/shared/storage/store.ts';

const MINUTE = 60_000;
const PER_MINUTE = {
  address: 10,
  session: 10,
  'relay-token': 0,
  plan: 0,
  'sign-in': 10,
  callback: 10,
  guess: 10,
  'logout-token': 10,
};
const REFUSED = expect.objectContaining({ code: 'rate_limited' });

let now: number;
/** The counts in the store, by key. */
let stored: Map<string, number>;
/** The lifetimes of the counts in the store. */
let lifetimes: Set<number | undefined>;
let storeFails: boolean;
let limits: RateLimits;
beforeEach(() => {
  now = 30 * MINUTE;
  stored = new Map();
  lifetimes = new Set();
  storeFails = false;
  const increment: Store['increment'] = async (key, by = 1, options) => {
    lifetimes.add(options?.lifetimeSeconds);
    if (storeFails) throw new Error('unavailable');
    const count = (stored.get(key) ?? 0) + by;
    stored.set(key, count);
    return count;
  };
  limits = createRateLimits({ store: { increment }, clock: () => now, perMinute: PER_MINUTE });
});
afterEach(() => limits.close());

const takeMany = (count: number, kind: LimitKind, caller: string) => {
  let counted = 0;
  for (let n = 0; n < count; n += 1) counted = limits.take(kind, caller);
  return limits.headers(kind, counted);
};

test('requests up to the limit are accepted, and further ones are refused until the minute is over; the headers report the rest', () => {
  now += 12_400;
  expect(takeMany(1, 'address', 'a')).toEqual({
    'RateLimit-Policy': '"address";q=10;w=60',
    RateLimit: '"address";r=9;t=48',
  });
  expect(takeMany(9, 'address', 'a')).toMatchObject({ RateLimit: '"address";r=0;t=48' });

  expect(() => limits.take('address', 'a')).toThrow(REFUSED);

  let refusal: unknown;
  try {
    limits.take('address', 'a');
  } catch (error) {
    refusal = error;
  }
  expect(refusal).toMatchObject({
    code: 'rate_limited',
    retryAfterSeconds: 48,
    headers: { RateLimit: '"address";r=0;t=48' },
  });

  expect(takeMany(1, 'address', 'b')).toMatchObject({ RateLimit: '"address";r=9;t=48' });
  expect(takeMany(1, 'session', 'a')).toMatchObject({ RateLimit: '"session";r=9;t=48' });

  now = 31 * MINUTE - 1;
  expect(() => limits.take('address', 'a')).toThrow(expect.objectContaining({ retryAfterSeconds: 1 }));

  now += 1;
  expect(takeMany(1, 'address', 'a')).toMatchObject({ RateLimit: '"address";r=9;t=60' });
});

test('a limit of 0 means no limit', () => {
  expect(takeMany(100, 'relay-token', 'a')).toEqual({});
});

test('an IPv6 /64 is one caller for limits by address, and only for those', () => {
  takeMany(10, 'guess', '2001:db8:0:1::1');
  expect(() => limits.take('guess', '2001:db8:0:1:ffff:ffff:ffff:ffff')).toThrow(REFUSED);
  expect(() => limits.take('guess', '2001:db8:0:2::1')).not.toThrow();

  takeMany(10, 'address', '2001:db8:0:1::1');
  expect(() => limits.take('address', '2001:db8:0:1::2')).toThrow(REFUSED);

  takeMany(10, 'session', '2001:db8:0:1::1');
  expect(() => limits.take('session', '2001:db8:0:1::2')).not.toThrow();

  // An identifier that only resembles an IPv6 address is counted unchanged.
  takeMany(10, 'guess', 'not:an:address');
  expect(() => limits.take('guess', 'not:an:address')).toThrow(REFUSED);
  expect(() => limits.take('guess', 'not:an:other')).not.toThrow();
});

const addressOf = (n: number) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;

test('R97 a caller at the limit stays refused, however many others come within the minute', async () => {
  takeMany(10, 'guess', '192.0.2.1');
  takeMany(9, 'guess', '192.0.2.2');
  for (let n = 0; n < 100_000; n += 1) limits.take('guess', addressOf(n));
  expect(() => limits.take('guess', '192.0.2.1')).toThrow(REFUSED);
  // This caller is evicted: it is below the limit, and the least recently used.
  expect(limits.take('guess', '192.0.2.2')).toBe(1);

  now += MINUTE;
  expect(limits.take('guess', '192.0.2.1')).toBe(1);
});

test('R97 a caller at the limit because of other processes stays refused', async () => {
  takeMany(5, 'guess', '192.0.2.1');
  stored.set(keys.limit('guess', '192.0.2.1', now / MINUTE), 20);
  await limits.flush();
  for (let n = 0; n < 100_000; n += 1) limits.take('guess', addressOf(n));
  expect(() => limits.take('guess', '192.0.2.1')).toThrow(REFUSED);
});

test('R97 a frequent caller is remembered among many others', () => {
  for (let n = 0; n < 3; n += 1) {
    limits.take('guess', '192.0.2.1');
    for (let other = 0; other < 30_000; other += 1) limits.take('guess', addressOf(n * 30_000 + other));
  }
  expect(limits.take('guess', '192.0.2.1')).toBe(4);
});

test('each request is added to the store once, from half of the limit on, and the counts of other processes are included', async () => {
  takeMany(4, 'address', 'a');
  await limits.flush();
  expect(stored.size).toBe(0);

  takeMany(1, 'address', 'a');
  await limits.flush();
  await limits.flush();
  expect([...stored.values()]).toEqual([5]);

  const [key = ''] = stored.keys();
  stored.set(key, 8);
  expect(takeMany(1, 'address', 'a')).toMatchObject({ RateLimit: expect.stringContaining('r=4;') });

  await limits.flush();
  expect(stored.get(key)).toBe(9);
  expect(takeMany(1, 'address', 'a')).toMatchObject({ RateLimit: expect.stringContaining('r=0;') });
  expect(() => limits.take('address', 'a')).toThrow(REFUSED);
});

test('a flush costs little for callers far below their limit', async () => {
  const cpuTime = () => process.threadCpuUsage().user;
  const beforeRequests = cpuTime();
  for (let n = 0; n < 50_000; n += 1) limits.take('guess', addressOf(n));
  const beforeFlushes = cpuTime();
  for (let n = 0; n < 20; n += 1) await limits.flush();
  expect(cpuTime() - beforeFlushes).toBeLessThan((beforeFlushes - beforeRequests) / 4);
});

test('a session is written to the store much earlier', async () => {
  takeMany(1, 'session', 'a');
  await limits.flush();
  expect([...stored]).toEqual([[keys.limit('session', 'a', 30), 1]]);
  // Until after the end of the minute.
  expect([...lifetimes]).toEqual([120]);
});

test('the counts of other processes are kept after the store was emptied', async () => {
  takeMany(5, 'guess', 'a');
  await limits.flush();
  const key = keys.limit('guess', 'a', 30);
  stored.set(key, 7);
  takeMany(1, 'guess', 'a');
  await limits.flush();
  stored.clear();
  takeMany(1, 'guess', 'a');
  await limits.flush();
  expect(takeMany(1, 'guess', 'a')).toMatchObject({ RateLimit: expect.stringContaining('r=1;') });
});

test('an unavailable store neither refuses callers below their limit nor lifts a limit', async () => {
  storeFails = true;
  takeMany(6, 'address', 'a');
  await limits.flush();
  expect(takeMany(4, 'address', 'a')).toMatchObject({ RateLimit: expect.stringContaining('r=0;') });
  expect(() => limits.take('address', 'a')).toThrow(REFUSED);
});

test('counts of an earlier minute are not written', async () => {
  takeMany(9, 'address', 'a');
  now += MINUTE;
  await limits.flush();
  expect(stored.size).toBe(0);
});

test('counts are flushed at intervals until the limits are closed', async () => {
  takeMany(9, 'address', 'a');
  await expect.poll(() => [...stored.values()]).toEqual([9]);

  limits.close();
  takeMany(1, 'address', 'a');
  await setTimeout(500);
  expect([...stored.values()]).toEqual([9]);
});
