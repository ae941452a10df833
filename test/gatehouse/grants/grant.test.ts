/** The rules of a grant: when a refresh is due, its health, and how a response or a failure changes it. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import {
  type Grant,
  hasUsableToken,
  healthOf,
  isBackingOff,
  isRefreshDue,
  isSpentByUse,
  isUnchecked,
  mayNeedReconnect,
  revocationToken,
  spreadOf,
  withFailure,
  withTokens,
} from '../../../src/gatehouse/grants/grant.ts';
import { FAILURE_WORDS, failureText, type RefreshFailure } from '../../../src/gatehouse/grants/refresh-failure.ts';
import type { TokenResponse } from '../../../src/shared/provider/token-response.ts';
import { PLATFORM } from '../../support/apps.ts';

const NOW = 1_800_000_000_000;
const HOUR = 3_600_000;
/** The longest back-off is ten minutes, and random waiting adds up to a quarter. */
const MAX_BACK_OFF_MS = 750_000;

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

const RESPONSE: TokenResponse = {
  accessToken: 'at2',
  refreshToken: undefined,
  idToken: undefined,
  scopes: undefined,
  expiresInSeconds: undefined,
  claims: undefined,
};

const anySpread = fc.double({ min: 0, max: 1, noNaN: true });
const anyLifetime = fc.integer({ min: 1_000, max: 400 * 24 * HOUR });
const anyKind = fc.constantFrom<RefreshFailure['kind']>('passing', 'unverified');

describe('isRefreshDue', () => {
  test.each([
    ['60 s before the end of a lifetime of an hour', HOUR, HOUR - 60_000],
    ['6 s before the end of a lifetime of a minute', 60_000, 54_000],
    ['60 s before the end of a lifetime of 30 days', 720 * HOUR, 720 * HOUR - 60_000],
  ])('becomes true %s', (_description, milliseconds, dueAfter) => {
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
      fc.property(fc.integer({ min: 0, max: 10 * NOW }), anySpread, (now, spreadOfUser) => {
        expect(isRefreshDue(grantOf({ expiresAt: undefined }), now, spreadOfUser)).toBe(false);
        expect(hasUsableToken(grantOf({ expiresAt: undefined }), now)).toBe(true);
      }),
    );
  });

  test('is false at the beginning, becomes true before the end, and stays true', () => {
    fc.assert(
      fc.property(anyLifetime, anySpread, fc.nat(), (lifetimeMs, spreadOfUser, msAfterExpiry) => {
        const grant = grantOf({ expiresAt: NOW + lifetimeMs });
        expect(isRefreshDue(grant, NOW, spreadOfUser)).toBe(false);
        expect(isRefreshDue(grant, NOW + lifetimeMs - 1, spreadOfUser)).toBe(true);
        expect(isRefreshDue(grant, NOW + lifetimeMs + msAfterExpiry, spreadOfUser)).toBe(true);
        expect(hasUsableToken(grant, NOW + lifetimeMs - 1)).toBe(true);
        expect(hasUsableToken(grant, NOW + lifetimeMs + msAfterExpiry)).toBe(false);
      }),
    );
  });
});

describe('withTokens', () => {
  test('R30: keeps what the response leaves out, and drops the failure', () => {
    const failed = withFailure(grantOf(), 'unverified', 'unclear_refusal', { now: NOW, random: 0 });
    const { accessToken, refreshToken, scopes, failure } = withTokens(failed, RESPONSE, NOW + 5, undefined);
    expect({ accessToken, refreshToken, scopes, failure }).toEqual({
      accessToken: 'at2',
      refreshToken: 'rt1',
      scopes: ['openid', 'offline_access'],
      failure: undefined,
    });
  });

  test('stores the tokens, scopes and lifetime of the response', () => {
    const response = { ...RESPONSE, refreshToken: 'rt2', scopes: ['a'], expiresInSeconds: 10 };
    expect(withTokens(grantOf(), response, NOW, 99)).toEqual({
      ...grantOf(),
      accessToken: 'at2',
      refreshToken: 'rt2',
      scopes: ['a'],
      obtainedAt: NOW,
      expiresAt: NOW + 10_000,
    });
  });

  test('replaces the key that the access token is bound to, but the API base URL only if the response names one', () => {
    const boundGrant = grantOf({ dpopKey: { kty: 'EC', x: '1' }, apiBaseUrl: 'https://a.api.test' });
    expect(withTokens(boundGrant, RESPONSE, NOW, undefined)).toMatchObject({ apiBaseUrl: 'https://a.api.test' });
    expect(withTokens(boundGrant, RESPONSE, NOW, undefined).dpopKey).toBeUndefined();

    const dpopKey = { kty: 'EC', x: '2' };
    const response = { ...RESPONSE, dpopKey, apiBaseUrl: 'https://b.api.test' };
    expect(withTokens(boundGrant, response, NOW, undefined)).toMatchObject({
      dpopKey,
      apiBaseUrl: 'https://b.api.test',
    });
  });

  test('without expires_in, uses the lifetime that the app sets, or else none', () => {
    expect(withTokens(grantOf(), RESPONSE, NOW, 30).expiresAt).toBe(NOW + 30_000);
    expect(withTokens(grantOf(), RESPONSE, NOW, undefined).expiresAt).toBeUndefined();
  });

  test('stores the expiry of a new refresh token, and keeps or extends that of a retained one', () => {
    const grantWithExpiry = grantOf({ refreshExpiresAt: NOW + 7_000 });
    const refreshExpiryAfter = (changes: Partial<TokenResponse>) =>
      withTokens(grantWithExpiry, { ...RESPONSE, ...changes }, NOW, undefined).refreshExpiresAt;
    expect(refreshExpiryAfter({ refreshToken: 'rt2', refreshExpiresInSeconds: 30 })).toBe(NOW + 30_000);
    expect(refreshExpiryAfter({ refreshExpiresInSeconds: 40 })).toBe(NOW + 40_000);
    expect(refreshExpiryAfter({ refreshToken: 'rt2' })).toBeUndefined();
    expect(refreshExpiryAfter({})).toBe(NOW + 7_000);
  });
});

