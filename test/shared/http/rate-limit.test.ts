/** R89: the counting of our own limits, in one process and with what the others tell. */
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createRateLimits, type LimitKind, type RateLimits } from '../../../src/shared/http/rate-limit.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import type { Store } from '../../../src/shared/storage/store.ts';

const MINUTE = 60_000;
const PER_MINUTE = { address: 10, session: 10, 'relay-token': 0, plan: 0, 'sign-in': 10, guess: 10 };
const REFUSED = expect.objectContaining({ code: 'rate_limited' });

let now: number;
/** What the store knows, by key. */
let told: Map<string, number>;
/** How long the store keeps it. */
let keptSeconds: Set<number | undefined>;
let storeFails: boolean;
let limits: RateLimits;
beforeEach(() => {
  [now, told, keptSeconds, storeFails] = [30 * MINUTE, new Map(), new Set(), false];
  const increment: Store['increment'] = async (key, by = 1, options) => {
    keptSeconds.add(options?.lifetimeSeconds);
    if (storeFails) throw new Error('away');
    const all = (told.get(key) ?? 0) + by;
    told.set(key, all);
    return all;
  };
  limits = createRateLimits({ store: { increment }, clock: () => now, perMinute: PER_MINUTE });
});
afterEach(() => limits.close());

const take = (count: number, kind: LimitKind, whom: string) => {
  let taken = 0;
  for (let n = 0; n < count; n += 1) taken = limits.take(kind, whom);
  return limits.headers(kind, taken);
};

test('as many as the limit says, each told how many are left; the next one is refused until the minute is over', () => {
  now += 12_400;
  expect(take(1, 'address', 'a')).toEqual({
    'RateLimit-Policy': '"address";q=10;w=60',
    RateLimit: '"address";r=9;t=48',
  });
  expect(take(9, 'address', 'a')).toMatchObject({ RateLimit: '"address";r=0;t=48' });
  const refused = { code: 'rate_limited', retryAfterSeconds: 48, headers: { RateLimit: '"address";r=0;t=48' } };
  expect(() => limits.take('address', 'a')).toThrow(expect.objectContaining({ code: refused.code }));
  try {
    limits.take('address', 'a');
  } catch (error) {
    expect(error).toMatchObject(refused);
  }
  expect(take(1, 'address', 'b')).toMatchObject({ RateLimit: '"address";r=9;t=48' });
  expect(take(1, 'session', 'a')).toMatchObject({ RateLimit: '"session";r=9;t=48' });
  now = 31 * MINUTE - 1;
  expect(() => limits.take('address', 'a')).toThrow(expect.objectContaining({ retryAfterSeconds: 1 }));
  now += 1;
  expect(take(1, 'address', 'a')).toMatchObject({ RateLimit: '"address";r=9;t=60' });
});

test('looking counts nothing, and refuses where the limit is reached', () => {
  for (let n = 0; n < 30; n += 1) limits.check('guess', 'a');
  take(10, 'guess', 'a');
  expect(() => limits.check('guess', 'a')).toThrow(REFUSED);
  expect(() => limits.check('guess', 'b')).not.toThrow();
});

test('a limit of nought is none', () => {
  expect(take(100, 'relay-token', 'a')).toEqual({});
  expect(() => limits.check('relay-token', 'a')).not.toThrow();
});

test('one IPv6 network is one caller, where addresses are counted and nowhere else', () => {
  take(10, 'guess', '2001:db8:0:1::1');
  expect(() => limits.take('guess', '2001:db8:0:1:ffff:ffff:ffff:ffff')).toThrow(REFUSED);
  expect(() => limits.take('guess', '2001:db8:0:2::1')).not.toThrow();
  take(10, 'address', '2001:db8:0:1::1');
  expect(() => limits.take('address', '2001:db8:0:1::2')).toThrow(REFUSED);
  take(10, 'session', '2001:db8:0:1::1');
  expect(() => limits.take('session', '2001:db8:0:1::2')).not.toThrow();
  // What only looks like one is counted as it is.
  take(10, 'guess', 'not:an:address');
  expect(() => limits.take('guess', 'not:an:address')).toThrow(REFUSED);
  expect(() => limits.take('guess', 'not:an:other')).not.toThrow();
});

