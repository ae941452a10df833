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

const stored = (changes: Partial<Grant> = {}): StoredGrant => ({
  version: 4,
  grant: {
    ...{ id: 'c1', userId: 'u1', appId: PLATFORM.id, registration: registrationOf(PLATFORM) },
    ...{ accessToken: 'at1', refreshToken: 'rt1', scopes: [], account: {} },
    ...{ obtainedAt: NOW, expiresAt: NOW + 9_000, connectedAt: NOW, consentedAt: NOW },
    ...{ failure: undefined, refresh: undefined },
    ...changes,
  },
});
const ended = { kind: 'reconnect_needed', cause: 'grant_refused', since: 1, failures: 1, retryAt: 7 } as const;
const passing = { kind: 'passing', cause: 'provider_unavailable', since: 1, failures: 1, retryAt: 7 } as const;

/** @param before the stored grant at each read. @param saved whether each write succeeds */
function imports(
  before: (StoredGrant | undefined)[],
  saved: boolean[] = [true],
  { isGone = false, isRegistered = true } = {},
) {
  const onNew = vi.fn(async (_id: string) => undefined);
  const addUnfinishedRefresh = vi.fn(async () => undefined);
  const save = vi.fn(async (_grant: Grant, _version: number) => (saved.shift() ? 1 : undefined));
  const remove = vi.fn(async () => true);
  const loadStored = async () => before.shift();
  const grants = { loadStored, save, remove, addUnfinishedRefresh } as unknown as GrantStore;
  const { seal } = createGrantImports({
    grants,
    isRegistered: async () => isRegistered,
    refresher: { attempt: async () => ({ stored: undefined }) },
    clock: () => NOW,
  });
  const conditions = async () => (isGone ? undefined : CONDITIONS);
  return { seal: () => seal({ ...IMPORTED, conditions }, onNew), onNew, addUnfinishedRefresh, save, remove };
}