describe('R41: withFailure', () => {
  /** The seconds until the next try after each of several failures in a row. */
  const secondsUntilRetry = (kind: RefreshFailure['kind'], random: number, failures: number) => {
    const waits: number[] = [];
    let grant = grantOf();
    for (let failure = 1; failure <= failures; failure += 1) {
      grant = withFailure(grant, kind, 'provider_unavailable', { now: NOW, random });
      const waitMs = (grant.failure?.retryAt ?? 0) - NOW;
      waits.push(waitMs / 1_000);
    }
    return waits;
  };

  test('waits about 30 s, then longer, up to a cap', () => {
    expect(secondsUntilRetry('passing', 0.5, 4)).toEqual([30, 60, 60, 60]);
    expect(secondsUntilRetry('unverified', 0.5, 7)).toEqual([30, 60, 120, 240, 480, 600, 600]);
    expect(secondsUntilRetry('passing', 0, 1)).toEqual([22.5]);
    expect(secondsUntilRetry('passing', 1, 1)).toEqual([37.5]);
  });

  test('waits at least as long as the provider requests, up to a cap', () => {
    const failureAfter = (retryAfterSeconds: number) =>
      withFailure(grantOf(), 'passing', 'provider_unavailable', { now: NOW, random: 0.5, retryAfterSeconds }).failure;
    expect(failureAfter(90)?.retryAt).toBe(NOW + 90_000);
    expect(failureAfter(5)?.retryAt).toBe(NOW + 30_000);
    expect(failureAfter(1e9)?.retryAt).toBe(NOW + 600_000);
  });

  test('keeps the tokens, counts the failures, and always waits between 22 s and 12.5 minutes', () => {
    fc.assert(
      fc.property(
        anyKind,
        anySpread,
        fc.integer({ min: 1, max: 2000 }),
        fc.option(fc.nat()),
        (kind, random, failures, retryAfter) => {
          const failedGrant = grantOf({
            failure: { kind: kind, cause: 'app_refused', since: 7, failures, retryAt: 0 },
          });
          const moment = { now: NOW, random, retryAfterSeconds: retryAfter ?? undefined };
          const { failure, ...otherFields } = withFailure(failedGrant, kind, 'app_refused', moment);
          expect({ ...otherFields, failure: undefined }).toEqual({ ...failedGrant, failure: undefined });
          expect(failure).toMatchObject({ since: 7, failures: failures + 1 });
          expect(failure?.retryAt).toBeGreaterThanOrEqual(NOW + 22_500);
          expect(failure?.retryAt).toBeLessThanOrEqual(NOW + MAX_BACK_OFF_MS);
        },
      ),
    );
  });

  test('has the reason of the last failure, and remembers that the platform refused the access token', () => {
    const moment = { now: NOW, random: 0.5 };
    const failedGrant = withFailure(grantOf(), 'passing', 'provider_unavailable', moment);
    expect(failedGrant.failure).toEqual({
      kind: 'passing',
      cause: 'provider_unavailable',
      since: NOW,
      failures: 1,
      retryAt: NOW + 30_000,
    });

    const momentOfRefusal = { ...moment, tokenRefused: true, reason: 'status_503' };
    const refusedGrant = withFailure(failedGrant, 'passing', 'provider_unavailable', momentOfRefusal);
    expect(refusedGrant.failure).toMatchObject({ failures: 2, tokenRefused: true, reason: 'status_503' });

    const { tokenRefused, reason } = withFailure(refusedGrant, 'unverified', 'unclear_refusal', moment).failure ?? {};
    expect([tokenRefused, reason]).toEqual([true, undefined]);
  });

  test('changes `since` only with the kind of failure', () => {
    const firstFailure = withFailure(grantOf(), 'passing', 'provider_unavailable', { now: NOW, random: 0 });
    const sameKind = withFailure(firstFailure, 'passing', 'app_refused', { now: NOW + 5, random: 0 });
    const otherKind = withFailure(sameKind, 'unverified', 'unclear_refusal', { now: NOW + 9, random: 0 });

    expect([sameKind.failure?.since, otherKind.failure?.since]).toEqual([NOW, NOW + 9]);
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
      fc.property(
        anyKind,
        anySpread,
        fc.integer({ min: -400 * 24 * HOUR, max: 400 * 24 * HOUR }),
        (kind, random, clockChangeMs) => {
          const grant = withFailure(grantOf(), kind, 'provider_unavailable', { now: NOW, random });
          const now = NOW + clockChangeMs;
          if (isBackingOff(grant, now)) {
            expect((grant.failure?.retryAt ?? 0) - now).toBeLessThanOrEqual(MAX_BACK_OFF_MS);
          }
          expect(isBackingOff(grant, now) && isBackingOff(grant, now + MAX_BACK_OFF_MS)).toBe(false);
        },
      ),
    );
  });
});