const addressOf = (n: number) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;

test('R97 who is at the limit stays there, however many others come within the minute', async () => {
  take(10, 'guess', '192.0.2.1');
  take(9, 'guess', '192.0.2.2');
  for (let n = 0; n < 100_000; n += 1) limits.take('guess', addressOf(n));
  expect(() => limits.take('guess', '192.0.2.1')).toThrow(REFUSED);
  // Forgotten: it was below the limit, and the least recently seen.
  expect(limits.take('guess', '192.0.2.2')).toBe(1);
  now += MINUTE;
  expect(limits.take('guess', '192.0.2.1')).toBe(1);
});

test('R97 who is at the limit only with what other processes counted stays there as well', async () => {
  take(5, 'guess', '192.0.2.1');
  told.set(keys.limit('guess', '192.0.2.1', now / MINUTE), 20);
  await limits.flush();
  for (let n = 0; n < 100_000; n += 1) limits.take('guess', addressOf(n));
  expect(() => limits.take('guess', '192.0.2.1')).toThrow(REFUSED);
});

test('R97 who comes again and again is remembered among many others', () => {
  for (let n = 0; n < 3; n += 1) {
    limits.take('guess', '192.0.2.1');
    for (let other = 0; other < 30_000; other += 1) limits.take('guess', addressOf(n * 30_000 + other));
  }
  expect(limits.take('guess', '192.0.2.1')).toBe(4);
});

test('what is told to the others is told once, from half of the limit on, and what they told counts', async () => {
  take(4, 'address', 'a');
  await limits.flush();
  expect(told.size).toBe(0);
  take(1, 'address', 'a');
  await limits.flush();
  await limits.flush();
  expect([...told.values()]).toEqual([5]);
  const [key = ''] = told.keys();
  told.set(key, 8);
  expect(take(1, 'address', 'a')).toMatchObject({ RateLimit: expect.stringContaining('r=4;') });
  await limits.flush();
  expect(told.get(key)).toBe(9);
  expect(take(1, 'address', 'a')).toMatchObject({ RateLimit: expect.stringContaining('r=0;') });
  expect(() => limits.take('address', 'a')).toThrow(REFUSED);
});

test('a flush costs little for callers that are far from their limit', async () => {
  const worked = () => process.threadCpuUsage().user;
  const beforeRequests = worked();
  for (let n = 0; n < 50_000; n += 1) limits.take('guess', addressOf(n));
  const beforeFlushes = worked();
  for (let n = 0; n < 20; n += 1) await limits.flush();
  expect(worked() - beforeFlushes).toBeLessThan((beforeFlushes - beforeRequests) / 4);
});

test('a session is told of much earlier', async () => {
  take(1, 'session', 'a');
  await limits.flush();
  expect([...told]).toEqual([[keys.limit('session', 'a', 30), 1]]);
  // Long enough for whoever looks at the end of the minute, and no longer.
  expect([...keptSeconds]).toEqual([120]);
});

test('what the others have told is not forgotten where the store was emptied', async () => {
  take(5, 'guess', 'a');
  await limits.flush();
  const key = keys.limit('guess', 'a', 30);
  told.set(key, 7);
  take(1, 'guess', 'a');
  await limits.flush();
  told.clear();
  take(1, 'guess', 'a');
  await limits.flush();
  expect(take(1, 'guess', 'a')).toMatchObject({ RateLimit: expect.stringContaining('r=1;') });
});

test('a store that is away makes nobody limited, and nobody unlimited', async () => {
  storeFails = true;
  take(6, 'address', 'a');
  await limits.flush();
  expect(take(4, 'address', 'a')).toMatchObject({ RateLimit: expect.stringContaining('r=0;') });
  expect(() => limits.take('address', 'a')).toThrow(REFUSED);
});

test('what was counted in an earlier minute is told to nobody', async () => {
  take(9, 'address', 'a');
  now += MINUTE;
  await limits.flush();
  expect(told.size).toBe(0);
});

test('the others hear of it without being asked, until it is closed', async () => {
  take(9, 'address', 'a');
  await expect.poll(() => [...told.values()]).toEqual([9]);
  limits.close();
  take(1, 'address', 'a');
  await setTimeout(500);
  expect([...told.values()]).toEqual([9]);
});
