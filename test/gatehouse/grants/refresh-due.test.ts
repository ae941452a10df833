/** Whether a stored grant is due for a refresh, and how a journal entry is closed. */
import { describe, expect, test } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import { checkedAtOf, notCheckedSince } from '../../../src/gatehouse/grants/connection.ts';
import type { Grant } from '../../../src/gatehouse/grants/grant.ts';
import { refreshTimes } from '../../../src/gatehouse/grants/refresh.ts';
import {
  ifDue,
  isIdle,
  isRefused,
  needsToken,
  type RefreshRequest,
} from '../../../src/gatehouse/grants/refresh-due.ts';
import type { RefreshFailure } from '../../../src/gatehouse/grants/refresh-failure.ts';
import {
  isNarrowed,
  mayHaveUnsavedResponse,
  type RefreshCall,
  withEntryClosed,
  withLostEntryRestored,
} from '../../../src/gatehouse/grants/refresh-journal.ts';
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
    scopes: [],
    account: {},
    obtainedAt: NOW - HOUR,
    expiresAt: NOW + HOUR,
    connectedAt: NOW - 2 * HOUR,
    consentedAt: NOW - 2 * HOUR,
    failure: undefined,
    refresh: undefined,
    ...changes,
  };
}
const failureOf = (changes: Partial<RefreshFailure> = {}): RefreshFailure => ({
  kind: 'passing',
  cause: 'provider_unavailable',
  since: NOW - 5_000,
  failures: 1,
  retryAt: NOW - 1,
  ...changes,
});
const storedGrant = (changes: Partial<Grant> = {}) => ({ grant: grantOf(changes), version: 1 });
const UNREADABLE = { unreadable: new Error('sealed') as never, version: 1 };
const EXPIRED = { expiresAt: NOW };
const REFUSED = { failure: failureOf({ kind: 'reconnect_needed', cause: 'grant_refused' }) };

describe('a grant is due for a call to the provider', () => {
  const isDue = (changes: Partial<Grant>, request: Partial<RefreshRequest> = {}) => {
    const grant = storedGrant(changes);
    const dueGrant = ifDue(grant, { userId: 'u1', app: PLATFORM, ...request }, NOW);
    // The result is the grant itself, or nothing.
    expect([grant, undefined]).toContain(dueGrant);
    return dueGrant !== undefined;
  };

  test.each<[string, boolean, Partial<Grant>, Partial<RefreshRequest>?]>([
    ['with a fresh access token', false, {}],
    ['with an expired access token', true, EXPIRED],
    ['with an access token that is about to expire', true, { expiresAt: NOW + 30_000 }],
    ['with an expired access token and no refresh token', true, { ...EXPIRED, refreshToken: undefined }],
    ['that has ended', false, { ...EXPIRED, ...REFUSED }],
    ['during the back-off', false, { ...EXPIRED, failure: failureOf({ retryAt: NOW + 1 }) }],
    ['after the back-off', true, { ...EXPIRED, failure: failureOf({ retryAt: NOW }) }],
    [
      'without a refresh token, even during the back-off, since the provider is not called',
      true,
      { ...EXPIRED, refreshToken: undefined, failure: failureOf({ retryAt: NOW + 1 }) },
    ],
    ['whose access token the platform refused', true, {}, { rejected: 'at1' }],
    ['whose earlier access token the platform refused', false, {}, { rejected: 'at0' }],
    ['whose access token is two seconds old and refused', true, { obtainedAt: NOW - 2_000 }, { rejected: 'at1' }],
    [
      'whose access token is less than two seconds old and refused',
      false,
      { obtainedAt: NOW - 1_999 },
      { rejected: 'at1' },
    ],
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
  ])('%s: %s', (_description, expected, changes, request) => {
    expect(isDue(changes, request)).toBe(expected);
  });

  test('only if it exists and can be read', () => {
    const request = { userId: 'u1', app: PLATFORM, closesJournal: true };
    expect(ifDue(undefined, request, NOW)).toBeUndefined();
    expect(ifDue(UNREADABLE, request, NOW)).toBeUndefined();
  });

  test.each<[string, boolean, Partial<Grant>, string?]>([
    ['with a fresh access token', false, {}],
    ['with an access token that the platform refused', true, {}, 'at1'],
    ['with another access token than the platform refused', false, {}, 'at0'],
    ['with an expired access token', true, EXPIRED],
    ['with an access token that is about to expire', true, { expiresAt: NOW + 30_000 }],
    ['in the part of the margin that is due only for other users', false, { expiresAt: NOW + 74_000 }],
    ['that has ended', false, { ...EXPIRED, ...REFUSED }],
  ])('when its token is requested, %s: %s', (_description, isNeeded, changes, rejected) => {
    expect(needsToken(grantOf(changes), rejected, NOW)).toBe(isNeeded);
  });
});

test('F12: a clock that was set back makes no access token look new', () => {
  expect(isRefused(grantOf({ obtainedAt: NOW + 1 }), 'at1', NOW)).toBe(true);
  expect(isRefused(grantOf({ obtainedAt: NOW }), 'at1', NOW)).toBe(false);
  expect(isRefused(grantOf(), undefined, NOW)).toBe(false);
});

