/** The rules of the BIN lookup service that need no storage: months, plans, refusals and keys. */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { rateLimit, rateLimitPolicy } from '../../src/bin-lookup-service/admission.ts';
import { createApiKey, isApiKey, keyHint } from '../../src/bin-lookup-service/api-key.ts';
import { readCredentials } from '../../src/bin-lookup-service/credentials.ts';
import { monthAt, monthOf, secondsLeft } from '../../src/bin-lookup-service/month.ts';
import { parsePlans } from '../../src/bin-lookup-service/plans.ts';
import { PROBLEM_CODES, problemDocument, type Refusal } from '../../src/bin-lookup-service/problems.ts';

describe('months', () => {
  test('R87 begin and end in UTC', () => {
    fc.assert(
      fc.property(
        fc.date({ min: new Date('2000-01-01'), max: new Date('2100-01-01'), noInvalidDate: true }),
        (date) => {
          const now = date.getTime();
          const month = monthOf(now);
          expect(month.start <= now && now < month.end).toBe(true);
          expect(month.id).toBe(date.toISOString().slice(0, 7));
          expect(new Date(month.end).toISOString()).toMatch(/-01T00:00:00\.000Z$/);
          expect(monthOf(month.end).start).toBe(month.end);
        },
      ),
    );
  });

  test('monthAt reuses the last month until the clock leaves it, forwards or back', () => {
    const november = monthOf(Date.UTC(2026, 10, 21));
    expect(monthAt(Date.UTC(2026, 10, 30, 23, 59, 59, 999), november)).toBe(november);
    expect(monthAt(Date.UTC(2026, 11, 1), november).id).toBe('2026-12');
    expect(monthAt(Date.UTC(2026, 9, 31), november).id).toBe('2026-10');
    expect(secondsLeft(november, november.end)).toBe(1);
  });

  test('R89 the headers follow the RateLimit draft', () => {
    const november = monthOf(Date.UTC(2026, 10, 21));
    const free = { name: 'free', monthlyRequests: 10_000 };
    expect(rateLimitPolicy(free, november)).toBe('"free";q=10000;w=2592000');
    const withMinuteLimit = rateLimitPolicy({ ...free, requestsPerMinute: 60 }, november);
    expect(withMinuteLimit).toBe('"free";q=10000;w=2592000, "minute";q=60;w=60');
    expect(rateLimit('free', 9_999, 60)).toBe('"free";r=9999;t=60');
  });
});

describe('refusals', () => {
  const detailOf = (refusal: Refusal, accountUrl?: string) =>
    (JSON.parse(problemDocument(refusal, 'id', accountUrl).body) as { detail: string }).detail;
  const rules = [
    'address_not_listed',
    'no_plan',
    'free_used_up',
    'plan_used_up',
    'free_too_fast',
    'plan_too_fast',
  ] as const;

  test.each([...rules.map((rule): Refusal => ({ code: 'not_allowed', rule })), { code: 'api_key_invalid' } as const])(
    'name the account page only if there is one: %o',
    (refusal) => {
      expect(detailOf(refusal, 'https://bins.test/account')).toMatch(
        /^[^{}]+ the account page \(https:\/\/bins\.test\/account\)[^{}]*\.$/,
      );
      expect(detailOf(refusal)).toMatch(/^[^{}]+\.$/);
      expect(detailOf(refusal)).not.toContain('account page');
    },
  );

  test('of a path that is not a BIN name the path to use', () => {
    expect(detailOf({ code: 'not_found' })).toBe(
      'Use GET /BIN, where BIN is the first 6 to 8 digits of a card number.',
    );
  });

  test.each(PROBLEM_CODES)('%s leaves no template braces in its text', (code) => {
    for (const accountUrl of [undefined, 'https://bins.test/account'])
      expect(problemDocument({ code } as Refusal, 'id', accountUrl).body.slice(1, -1)).not.toMatch(/[{}]/);
  });
});