describe('a refresh token', () => {
  test('is stored as an unchecked connection', async () => {
    const { seal, onNew, addUnfinishedRefresh, save } = imports([undefined]);
    expect(await seal()).toBeUndefined();
    expect(save.mock.calls).toEqual([
      [
        {
          ...{ id: expect.stringMatching(/^cn/), userId: 'u1', appId: 'platform' },
          ...{ registration: registrationOf(PLATFORM), accessToken: '', refreshToken: 'rt-new', scopes: ['openid'] },
          ...{ account: { subject: 's1' }, obtainedAt: 0, expiresAt: 0, connectedAt: NOW, consentedAt: NOW },
          failure: { kind: 'passing', cause: 'not_checked', since: NOW, failures: 0, retryAt: 0 },
          refresh: undefined,
        },
        0,
        { writes: CONDITIONS },
      ],
    ]);
    expect(onNew.mock.calls).toEqual([[save.mock.calls[0]?.[0].id]]);
    expect(addUnfinishedRefresh.mock.calls).toEqual([['u1', 'platform']]);
  });

  test.each<[string, StoredGrant, unknown]>([
    ['cannot be read', UNREADABLE, { kind: 'invalid', cause: 'unreadable' }],
    ['works', stored(), { kind: 'already_connected' }],
    ['may work', stored({ failure: { ...passing, kind: 'unverified' } }), { kind: 'already_connected' }],
    ['may work once the app is as it was', stored({ registration: MOVED }), { kind: 'already_connected' }],
    ['was sealed before', stored({ accessToken: '', failure: passing }), undefined],
    [
      'was refused with the same token',
      stored({ accessToken: '', refreshToken: 'rt-new', failure: ended }),
      { kind: 'refused', cause: 'grant_refused' },
    ],
  ])('replaces no connection that %s', async (_words, before, outcome) => {
    const { seal, onNew, save } = imports([before]);
    expect(await seal()).toEqual(outcome);
    expect([onNew.mock.calls, save.mock.calls]).toEqual([[], []]);
  });

  test.each<[string, StoredGrant]>([
    ['has ended', stored({ failure: ended })],
    ['was refused with another token', stored({ accessToken: '', failure: ended })],
    ['was sealed for another registration', stored({ accessToken: '', failure: passing, registration: MOVED })],
    [
      'was refused with the same token for another registration',
      stored({ accessToken: '', refreshToken: 'rt-new', failure: ended, registration: MOVED }),
    ],
    ['had the same token, and was used', stored({ refreshToken: 'rt-new', failure: ended })],
  ])('replaces a connection that %s', async (_words, before) => {
    const { seal, save } = imports([before]);
    expect(await seal()).toBeUndefined();
    expect(save.mock.calls[0]?.[1]).toBe(4);
  });

  test.each<[string, Partial<Grant>, unknown]>([
    ['the same account', { account: { subject: 's1' } }, 'c1'],
    ['another account', { account: { subject: 's2' } }, expect.stringMatching(/^cn/)],
    ['an account that is not known', { account: {} }, expect.stringMatching(/^cn/)],
    [
      'another registration',
      { account: { subject: 's1' }, registration: registrationOf({ ...PLATFORM, clientId: 'c2' }) },
      expect.stringMatching(/^cn/),
    ],
  ])(
    'R118 replacing an ended connection of %s keeps its id only if account and registration are the same',
    async (_words, changes, id) => {
      const { seal, onNew, save } = imports([stored({ ...changes, failure: ended })]);
      expect(await seal()).toBeUndefined();
      expect([onNew.mock.calls[0]?.[0], save.mock.calls[0]?.[0].id]).toEqual([id, id]);
    },
  );

  test('is compared again if another write comes first, and announced once', async () => {
    const overtaken = imports([undefined, stored()], [false]);
    expect(await overtaken.seal()).toEqual({ kind: 'already_connected' });
    const won = imports([undefined, stored({ failure: ended })], [false, true]);
    expect(await won.seal()).toBeUndefined();
    expect([won.onNew.mock.calls.length, won.addUnfinishedRefresh.mock.calls.length]).toEqual([1, 1]);
    expect(won.save.mock.calls.map(([, version]) => version)).toEqual([0, 4]);
  });

  test('of a deleted user is refused, and not stored', async () => {
    const { seal, save } = imports([undefined], [true], { isGone: true });
    expect(await seal()).toEqual({ kind: 'refused', cause: 'removed' });
    expect(save).not.toHaveBeenCalled();
  });

  test('R117 of an app that was deleted meanwhile is deleted again', async () => {
    const { seal, remove } = imports([undefined], [true], { isRegistered: false });
    expect(await seal()).toEqual({ kind: 'refused', cause: 'removed' });
    expect(remove.mock.calls).toEqual([['u1', 'platform', 1]]);
    const refused = imports([undefined]);
    await refused.seal();
    expect(refused.remove).not.toHaveBeenCalled();
  });
});

describe('the check of an imported connection', () => {
  const unusable = (reason: string) => ({ kind: 'unusable', reason, refreshToken: undefined }) as const;
  test.each<[string, Refreshed, unknown]>([
    ['finds that it works', { stored: stored() }, { kind: 'imported' }],
    [
      'finds another account’s token',
      { stored: undefined, outcome: unusable('other_subject') },
      { kind: 'refused', cause: 'other_account' },
    ],
    [
      'finds it removed after an unusable response',
      { stored: undefined, outcome: unusable('token_response_invalid') },
      { kind: 'refused', cause: 'removed' },
    ],
    ['finds it removed', { stored: undefined }, { kind: 'refused', cause: 'removed' }],
    ['cannot read it', { stored: UNREADABLE }, { kind: 'refused', cause: 'unreadable' }],
    [
      'finds it refused',
      { stored: stored({ accessToken: '', failure: ended }) },
      { kind: 'refused', cause: 'grant_refused' },
    ],
    [
      'has to wait for the provider',
      { stored: stored({ accessToken: '', failure: { ...passing, reason: 'status_503' } }) },
      { kind: 'unchecked', cause: 'provider_unavailable', retryAt: 7, reason: 'status_503' },
    ],
    [
      'was not made',
      { stored: stored({ accessToken: '' }) },
      { kind: 'unchecked', cause: 'not_checked', retryAt: 0, reason: undefined },
    ],
  ])('%s', async (_words, refreshed, outcome) => {
    const attempt = vi.fn(async () => refreshed);
    const { check } = createGrantImports({
      ...{ grants: {} as GrantStore, isRegistered: async () => true, refresher: { attempt }, clock: () => NOW },
    });
    expect(await check(IMPORTED)).toEqual(outcome);
    expect(attempt.mock.calls).toEqual([[{ userId: 'u1', app: PLATFORM }]]);
  });
});
