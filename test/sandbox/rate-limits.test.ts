/** The platform's limits: told in headers, and refused in either of the two ways of such platforms. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRateLimits, type RateLimits, USUAL_LIMITS } from '../../src/sandbox/rate-limits.ts';
import { createBrowser, type ForeignClient, startForeignClient } from './foreign-client.ts';

const START_MS = 1_800_000_000_000;

function limitsAt(limits: Partial<RateLimits>) {
  const clock = { ms: START_MS };
  const count = createRateLimits({ now: () => clock.ms, limits: { ...USUAL_LIMITS, ...limits } });
  return { clock, count };
}

describe('counting', () => {
  it('is 50 a minute and 750 an hour for each user, and 600 a minute for all, unless set', () => {
    const { headers } = limitsAt({}).count('u');
    expect(headers).toMatchObject({
      'X-Ratelimit-Limit': '50',
      'X-Ratelimit-Remaining': '49',
      'X-Ratelimit-Reset': String(START_MS / 1000 + 60),
      'X-Company-RateLimit-Limit': '600',
      'X-Company-RateLimit-Remaining': '599',
    });
    const { clock, count } = limitsAt({ answer: '503' });
    const statuses = () => Array.from({ length: 51 }, () => count('u').refusedWith);
    for (let minute = 0; minute < 15; minute += 1) {
      expect(statuses().lastIndexOf(undefined)).toBe(49);
      clock.ms += 60_000;
    }
    const spent = count('u');
    expect([spent.refusedWith, spent.headers['X-Ratelimit-Limit']]).toEqual([503, '750']);
    clock.ms = START_MS + 3_600_000;
    expect(count('u').refusedWith).toBeUndefined();
  });

  it('refuses one user without the others, and all when the company is spent', () => {
    const { clock, count } = limitsAt({ answer: '503', perUserPerMinute: 2, perCompanyPerMinute: 3 });
    expect([count('a'), count('a'), count('a')].map((one) => one.refusedWith)).toEqual([undefined, undefined, 503]);
    expect(count('b').refusedWith).toBeUndefined();
    clock.ms += 20_000;
    const refused = count('b');
    expect([refused.refusedWith, refused.headers['X-Company-Retry-After']]).toEqual([503, '40']);
    clock.ms += 40_000;
    expect(count('b').refusedWith).toBeUndefined();
  });

  it('answered with 429 tells no time of reset; answered with none it refuses nothing', () => {
    const { count } = limitsAt({ answer: '429', perUserPerMinute: 1 });
    count('a');
    const { refusedWith, headers } = count('a');
    expect([refusedWith, headers['X-Ratelimit-Reset']]).toEqual([429, '0']);
    const free = limitsAt({ perUserPerMinute: 1 });
    free.count('a');
    const over = free.count('a');
    expect([over.refusedWith, over.headers['X-Ratelimit-Remaining']]).toEqual([undefined, '0']);
  });
});

describe('at the platform', () => {
  let client: ForeignClient;
  beforeAll(async () => {
    client = await startForeignClient({ rateLimits: { perUserPerMinute: 1, answer: '503' } });
  });
  afterAll(() => client.sandbox.close());

  it('a call over the limit is 503 "Over Rate Limit", or 429', async () => {
    const { access_token } = await client.signIn({ browser: createBrowser() });
    const first = await client.thread(access_token);
    expect([first.status, first.headers.get('x-ratelimit-remaining')]).toEqual([200, '0']);
    const over = await client.thread(access_token);
    expect([over.status, over.statusText, over.headers.get('x-ratelimit-remaining')]).toEqual([
      503,
      'Over Rate Limit',
      '0',
    ]);
    expect(await over.json()).toEqual({
      error: 'over_rate_limit',
      error_code: 503,
      error_description: 'Over Rate Limit',
    });
    client.sandbox.rateLimits.answer = '429';
    const asked = await client.thread(access_token);
    expect([asked.status, asked.headers.get('x-ratelimit-reset')]).toEqual([429, '0']);
  });
});
