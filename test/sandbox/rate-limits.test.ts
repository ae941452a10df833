/** The platform's rate limits, in headers and as refusals with 503 or 429. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRateLimits, type RateLimits, USUAL_LIMITS } from '../../src/sandbox/rate-limits.ts';
import { createBrowser, type ForeignClient, startForeignClient } from './foreign-client.ts';

const START_MS = 1_800_000_000_000;

function limitsAt(limits: Partial<RateLimits>) {
  const clock = { ms: START_MS };
  const count = createRateLimits({ now: () => clock.ms, limits: { ...USUAL_LIMITS, ...limits } });
  return { clock, count };
}

describe('the count of calls', () => {
  it('by default limits each user to 50 a minute and 750 an hour, and all users to 600 a minute', () => {
    const { headers } = limitsAt({}).count('u');
    expect(headers).toMatchObject({
      'X-Ratelimit-Limit': '50',
      'X-Ratelimit-Remaining': '49',
      'X-Ratelimit-Reset': String(START_MS / 1000 + 60),
      'X-Company-RateLimit-Limit': '600',
      'X-Company-RateLimit-Remaining': '599',
    });

    const { clock, count } = limitsAt({ response: '503' });
    const statuses = () => Array.from({ length: 51 }, () => count('u').refusedWith);
    for (let minute = 0; minute < 15; minute += 1) {
      expect(statuses().lastIndexOf(undefined)).toBe(49);
      clock.ms += 60_000;
    }
    const callOverHourlyLimit = count('u');
    expect([callOverHourlyLimit.refusedWith, callOverHourlyLimit.headers['X-Ratelimit-Limit']]).toEqual([503, '750']);

    clock.ms = START_MS + 3_600_000;
    expect(count('u').refusedWith).toBeUndefined();
  });

  it('refuses only the user over the limit, and all users over the company limit', () => {
    const { clock, count } = limitsAt({ response: '503', perUserPerMinute: 2, perCompanyPerMinute: 3 });
    expect([count('a'), count('a'), count('a')].map(({ refusedWith }) => refusedWith)).toEqual([
      undefined,
      undefined,
      503,
    ]);
    expect(count('b').refusedWith).toBeUndefined();

    clock.ms += 20_000;
    const refused = count('b');
    expect([refused.refusedWith, refused.headers['X-Company-Retry-After']]).toEqual([503, '40']);

    clock.ms += 40_000;
    expect(count('b').refusedWith).toBeUndefined();
  });

  it('with the response 429 has no reset time, and with none refuses no call', () => {
    const { count } = limitsAt({ response: '429', perUserPerMinute: 1 });
    count('a');
    const { refusedWith, headers } = count('a');
    expect([refusedWith, headers['X-Ratelimit-Reset']]).toEqual([429, '0']);

    const unenforcedLimits = limitsAt({ perUserPerMinute: 1 });
    unenforcedLimits.count('a');
    const over = unenforcedLimits.count('a');
    expect([over.refusedWith, over.headers['X-Ratelimit-Remaining']]).toEqual([undefined, '0']);
  });
});

describe('at the platform', () => {
  let client: ForeignClient;
  beforeAll(async () => {
    client = await startForeignClient({ rateLimits: { perUserPerMinute: 1, response: '503' } });
  });
  afterAll(() => client.sandbox.close());

  it('a call over the limit gets 503 "Over Rate Limit", or 429', async () => {
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

    client.sandbox.rateLimits.response = '429';
    const refused = await client.thread(access_token);
    expect([refused.status, refused.headers.get('x-ratelimit-reset')]).toEqual([429, '0']);
  });
});
