/** The rules of a grant: when a refresh is due, its health, and how a response or a failure changes it. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import {
  FAILURE_WORDS,
  failureText,
  type Grant,
  hasUsableToken,
  healthOf,
  isBackingOff,
  isRefreshDue,
  isSpentByUse,
  isUnchecked,
  mayNeedReconnect,
  type RefreshFailure,
  revocationToken,
  spreadOf,
  withFailure,
  withTokens,
} from '../../../src/gatehouse/grants/grant.ts';
import type { TokenResponse } from '../../../src/shared/provider/token-response.ts';
import { PLATFORM } from '../../support/apps.ts';

const NOW = 1_800_000_000_000;
const HOUR = 3_600_000;

function grantOf(changes: Partial<Grant> = {}): Grant {
  return {
    id: 'c1',
    userId: 'u1',
    appId: PLATFORM.id,
    registration: registrationOf(PLATFORM),
    accessToken: 'at1',
    refreshToken: 'rt1',
    scopes: ['openid', 'offline_access'],
    account: { subject: 's1' },
    obtainedAt: NOW,
    expiresAt: NOW + HOUR,
    connectedAt: NOW - HOUR,
    consentedAt: NOW - HOUR,
    failure: undefined,
    refresh: undefined,
    ...changes,
  };
}

const ANSWER: TokenResponse = {
  accessToken: 'at2',
  refreshToken: undefined,
  idToken: undefined,
  scopes: undefined,
  expiresInSeconds: undefined,
  claims: undefined,
};

const spread = fc.double({ min: 0, max: 1, noNaN: true });
const lifetime = fc.integer({ min: 1_000, max: 400 * 24 * HOUR });
const kind = fc.constantFrom<RefreshFailure['kind']>('passing', 'unverified');

describe('isRefreshDue', () => {
  test.each([
    ['an hour: 60 s before its end', HOUR, HOUR - 60_000],
    ['a minute: 6 s before its end', 60_000, 54_000],
    ['30 days: 60 s before its end', 720 * HOUR, 720 * HOUR - 60_000],
  ])('with a lifetime of %s', (_name, milliseconds, dueAfter) => {
    const grant = grantOf({ expiresAt: NOW + milliseconds });
    expect(isRefreshDue(grant, NOW + dueAfter - 1, 0)).toBe(false);
    expect(isRefreshDue(grant, NOW + dueAfter, 0)).toBe(true);
  });

  test('is true earlier with a spread, by at most a quarter of the margin', () => {
    expect(isRefreshDue(grantOf(), NOW + HOUR - 75_000, 1)).toBe(true);
    expect(isRefreshDue(grantOf(), NOW + HOUR - 75_001, 1)).toBe(false);
  });

  test('is never true if the lifetime is unknown', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10 * NOW }), spread, (now, s) => {
        expect(isRefreshDue(grantOf({ expiresAt: undefined }), now, s)).toBe(false);
        expect(hasUsableToken(grantOf({ expiresAt: undefined }), now)).toBe(true);
      }),
    );
  });

  test('is false at the beginning, becomes true before the end, and stays true', () => {
    fc.assert(
      fc.property(lifetime, spread, fc.nat(), (milliseconds, s, later) => {
        const grant = grantOf({ expiresAt: NOW + milliseconds });
        expect(isRefreshDue(grant, NOW, s)).toBe(false);
        expect(isRefreshDue(grant, NOW + milliseconds - 1, s)).toBe(true);
        expect(isRefreshDue(grant, NOW + milliseconds + later, s)).toBe(true);
        expect(hasUsableToken(grant, NOW + milliseconds - 1)).toBe(true);
        expect(hasUsableToken(grant, NOW + milliseconds + later)).toBe(false);
      }),
    );
  });
});

describe('withTokens', () => {
  test('R30: keeps what the response leaves out, and drops the failure', () => {
    const failed = withFailure(grantOf(), 'unverified', 'unclear_refusal', { now: NOW, random: 0 });
    const { accessToken, refreshToken, scopes, failure } = withTokens(failed, ANSWER, NOW + 5, undefined);
    expect({ accessToken, refreshToken, scopes, failure }).toEqual({
      accessToken: 'at2',
      refreshToken: 'rt1',
      scopes: ['openid', 'offline_access'],
      failure: undefined,
    });
  });

  test('stores what the response has', () => {
    const response = { ...ANSWER, refreshToken: 'rt2', scopes: ['a'], expiresInSeconds: 10 };
    expect(withTokens(grantOf(), response, NOW, 99)).toEqual({
      ...grantOf(),
      accessToken: 'at2',
      refreshToken: 'rt2',
      scopes: ['a'],
      obtainedAt: NOW,
      expiresAt: NOW + 10_000,
    });
  });

  test('stores the key that the new access token is bound to, and the API base URL only if the response names one', () => {
    const before = grantOf({ dpopKey: { kty: 'EC', x: '1' }, apiBaseUrl: 'https://a.api.test' });
    expect(withTokens(before, ANSWER, NOW, undefined)).toMatchObject({ apiBaseUrl: 'https://a.api.test' });
    expect(withTokens(before, ANSWER, NOW, undefined).dpopKey).toBeUndefined();
    const dpopKey = { kty: 'EC', x: '2' };
    const response = { ...ANSWER, dpopKey, apiBaseUrl: 'https://b.api.test' };
    expect(withTokens(before, response, NOW, undefined)).toMatchObject({ dpopKey, apiBaseUrl: 'https://b.api.test' });
  });

  test('without expires_in, uses the lifetime that the app sets, or else none', () => {
    expect(withTokens(grantOf(), ANSWER, NOW, 30).expiresAt).toBe(NOW + 30_000);
    expect(withTokens(grantOf(), ANSWER, NOW, undefined).expiresAt).toBeUndefined();
  });

  test('stores the expiry of a new refresh token, and keeps that of a retained one', () => {
    const ending = grantOf({ refreshExpiresAt: NOW + 7_000 });
    const endOf = (changes: Partial<TokenResponse>) =>
      withTokens(ending, { ...ANSWER, ...changes }, NOW, undefined).refreshExpiresAt;
    expect(endOf({ refreshToken: 'rt2', refreshExpiresInSeconds: 30 })).toBe(NOW + 30_000);
    expect(endOf({ refreshExpiresInSeconds: 40 })).toBe(NOW + 40_000);
    expect(endOf({ refreshToken: 'rt2' })).toBeUndefined();
    expect(endOf({})).toBe(NOW + 7_000);
  });
});

describe('R41: withFailure', () => {
  const waits = (of: RefreshFailure['kind'], random: number, count: number) => {
    let grant = grantOf();
    return Array.from({ length: count }, () => {
      grant = withFailure(grant, of, 'provider_unavailable', { now: NOW, random });
      return ((grant.failure?.retryAt ?? 0) - NOW) / 1000;
    });
  };

  test('waits about 30 s, then longer, up to a cap', () => {
    expect(waits('passing', 0.5, 4)).toEqual([30, 60, 60, 60]);
    expect(waits('unverified', 0.5, 7)).toEqual([30, 60, 120, 240, 480, 600, 600]);
    expect(waits('passing', 0, 1)).toEqual([22.5]);
    expect(waits('passing', 1, 1)).toEqual([37.5]);
  });

  test('waits at least as long as the provider requests, up to a cap', () => {
    const wait = (retryAfterSeconds: number) =>
      withFailure(grantOf(), 'passing', 'provider_unavailable', { now: NOW, random: 0.5, retryAfterSeconds }).failure;
    expect(wait(90)?.retryAt).toBe(NOW + 90_000);
    expect(wait(5)?.retryAt).toBe(NOW + 30_000);
    expect(wait(1e9)?.retryAt).toBe(NOW + 600_000);
  });

  test('keeps the tokens, counts the failures, and always waits between 22 s and 12.5 minutes', () => {
    fc.assert(
      fc.property(
        kind,
        spread,
        fc.integer({ min: 1, max: 2000 }),
        fc.option(fc.nat()),
        (k, random, failures, retryAfter) => {
          const before = grantOf({ failure: { kind: k, cause: 'app_refused', since: 7, failures, retryAt: 0 } });
          const moment = { now: NOW, random, retryAfterSeconds: retryAfter ?? undefined };
          const { failure, ...rest } = withFailure(before, k, 'app_refused', moment);
          expect({ ...rest, failure: undefined }).toEqual({ ...before, failure: undefined });
          expect(failure).toMatchObject({ since: 7, failures: failures + 1 });
          expect(failure?.retryAt).toBeGreaterThanOrEqual(NOW + 22_500);
          expect(failure?.retryAt).toBeLessThanOrEqual(NOW + 750_000);
        },
      ),
    );
  });

  test('has the reason, and that the platform refused the access token, as long as the refresh fails', () => {
    const moment = { now: NOW, random: 0.5 };
    const plain = withFailure(grantOf(), 'passing', 'provider_unavailable', moment);
    expect(plain.failure).toEqual({
      ...{ kind: 'passing', cause: 'provider_unavailable', since: NOW, failures: 1, retryAt: NOW + 30_000 },
    });
    const at = { ...moment, tokenRefused: true, reason: 'status_503' };
    const refused = withFailure(plain, 'passing', 'provider_unavailable', at);
    expect(refused.failure).toMatchObject({ failures: 2, tokenRefused: true, reason: 'status_503' });
    const { tokenRefused, reason } = withFailure(refused, 'unverified', 'unclear_refusal', moment).failure ?? {};
    expect([tokenRefused, reason]).toEqual([true, undefined]);
  });

  test('`since` changes with the kind of failure', () => {
    const first = withFailure(grantOf(), 'passing', 'provider_unavailable', { now: NOW, random: 0 });
    const same = withFailure(first, 'passing', 'app_refused', { now: NOW + 5, random: 0 });
    const other = withFailure(same, 'unverified', 'unclear_refusal', { now: NOW + 9, random: 0 });
    expect([same.failure?.since, other.failure?.since]).toEqual([NOW, NOW + 9]);
  });
});

describe('isBackingOff', () => {
  test('is true until retryAt', () => {
    const grant = withFailure(grantOf(), 'passing', 'provider_unavailable', { now: NOW, random: 0.5 });
    expect(isBackingOff(grant, NOW)).toBe(true);
    expect(isBackingOff(grant, NOW + 29_999)).toBe(true);
    expect(isBackingOff(grant, NOW + 30_000)).toBe(false);
    expect(isBackingOff(grantOf(), NOW)).toBe(false);
  });

  test('F12: lasts no longer than the longest back-off, even if the clock is changed', () => {
    fc.assert(
      fc.property(kind, spread, fc.integer({ min: -400 * 24 * HOUR, max: 400 * 24 * HOUR }), (k, random, jump) => {
        const grant = withFailure(grantOf(), k, 'provider_unavailable', { now: NOW, random });
        const now = NOW + jump;
        if (isBackingOff(grant, now)) expect((grant.failure?.retryAt ?? 0) - now).toBeLessThanOrEqual(750_000);
        expect(isBackingOff(grant, now) && isBackingOff(grant, now + 750_000)).toBe(false);
      }),
    );
  });
});

describe('healthOf', () => {
  const failure = (of: RefreshFailure['kind']): RefreshFailure => ({
    kind: of,
    cause: 'provider_unavailable',
    since: NOW,
    failures: 1,
    retryAt: NOW,
  });
  const cases: [string, Partial<Grant>, string][] = [
    ['a refresh token', {}, 'active'],
    ['a refresh token and a spent access token', { expiresAt: NOW - 1 }, 'active'],
    ['a refresh token that lasts for 3 days', { refreshExpiresAt: NOW + 259_200_000 }, 'active'],
    ['a refresh token that ends before that', { refreshExpiresAt: NOW + 259_199_999 }, 'expiring'],
    ['a passing failure while the access token works', { failure: failure('passing') }, 'active'],
    ['a passing failure without a known end', { expiresAt: undefined, failure: failure('passing') }, 'active'],
    ['a passing failure and a spent access token', { expiresAt: NOW, failure: failure('passing') }, 'unverified'],
    [
      'a passing failure and an access token that the platform refused',
      { failure: { ...failure('passing'), tokenRefused: true } },
      'unverified',
    ],
    ['an unclear refusal', { failure: failure('unverified') }, 'unverified'],
    ['a refusal', { failure: failure('reconnect_needed') }, 'reconnect_needed'],
    ['no refresh token and 10 minutes left', { refreshToken: undefined, expiresAt: NOW + 600_000 }, 'active'],
    ['no refresh token and less left', { refreshToken: undefined, expiresAt: NOW + 599_999 }, 'expiring'],
    ['no refresh token and nothing left', { refreshToken: undefined, expiresAt: NOW }, 'reconnect_needed'],
    ['no refresh token and no known end', { refreshToken: undefined, expiresAt: undefined }, 'active'],
  ];
  test.each(cases)('with %s', (_name, changes, health) => {
    expect(healthOf(grantOf(changes), NOW)).toBe(health);
  });
});

test('every failure has a sentence of its own for the user', () => {
  const words = Object.values(FAILURE_WORDS);
  for (const one of words) expect(one).toMatch(/^\p{Lu}.{20,}\.$/u);
  expect(new Set(words).size).toBe(words.length);
});

test('every failure text says what the user can do', () => {
  const advice = (cause: keyof typeof FAILURE_WORDS) => failureText(cause).replace(`${FAILURE_WORDS[cause]} `, '');
  for (const cause of ['grant_refused', 'response_lost', 'access_ended', 'unreadable'] as const)
    expect(advice(cause)).toBe('Reconnect to use it again.');
  for (const cause of ['access_token_refused', 'unclear_refusal', 'unusable_response', 'not_checked'] as const)
    expect(advice(cause)).toBe('Try again shortly, or reconnect.');
  expect(advice('provider_unavailable')).toBe('Try again shortly. If it lasts, reconnect.');
  expect(advice('app_refused')).toBe('Try again later. An administrator must correct this first.');
});

test.each([
  ['the refresh token', {}, { token: 'rt1', hint: 'refresh_token' }],
  [
    'that of an interrupted refresh, which is newer',
    { refresh: { startedAt: NOW, received: 'rt2' } },
    { token: 'rt2', hint: 'refresh_token' },
  ],
  [
    'the same where that one got none',
    { refresh: { startedAt: NOW, received: undefined } },
    { token: 'rt1', hint: 'refresh_token' },
  ],
  ['the access token where there is no other', { refreshToken: undefined }, { token: 'at1', hint: 'access_token' }],
])('R43: a grant is revoked by %s', (_words, changes, expected) => {
  expect(revocationToken(grantOf(changes))).toEqual(expected);
});

test.each([
  [undefined, undefined, true],
  [undefined, true, true],
  [undefined, false, false],
  ['rotating', false, true],
  ['reusable', true, false],
] as const)('set to %s, rotation seen: %s: a refresh token may work only once: %s', (setting, rotates, isSpent) => {
  expect(isSpentByUse(grantOf({ rotates }), setting)).toBe(isSpent);
});

test('mayNeedReconnect is true after a refusal, and false after an outage', () => {
  const broken = (kind?: RefreshFailure['kind']) =>
    mayNeedReconnect(kind ? withFailure(grantOf(), kind, 'app_refused', { now: NOW, random: 0 }) : grantOf());
  expect([broken(), broken('passing'), broken('unverified'), broken('reconnect_needed')]).toEqual([
    false,
    false,
    true,
    true,
  ]);
  expect([isUnchecked(grantOf()), isUnchecked(grantOf({ accessToken: '' }))]).toEqual([false, true]);
});

test('spreads the refreshes of many users over the whole margin, always in the same way', () => {
  const spreads = Array.from({ length: 1_000 }, (_, at) => spreadOf(`u${(at * 7_919).toString(36)}x`));
  for (const one of spreads) expect(one >= 0 && one < 1).toBe(true);
  const tenths = Array.from({ length: 10 }, (_, at) => spreads.filter((one) => Math.floor(one * 10) === at).length);
  expect(Math.min(...tenths)).toBeGreaterThan(20);
  expect(spreadOf('u1')).toBe(spreadOf('u1'));
  expect(new Set(spreads).size).toBeGreaterThan(900);
});
