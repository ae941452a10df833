/** Importing one refresh token: what is stored, which connections it replaces, and how the check ends. */
import { describe, expect, test, vi } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import type { Grant, StoredGrant } from '../../../src/gatehouse/grants/grant.ts';
import type { GrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { createGrantImports } from '../../../src/gatehouse/grants/imported-grant.ts';
import type { Refreshed } from '../../../src/gatehouse/grants/refresh.ts';
import { PLATFORM } from '../../support/apps.ts';

const NOW = 1_800_000_000_000;
const IMPORTED = {
  userId: 'u1',
  app: PLATFORM,
  refreshToken: 'rt-new',
  scopes: ['openid'],
  account: { subject: 's1' },
};
const MOVED = registrationOf({ ...PLATFORM, issuer: 'https://elsewhere.test' });
const CONDITIONS = [{ exists: 'user' }];
const UNREADABLE: StoredGrant = { unreadable: new Error('sealed') as never, version: 4 };

const storedGrant = (changes: Partial<Grant> = {}): StoredGrant => ({
  version: 4,
  grant: {
    id: 'c1',
    userId: 'u1',
    appId: PLATFORM.id,
    registration: registrationOf(PLATFORM),
    accessToken: 'at1',
    refreshToken: 'rt1',
    scopes: [],
    account: {},
    obtainedAt: NOW,
    expiresAt: NOW + 9_000,
    connectedAt: NOW,
    consentedAt: NOW,
    failure: undefined,
    refresh: undefined,
    ...changes,
  },
});
const refusal = { kind: 'reconnect_needed', cause: 'grant_refused', since: 1, failures: 1, retryAt: 7 } as const;
const passingFailure = { kind: 'passing', cause: 'provider_unavailable', since: 1, failures: 1, retryAt: 7 } as const;

/**
 * @param grantsAtReads the stored grant at each read
 * @param savesSucceed whether each write succeeds
 */
function createImport(
  grantsAtReads: (StoredGrant | undefined)[],
  savesSucceed: boolean[] = [true],
  { isGone = false, isRegistered = true } = {},
) {
  const announce = vi.fn(async (_id: string) => undefined);
  const addUnfinishedRefresh = vi.fn(async () => undefined);
  const save = vi.fn(async (_grant: Grant, _version: number) => (savesSucceed.shift() ? 1 : undefined));
  const remove = vi.fn(async () => true);
  const loadStored = async () => grantsAtReads.shift();
  const grants = { loadStored, save, remove, addUnfinishedRefresh } as unknown as GrantStore;
  const { seal } = createGrantImports({
    grants,
    isRegistered: async () => isRegistered,
    refresher: { attempt: async () => ({ stored: undefined }) },
    clock: () => NOW,
  });
  const conditions = async () => (isGone ? undefined : CONDITIONS);
  return { seal: () => seal({ ...IMPORTED, conditions }, announce), announce, addUnfinishedRefresh, save, remove };
}

describe('an imported refresh token', () => {
  test('is stored as an unchecked connection', async () => {
    const { seal, announce, addUnfinishedRefresh, save } = createImport([undefined]);
    expect(await seal()).toBeUndefined();
    expect(save.mock.calls).toEqual([
      [
        {
          id: expect.stringMatching(/^cn/),
          userId: 'u1',
          appId: 'platform',
          registration: registrationOf(PLATFORM),
          accessToken: '',
          refreshToken: 'rt-new',
          scopes: ['openid'],
          account: { subject: 's1' },
          obtainedAt: 0,
          expiresAt: 0,
          connectedAt: NOW,
          consentedAt: NOW,
          failure: { kind: 'passing', cause: 'not_checked', since: NOW, failures: 0, retryAt: 0 },
          refresh: undefined,
        },
        0,
        { writes: CONDITIONS },
      ],
    ]);
    expect(announce.mock.calls).toEqual([[save.mock.calls[0]?.[0].id]]);
    expect(addUnfinishedRefresh.mock.calls).toEqual([['u1', 'platform']]);
  });

  test.each<[string, StoredGrant, unknown]>([
    ['cannot be read', UNREADABLE, { kind: 'invalid', cause: 'unreadable' }],
    ['works', storedGrant(), { kind: 'already_connected' }],
    ['may work', storedGrant({ failure: { ...passingFailure, kind: 'unverified' } }), { kind: 'already_connected' }],
    ['may work once the app is changed back', storedGrant({ registration: MOVED }), { kind: 'already_connected' }],
    ['was sealed before', storedGrant({ accessToken: '', failure: passingFailure }), undefined],
    [
      'was refused with the same token',
      storedGrant({ accessToken: '', refreshToken: 'rt-new', failure: refusal }),
      { kind: 'refused', cause: 'grant_refused' },
    ],
  ])('replaces no connection that %s', async (_description, replacedGrant, outcome) => {
    const { seal, announce, save } = createImport([replacedGrant]);
    expect(await seal()).toEqual(outcome);
    expect(announce).not.toHaveBeenCalled();
    expect(save).not.toHaveBeenCalled();
  });

  test.each<[string, StoredGrant]>([
    ['has ended', storedGrant({ failure: refusal })],
    ['was refused with another token', storedGrant({ accessToken: '', failure: refusal })],
    [
      'was sealed for another registration',
      storedGrant({ accessToken: '', failure: passingFailure, registration: MOVED }),
    ],
    [
      'was refused with the same token for another registration',
      storedGrant({ accessToken: '', refreshToken: 'rt-new', failure: refusal, registration: MOVED }),
    ],
    ['had the same token, and was used', storedGrant({ refreshToken: 'rt-new', failure: refusal })],
  ])('replaces a connection that %s', async (_description, replacedGrant) => {
    const { seal, save } = createImport([replacedGrant]);
    expect(await seal()).toBeUndefined();
    expect(save.mock.calls[0]?.[1]).toBe(4);
  });

  test.each<[string, Partial<Grant>, unknown]>([
    ['the same account', { account: { subject: 's1' } }, 'c1'],
    ['another account', { account: { subject: 's2' } }, expect.stringMatching(/^cn/)],
    ['an unknown account', { account: {} }, expect.stringMatching(/^cn/)],
    [
      'another registration',
      { account: { subject: 's1' }, registration: registrationOf({ ...PLATFORM, clientId: 'c2' }) },
      expect.stringMatching(/^cn/),
    ],
  ])(
    'R118 replacing an ended connection of %s keeps its id only if account and registration are the same',
    async (_description, changes, id) => {
      const { seal, announce, save } = createImport([storedGrant({ ...changes, failure: refusal })]);
      expect(await seal()).toBeUndefined();
      expect(announce.mock.calls[0]?.[0]).toEqual(id);
      expect(save.mock.calls[0]?.[0].id).toEqual(id);
    },
  );

  test('is compared again if another write comes first, and announced once', async () => {
    const overtakenImport = createImport([undefined, storedGrant()], [false]);
    expect(await overtakenImport.seal()).toEqual({ kind: 'already_connected' });

    const repeatedImport = createImport([undefined, storedGrant({ failure: refusal })], [false, true]);
    expect(await repeatedImport.seal()).toBeUndefined();
    expect(repeatedImport.announce).toHaveBeenCalledTimes(1);
    expect(repeatedImport.addUnfinishedRefresh).toHaveBeenCalledTimes(1);
    expect(repeatedImport.save.mock.calls.map(([, version]) => version)).toEqual([0, 4]);
  });

  test('of a deleted user is refused, and not stored', async () => {
    const { seal, save } = createImport([undefined], [true], { isGone: true });
    expect(await seal()).toEqual({ kind: 'refused', cause: 'removed' });
    expect(save).not.toHaveBeenCalled();
  });

  test('R117 of an app that was deleted during the import is removed again', async () => {
    const { seal, remove } = createImport([undefined], [true], { isRegistered: false });
    expect(await seal()).toEqual({ kind: 'refused', cause: 'removed' });
    expect(remove.mock.calls).toEqual([['u1', 'platform', 1]]);

    const importOfCurrentApp = createImport([undefined]);
    await importOfCurrentApp.seal();
    expect(importOfCurrentApp.remove).not.toHaveBeenCalled();
  });
});

describe('the check of an imported connection', () => {
  const unusable = (reason: string) => ({ kind: 'unusable', reason, refreshToken: undefined }) as const;
  test.each<[string, Refreshed, unknown]>([
    ['finds that it works', { stored: storedGrant() }, { kind: 'imported' }],
    [
      'finds another account’s token',
      { stored: undefined, outcome: unusable('other_subject') },
      { kind: 'refused', cause: 'other_account' },
    ],
    [
      'finds that it was removed after an unusable response',
      { stored: undefined, outcome: unusable('token_response_invalid') },
      { kind: 'refused', cause: 'removed' },
    ],
    ['finds that it was removed', { stored: undefined }, { kind: 'refused', cause: 'removed' }],
    ['cannot read it', { stored: UNREADABLE }, { kind: 'refused', cause: 'unreadable' }],
    [
      'finds that it was refused',
      { stored: storedGrant({ accessToken: '', failure: refusal }) },
      { kind: 'refused', cause: 'grant_refused' },
    ],
    [
      'has to wait for the provider',
      { stored: storedGrant({ accessToken: '', failure: { ...passingFailure, reason: 'status_503' } }) },
      { kind: 'unchecked', cause: 'provider_unavailable', retryAt: 7, reason: 'status_503' },
    ],
    [
      'has not been made',
      { stored: storedGrant({ accessToken: '' }) },
      { kind: 'unchecked', cause: 'not_checked', retryAt: 0, reason: undefined },
    ],
  ])('%s', async (_description, refreshed, outcome) => {
    const attempt = vi.fn(async () => refreshed);
    const { check } = createGrantImports({
      grants: {} as GrantStore,
      isRegistered: async () => true,
      refresher: { attempt },
      clock: () => NOW,
    });

    expect(await check(IMPORTED)).toEqual(outcome);
    expect(attempt.mock.calls).toEqual([[{ userId: 'u1', app: PLATFORM }]]);
  });
});