test('a request is narrowed by its scopes, even an empty list, or by its resource', () => {
  expect(isNarrowed({})).toBe(false);
  expect(isNarrowed({ scopes: [] })).toBe(true);
  expect(isNarrowed({ resource: 'urn:a' })).toBe(true);
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

describe('R113 the time when a connection was last known to work', () => {
  test.each<[string, number | undefined, Partial<Grant>]>([
    ['that of its last tokens', NOW - HOUR, {}],
    ['that of its last tokens if only the present refresh fails', NOW - HOUR, { failure: failureOf() }],
    ['that of its end if the provider refused it', NOW - 5_000, REFUSED],
    [
      'that of its last tokens if it ended without the provider',
      NOW - HOUR,
      { failure: failureOf({ kind: 'reconnect_needed', cause: 'access_ended' }) },
    ],
    ['unknown if it was imported and not refreshed', undefined, { accessToken: '' }],
  ])('is %s', (_description, expectedTime, changes) => {
    expect(checkedAtOf(grantOf(changes))).toBe(expectedTime);
  });

  test('counts for two intervals, to the millisecond', () => {
    const uncheckedSince = (times: Parameters<typeof notCheckedSince>[0]) => notCheckedSince(times, NOW, 60);
    expect(uncheckedSince({ checkedAt: NOW - 120_000 })).toBeUndefined();
    expect(uncheckedSince({ checkedAt: NOW - 120_001 })).toBe(NOW - 120_001);
    expect(uncheckedSince({ checkedAt: NOW - 120_001, connectedAt: NOW })).toBe(NOW - 120_001);
    expect(uncheckedSince({ checkedAt: NOW - 120_002, lastUsedAt: NOW - 120_001 })).toBe(NOW - 120_001);
    expect(uncheckedSince({})).toBe(0);
  });

  test('is the time since when the connection is idle; an imported one is idle since its import', () => {
    expect(isIdle(grantOf(), NOW - HOUR)).toBe(false);
    expect(isIdle(grantOf(), NOW - HOUR + 1)).toBe(true);

    const imported = grantOf({ accessToken: '', obtainedAt: 0 });
    expect(isIdle(imported, NOW - 2 * HOUR)).toBe(false);
    expect(isIdle(imported, NOW - 2 * HOUR + 1)).toBe(true);
    expect(isIdle(grantOf({ refreshToken: undefined }), NOW)).toBe(false);
  });
});

describe('another process may have an unsaved response', () => {
  const entry = (ageMs: number, received?: string) => ({ refresh: { startedAt: NOW - ageMs, received } });
  test.each<[string, boolean, Partial<Grant>]>([
    ['without a journal entry', false, {}],
    ['while a call runs', true, entry(1_000)],
    ['until 90 seconds after its start', true, entry(89_999)],
    ['90 seconds after its start', false, entry(90_000)],
    ['if the journal has its refresh token', false, entry(1_000, 'rt2')],
    ['if the call has failed since', false, { ...entry(1_000), failure: failureOf({ retryAt: NOW - 999 }) }],
    [
      'if the failure is earlier than the call',
      true,
      { ...entry(1_000), failure: failureOf({ retryAt: NOW - 1_000 }) },
    ],
  ])('%s: %s', (_description, isPossible, changes) => {
    expect(mayHaveUnsavedResponse(grantOf(changes), NOW)).toBe(isPossible);
  });
});

describe('the journal entry of a call', () => {
  const ownEntry = { startedAt: NOW, received: undefined };
  const earlierEntry = { startedAt: NOW - 7, received: undefined };
  const callOf = (changes: Partial<RefreshCall> = {}) =>
    ({ grant: grantOf({ refresh: ownEntry }), lostEntry: undefined, ...changes }) as RefreshCall;

  test('is closed with the call; the entry of another process is not', () => {
    expect(withEntryClosed(callOf(), grantOf({ refresh: { ...ownEntry, received: 'rt2' } })).refresh).toBeUndefined();
    const grantsWithoutOwnEntry = [grantOf({ refresh: earlierEntry }), grantOf()];
    for (const grant of grantsWithoutOwnEntry) expect(withEntryClosed(callOf(), grant)).toEqual(grant);
  });

  test('is replaced by the entry of an earlier call that may have spent the same refresh token', () => {
    const call = callOf({ lostEntry: earlierEntry });
    expect(withLostEntryRestored(call, grantOf({ refresh: ownEntry })).refresh).toEqual(earlierEntry);
    expect(withLostEntryRestored(callOf(), grantOf({ refresh: ownEntry })).refresh).toBeUndefined();
    expect(withLostEntryRestored(call, grantOf({ refresh: ownEntry, refreshToken: 'rt2' })).refresh).toBeUndefined();

    const thirdEntry = { startedAt: NOW - 9, received: undefined };
    expect(withLostEntryRestored(call, grantOf({ refresh: thirdEntry })).refresh).toEqual(thirdEntry);
  });
});
