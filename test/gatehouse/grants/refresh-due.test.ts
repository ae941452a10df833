/** Whether a stored grant is due for a refresh, and how a journal entry is closed. */
import { describe, expect, test } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import { checkedAtOf, notCheckedSince } from '../../../src/gatehouse/grants/connection.ts';
import type { Grant, RefreshFailure } from '../../../src/gatehouse/grants/grant.ts';
import {
  ifDue,
  isIdle,
  isRefused,
  mayHaveUnsavedResponse,
  needsToken,
  type RefreshRequest,
  refreshTimes,
} from '../../../src/gatehouse/grants/refresh.ts';
import {
  isNarrowed,
  type RefreshCall,
  withEntryClosed,
  withLostEntryRestored,
} from '../../../src/gatehouse/grants/refresh-journal.ts';
import { PLATFORM } from '../../support/apps.ts';

const NOW = 1_800_000_000_000;
const HOUR = 3_600_000;

function grantOf(changes: Partial<Grant> = {}): Grant {
  return {
    ...{ id: 'c1', userId: 'u1', appId: PLATFORM.id, registration: registrationOf(PLATFORM) },
    ...{ accessToken: 'at1', refreshToken: 'rt1', scopes: [], account: {} },
    ...{ obtainedAt: NOW - HOUR, expiresAt: NOW + HOUR, connectedAt: NOW - 2 * HOUR, consentedAt: NOW - 2 * HOUR },
    ...{ failure: undefined, refresh: undefined },
    ...changes,
  };
}
const failureOf = (changes: Partial<RefreshFailure> = {}): RefreshFailure => ({
  ...{ kind: 'passing', cause: 'provider_unavailable', since: NOW - 5_000, failures: 1, retryAt: NOW - 1 },
  ...changes,
});
const stored = (changes: Partial<Grant> = {}) => ({ grant: grantOf(changes), version: 1 });
const UNREADABLE = { unreadable: new Error('sealed') as never, version: 1 };
const EXPIRED = { expiresAt: NOW };
const ENDED = { failure: failureOf({ kind: 'reconnect_needed', cause: 'grant_refused' }) };

describe('a grant is due for a call to the provider', () => {
  const isDue = (changes: Partial<Grant>, request: Partial<RefreshRequest> = {}) => {
    const one = stored(changes);
    const due = ifDue(one, { userId: 'u1', app: PLATFORM, ...request }, NOW);
    expect([one, undefined]).toContain(due);
    return due !== undefined;
  };

  test.each<[string, boolean, Partial<Grant>, Partial<RefreshRequest>?]>([
    ['with a fresh access token', false, {}],
    ['with an expired one', true, EXPIRED],
    ['with one that is about to expire', true, { expiresAt: NOW + 30_000 }],
    ['with an expired one and no refresh token', true, { ...EXPIRED, refreshToken: undefined }],
    ['that has ended', false, { ...EXPIRED, ...ENDED }],
    ['during the back-off', false, { ...EXPIRED, failure: failureOf({ retryAt: NOW + 1 }) }],
    ['after the back-off', true, { ...EXPIRED, failure: failureOf({ retryAt: NOW }) }],
    [
      'without a refresh token, whatever the back-off: the provider is not called',
      true,
      { ...EXPIRED, refreshToken: undefined, failure: failureOf({ retryAt: NOW + 1 }) },
    ],
    ['whose access token the platform refused', true, {}, { rejected: 'at1' }],
    ['whose earlier access token the platform refused', false, {}, { rejected: 'at0' }],
    ['whose access token is two seconds old and refused', true, { obtainedAt: NOW - 2_000 }, { rejected: 'at1' }],
    ['whose access token is newer than that', false, { obtainedAt: NOW - 1_999 }, { rejected: 'at1' }],
    ['with a journal entry', false, { refresh: { startedAt: NOW - 9, received: undefined } }],
    [
      'with a journal entry that is to be closed',
      true,
      { refresh: { startedAt: NOW - 9, received: undefined } },
      { closesJournal: true },
    ],
    ['without an entry that could be closed', false, {}, { closesJournal: true }],
    ['with a refresh token in the journal', true, { refresh: { startedAt: NOW - 9, received: 'rt2' } }],
    ['that was idle since before the time that is named', true, {}, { idleSince: NOW - HOUR + 1 }],
    ['that was refreshed at that time', false, {}, { idleSince: NOW - HOUR }],
    ['for fewer scopes', true, {}, { scopes: [] }],
    ['for one resource', true, {}, { resource: 'urn:example:reports' }],
    ['for fewer scopes without a refresh token', false, { ...EXPIRED, refreshToken: undefined }, { scopes: [] }],
  ])('%s: %s', (_words, due, changes, request) => expect(isDue(changes, request)).toBe(due));

  test('but not if there is no grant, or it cannot be read', () => {
    const request = { userId: 'u1', app: PLATFORM, closesJournal: true };
    expect([ifDue(undefined, request, NOW), ifDue(UNREADABLE, request, NOW)]).toEqual([undefined, undefined]);
  });

  test.each<[string, boolean, Partial<Grant>, string?]>([
    ['with a fresh access token', false, {}],
    ['with one that the platform refused', true, {}, 'at1'],
    ['with another than the platform refused', false, {}, 'at0'],
    ['with an expired one', true, EXPIRED],
    ['with one that is about to expire', true, { expiresAt: NOW + 30_000 }],
    ['with one that only other users would have refreshed by now', false, { expiresAt: NOW + 74_000 }],
    ['that has ended', false, { ...EXPIRED, ...ENDED }],
  ])('needs a refresh for a request for its token, %s: %s', (_words, isNeeded, changes, rejected) => {
    expect(needsToken(grantOf(changes), rejected, NOW)).toBe(isNeeded);
  });
});