describe('healthOf', () => {
  const failure = (kind: RefreshFailure['kind']): RefreshFailure => ({
    kind,
    cause: 'provider_unavailable',
    since: NOW,
    failures: 1,
    retryAt: NOW,
  });
  const cases: [string, Partial<Grant>, string][] = [
    ['a refresh token', {}, 'active'],
    ['a refresh token and a spent access token', { expiresAt: NOW - 1 }, 'active'],
    ['a refresh token that lasts for 3 days', { refreshExpiresAt: NOW + 259_200_000 }, 'active'],
    ['a refresh token that ends sooner', { refreshExpiresAt: NOW + 259_199_999 }, 'expiring'],
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
    [
      'no refresh token and less than 10 minutes left',
      { refreshToken: undefined, expiresAt: NOW + 599_999 },
      'expiring',
    ],
    ['no refresh token and a spent access token', { refreshToken: undefined, expiresAt: NOW }, 'reconnect_needed'],
    ['no refresh token and no known end', { refreshToken: undefined, expiresAt: undefined }, 'active'],
  ];
  test.each(cases)('returns the health of a grant with %s', (_description, changes, health) => {
    expect(healthOf(grantOf(changes), NOW)).toBe(health);
  });
});

test('every failure has a sentence of its own for the user', () => {
  const sentences = Object.values(FAILURE_WORDS);
  for (const sentence of sentences) expect(sentence).toMatch(/^\p{Lu}.{20,}\.$/u);
  expect(new Set(sentences).size).toBe(sentences.length);
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
    'the newer refresh token that an interrupted refresh received',
    { refresh: { startedAt: NOW, received: 'rt2' } },
    { token: 'rt2', hint: 'refresh_token' },
  ],
  [
    'the refresh token if the interrupted refresh received none',
    { refresh: { startedAt: NOW, received: undefined } },
    { token: 'rt1', hint: 'refresh_token' },
  ],
  [
    'the access token if there is no refresh token',
    { refreshToken: undefined },
    { token: 'at1', hint: 'access_token' },
  ],
])('R43: a grant is revoked by %s', (_description, changes, expected) => {
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

test('mayNeedReconnect is true after a refusal, also an unclear one, and false after an outage', () => {
  const mayNeedReconnectAfter = (kind?: RefreshFailure['kind']) =>
    mayNeedReconnect(kind ? withFailure(grantOf(), kind, 'app_refused', { now: NOW, random: 0 }) : grantOf());
  expect(mayNeedReconnectAfter()).toBe(false);
  expect(mayNeedReconnectAfter('passing')).toBe(false);
  expect(mayNeedReconnectAfter('unverified')).toBe(true);
  expect(mayNeedReconnectAfter('reconnect_needed')).toBe(true);
});

test('isUnchecked is true for a grant without an access token, such as an import', () => {
  expect(isUnchecked(grantOf())).toBe(false);
  expect(isUnchecked(grantOf({ accessToken: '' }))).toBe(true);
});

test('spreads the refreshes of many users over the whole margin, always in the same way', () => {
  const spreads = Array.from({ length: 1_000 }, (_, number) => spreadOf(`u${(number * 7_919).toString(36)}x`));
  for (const spread of spreads) expect(spread >= 0 && spread < 1).toBe(true);
  for (let tenth = 0; tenth < 10; tenth += 1) {
    const usersInTenth = spreads.filter((spread) => Math.floor(spread * 10) === tenth);
    expect(usersInTenth.length).toBeGreaterThan(20);
  }
  expect(spreadOf('u1')).toBe(spreadOf('u1'));
  expect(new Set(spreads).size).toBeGreaterThan(900);
});