describe('plans', () => {
  test('are parsed in the order of PLANS', () => {
    const support = 'https://help.example.com:8443/x';
    expect(parsePlans(['starter:100000', 'business:1000000:600:a@b.example', `large:5:6:${support}`])).toEqual({
      plans: [
        { name: 'starter', monthlyRequests: 100_000 },
        { name: 'business', monthlyRequests: 1_000_000, requestsPerMinute: 600, support: 'a@b.example' },
        { name: 'large', monthlyRequests: 5, requestsPerMinute: 6, support },
      ],
      faults: [],
    });
  });

  test.each([
    'starter',
    'Starter:1',
    'starter:0',
    'starter:1e3',
    ':1',
    'free:20000',
    'minute:1',
    'a:1:0',
    'a:1:x y',
    'a:1:2:here',
  ])('refuse %s', (entry) => {
    expect(parsePlans([entry]).faults).toHaveLength(1);
  });

  test('refuse a duplicate name', () => {
    expect(parsePlans(['a:1', 'a:2']).faults).toHaveLength(1);
  });
});

describe('keys', () => {
  test('R80 begin with a prefix and end with a checksum', () => {
    const key = createApiKey(randomBytes(32));
    expect(key).toMatch(/^gthb_[A-Za-z0-9_-]{43}[0-9a-z]{7}$/);
    expect(isApiKey(key)).toBe(true);
    expect(key).toContain(keyHint(key).slice(0, 9));
    expect(keyHint(key).length).toBeLessThan(16);
  });

  test('are invalid after any one character changes', () => {
    const key = createApiKey(randomBytes(32));
    fc.assert(
      fc.property(fc.nat(key.length - 1), fc.constantFrom(...'abcXYZ019_-'), (position, character) => {
        const changedKey = key.slice(0, position) + character + key.slice(position + 1);
        expect(isApiKey(changedKey)).toBe(changedKey === key);
      }),
    );
    expect(isApiKey('')).toBe(false);
  });
});

function requestWith(headers: Record<string, string | string[]>, peer = '192.0.2.1'): IncomingMessage {
  const entries = Object.entries(headers);
  return {
    headers: Object.fromEntries(entries.map(([name, value]) => [name, Array.isArray(value) ? value[0] : value])),
    headersDistinct: Object.fromEntries(entries.map(([name, value]) => [name, [value].flat()])),
    socket: { remoteAddress: peer },
  } as unknown as IncomingMessage;
}

describe('credentials', () => {
  const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;
  test.each([
    [{}, '', { kind: 'none' }],
    [{}, 'other=1', { kind: 'none' }],
    [{ authorization: 'Bearer abc' }, '', { kind: 'key', key: 'abc' }],
    [{ authorization: 'bearer  abc ' }, '', { kind: 'key', key: 'abc' }],
    [{ authorization: basic('abc:') }, '', { kind: 'key', key: 'abc' }],
    [{ authorization: basic('abc:ignored:too') }, '', { kind: 'key', key: 'abc' }],
    [{ authorization: basic('abc') }, '', { kind: 'key', key: 'abc' }],
    [{}, 'apiKey=abc', { kind: 'key', key: 'abc' }],
    [{}, 'apiKey=', { kind: 'unreadable' }],
    [{ authorization: '' }, '', { kind: 'unreadable' }],
    [{ authorization: 'Bearer' }, '', { kind: 'unreadable' }],
    [{ authorization: 'Digest abc' }, '', { kind: 'unreadable' }],
    [{ authorization: basic(':password') }, '', { kind: 'unreadable' }],
    [{ authorization: 'Bearer %E0%A4' }, '', { kind: 'unreadable' }],
    [{ authorization: `Bearer ${'x'.repeat(9_000)}` }, '', { kind: 'unreadable' }],
    [{ authorization: 'Bearer abc' }, 'apiKey=abc', { kind: 'several' }],
    [{ authorization: ['Bearer abc', 'Bearer abc'] }, '', { kind: 'several' }],
    [{}, 'apiKey=a&apiKey=b', { kind: 'several' }],
  ])('R83 %o %s', (headers, query, expected) => {
    expect(readCredentials(requestWith(headers as Record<string, string>), query)).toEqual(expected);
  });
});