test('F12: a clock that was set back makes no access token look new', () => {
  expect(isRefused(grantOf({ obtainedAt: NOW + 1 }), 'at1', NOW)).toBe(true);
  expect(isRefused(grantOf({ obtainedAt: NOW }), 'at1', NOW)).toBe(false);
  expect(isRefused(grantOf(), undefined, NOW)).toBe(false);
});

test('a request is narrowed by its scopes, even an empty list, or by its resource', () => {
  expect([{}, { scopes: [] }, { resource: 'urn:a' }].map(isNarrowed)).toEqual([false, true, true]);
});

test.each([
  [300, 1_600, 4_000],
  [5_000, 6_300, 9_450],
])(
  'a store with a deadline of %i ms: %i ms to reconnect, a lease of %i ms',
  (deadline, reconnectMilliseconds, leaseMilliseconds) => {
    expect(refreshTimes(deadline)).toEqual({ reconnectMilliseconds, leaseMilliseconds });
  },
);

describe('R113 when a connection was last known to work', () => {
  test.each<[string, number | undefined, Partial<Grant>]>([
    ['its last tokens', NOW - HOUR, {}],
    ['its last tokens, where only the present refresh fails', NOW - HOUR, { failure: failureOf() }],
    ['its end, where the provider said so', NOW - 5_000, ENDED],
    [
      'its last tokens, where it ended without the provider',
      NOW - HOUR,
      { failure: failureOf({ kind: 'reconnect_needed', cause: 'access_ended' }) },
    ],
    ['never, where it was imported and not refreshed', undefined, { accessToken: '' }],
  ])('is the time of %s', (_words, at, changes) => expect(checkedAtOf(grantOf(changes))).toBe(at));

  test('counts for two intervals, to the millisecond', () => {
    const since = (times: Parameters<typeof notCheckedSince>[0]) => notCheckedSince(times, NOW, 60);
    expect(since({ checkedAt: NOW - 120_000 })).toBeUndefined();
    expect(since({ checkedAt: NOW - 120_001 })).toBe(NOW - 120_001);
    expect(since({ checkedAt: NOW - 120_001, connectedAt: NOW })).toBe(NOW - 120_001);
    expect(since({ checkedAt: NOW - 120_002, lastUsedAt: NOW - 120_001 })).toBe(NOW - 120_001);
    expect(since({})).toBe(0);
  });

  test('is the time since when it is idle; for an imported one, its import', () => {
    expect([isIdle(grantOf(), NOW - HOUR), isIdle(grantOf(), NOW - HOUR + 1)]).toEqual([false, true]);
    const imported = grantOf({ accessToken: '', obtainedAt: 0 });
    expect([isIdle(imported, NOW - 2 * HOUR), isIdle(imported, NOW - 2 * HOUR + 1)]).toEqual([false, true]);
    expect(isIdle(grantOf({ refreshToken: undefined }), NOW)).toBe(false);
  });
});

describe('another process may have an unsaved response', () => {
  const entry = (age: number, received?: string) => ({ refresh: { startedAt: NOW - age, received } });
  test.each<[string, boolean, Partial<Grant>]>([
    ['without a journal entry', false, {}],
    ['while a call runs', true, entry(1_000)],
    ['until 90 seconds after its start', true, entry(89_999)],
    ['and no longer', false, entry(90_000)],
    ['but not where the journal has its refresh token', false, entry(1_000, 'rt2')],
    ['but not where the call has failed since', false, { ...entry(1_000), failure: failureOf({ retryAt: NOW - 999 }) }],
    ['also after an earlier failure', true, { ...entry(1_000), failure: failureOf({ retryAt: NOW - 1_000 }) }],
  ])('%s: %s', (_words, may, changes) => expect(mayHaveUnsavedResponse(grantOf(changes), NOW)).toBe(may));
});

describe('the journal entry of a call', () => {
  const own = { startedAt: NOW, received: undefined };
  const other = { startedAt: NOW - 7, received: undefined };
  const callOf = (changes: Partial<RefreshCall> = {}) =>
    ({ grant: grantOf({ refresh: own }), lostEntry: undefined, ...changes }) as RefreshCall;

  test('is closed with the call; the entry of another process is not', () => {
    expect(withEntryClosed(callOf(), grantOf({ refresh: { ...own, received: 'rt2' } })).refresh).toBeUndefined();
    const left = [grantOf({ refresh: other }), grantOf()];
    expect(left.map((grant) => withEntryClosed(callOf(), grant))).toEqual(left);
  });

  test('is replaced by the entry of an earlier call that may have spent the same refresh token', () => {
    const call = callOf({ lostEntry: other });
    expect(withLostEntryRestored(call, grantOf({ refresh: own })).refresh).toEqual(other);
    expect(withLostEntryRestored(callOf(), grantOf({ refresh: own })).refresh).toBeUndefined();
    expect(withLostEntryRestored(call, grantOf({ refresh: own, refreshToken: 'rt2' })).refresh).toBeUndefined();
    const third = { startedAt: NOW - 9, received: undefined };
    expect(withLostEntryRestored(call, grantOf({ refresh: third })).refresh).toEqual(third);
  });
});
