/** Tokens with fewer scopes than the grant, against a provider made by hand: had by a refresh like any other, and never the grant's own. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import type { Grant } from '../../../src/gatehouse/grants/grant.ts';
import { createGrantStore, type GrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { createNarrowedTokens, type NarrowedTokens } from '../../../src/gatehouse/grants/narrowed-token.ts';
import { createRefresher, type Refresher, refreshTimes } from '../../../src/gatehouse/grants/refresh.ts';
import type { Events } from '../../../src/shared/observability/events.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import type { ProviderClient } from '../../../src/shared/provider/provider-client.ts';
import type { RefreshOutcome, TokenRefresh } from '../../../src/shared/provider/token-refresh.ts';
import { generateEncryptionKey, parseEncryptionKeys } from '../../../src/shared/storage/key-ring.ts';
import { createLeases } from '../../../src/shared/storage/lease.ts';
import { createSealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { PLATFORM } from '../../support/apps.ts';
import { startStopwatch } from '../../support/stopwatch.ts';

const APP = { ...PLATFORM, name: 'Platform', scopes: ['read', 'write'] } as ConnectedApp;
const NOW = 1_800_000_000_000;

let directory: string;
let store: Store;
let grants: GrantStore;
let refresher: Refresher;
let narrowed: NarrowedTokens;
let now: number;
let asked: { refreshToken: string; scopes: readonly string[] | undefined }[];
let answer: (request: TokenRefresh) => Promise<RefreshOutcome>;
beforeEach(async () => {
  [now, asked] = [NOW, []];
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-narrow-'));
  store = await createSqliteStore({ directory, clock: () => now, random: Math.random });
  const parsed = parseEncryptionKeys(generateEncryptionKey(new Date()));
  if ('faults' in parsed) throw new Error(parsed.faults.join());
  const provider = {
    refresh(_app: ConnectedApp, request: TokenRefresh) {
      asked.push({ refreshToken: request.refreshToken, scopes: request.scopes });
      return answer(request);
    },
    revoke: async () => ({ outcome: 'revoked' }),
  } as unknown as ProviderClient;
  const nothing = () => undefined;
  const events = {
    refreshEnded: nothing,
    reconnectNeeded: nothing,
    connectionRecovered: nothing,
  } as unknown as Events;
  const clock = () => now;
  grants = createGrantStore({ store, sealedJson: createSealedJson(createSealer(parsed.keys)), clock });
  const shared = { grants, provider, revokeUnowned: provider.revoke, events, clock, random: () => 0.5 };
  const leases = createLeases({ store, milliseconds: 4_000 });
  refresher = createRefresher({ ...shared, leases, times: refreshTimes(300) });
  narrowed = createNarrowedTokens({ grants, refresher, clock });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

const tokens = (accessToken: string, refreshToken?: string, changes: object = {}): RefreshOutcome => {
  const rest = { idToken: undefined, scopes: undefined, expiresInSeconds: 60, claims: undefined };
  return { kind: 'tokens', response: { accessToken, refreshToken, ...rest, ...changes } } as RefreshOutcome;
};

async function stored(changes: Partial<Grant> = {}): Promise<void> {
  const fixed = { id: 'c1', userId: 'u1', appId: APP.id, registration: registrationOf(APP) };
  const own = { accessToken: 'at1', refreshToken: 'rt1' };
  const times = { obtainedAt: now - 60_000, expiresAt: now + 3_600_000, connectedAt: now - 60_000, consentedAt: NOW };
  const rest = { scopes: APP.scopes, account: {}, failure: undefined, refresh: undefined };
  const version = (await grants.loadStored('u1', APP.id))?.version ?? 0;
  expect(await grants.save({ ...fixed, ...own, ...times, ...rest, ...changes } as Grant, version)).toBeDefined();
}

async function read(): Promise<Grant> {
  const found = await grants.loadStored('u1', APP.id);
  if (!found || 'unreadable' in found) throw new Error('There is no grant.');
  return found.grant;
}

const token = (scopes: readonly string[] = ['read'], app = APP) => narrowed.accessToken('u1', app, { scopes });
const failed = (kind: 'reconnect_needed' | 'passing') =>
  ({ failure: { kind, cause: 'provider_unavailable', since: now, failures: 1, retryAt: now + 30_000 } }) as const;

describe('a narrower token', () => {
  test('is asked for by its scopes, and leaves the grant its own; a new refresh token is the grant’s', async () => {
    await stored();
    answer = async () => tokens('narrow', 'rt2');
    expect(await token()).toEqual({
      kind: 'narrowed',
      accessToken: 'narrow',
      scopes: ['read'],
      expiresAt: now + 60_000,
    });
    expect(asked).toEqual([{ refreshToken: 'rt1', scopes: ['read'] }]);
    expect(await read()).toMatchObject({ accessToken: 'at1', refreshToken: 'rt2', refresh: undefined });
    expect(await grants.listOpenRefreshes()).toEqual([]);
  });

  test('is given again while it lasts, to whoever asks for the same, and not once a refresh may have ended it', async () => {
    await stored();
    answer = async ({ scopes }) => tokens(`narrow ${asked.length} ${scopes?.join()}`);
    const first = await token(['read', 'write']);
    expect(await token(['write', 'read'])).toEqual(first);
    expect(asked).toHaveLength(1);
    expect(await token(['read'])).not.toEqual(first);
    now += 29_000;
    expect(await token(['read', 'write'])).toEqual(first);
    now += 2_000;
    expect(await token(['read', 'write'])).not.toEqual(first);
    expect(asked).toHaveLength(3);
    await stored({ refreshToken: 'rt9' });
    await token(['read', 'write']);
    expect(asked.map(({ refreshToken }) => refreshToken)).toEqual(['rt1', 'rt1', 'rt1', 'rt9']);
  });

  test('is given again while more than 30 seconds of its lifetime are left', async () => {
    await stored();
    answer = async () => tokens(`narrow ${asked.length}`);
    await token();
    now += 29_999;
    expect(await token()).toMatchObject({ accessToken: 'narrow 1' });
    now += 1;
    expect(await token()).toMatchObject({ accessToken: 'narrow 2' });
  });

  test('RFC 8707: for one resource has the scopes of the grant, and is no token for another', async () => {
    await stored();
    answer = async () => tokens(`narrow ${asked.length}`);
    const of = (resource: string) => narrowed.accessToken('u1', APP, { resource });
    expect(await of('urn:a')).toMatchObject({ kind: 'narrowed', accessToken: 'narrow 1', scopes: APP.scopes });
    expect(await of('urn:b')).toMatchObject({ accessToken: 'narrow 2' });
    expect(await of('urn:a')).toMatchObject({ accessToken: 'narrow 1' });
    answer = async () => ({ kind: 'doubtful', reason: 'invalid_target' });
    expect(await of('urn:c')).toEqual({ kind: 'unsupported' });
  });

  test('is not given again once the grant is broken', async () => {
    await stored();
    answer = async () => tokens('narrow');
    expect(await token()).toMatchObject({ kind: 'narrowed' });
    await stored(failed('reconnect_needed'));
    expect(await token()).toEqual({ kind: 'no_grant' });
    expect(asked).toHaveLength(1);
  });

  test('R31: callers at the same time share one call', async () => {
    await stored();
    answer = async () => tokens('narrow');
    const results = await Promise.all(Array.from({ length: 20 }, () => token()));
    expect(new Set(results.map((one) => JSON.stringify(one))).size).toBe(1);
    expect(asked).toHaveLength(1);
  });

  test.each<[string, Partial<Grant>]>([
    [
      'connected another account',
      { id: 'c2', accessToken: 'at9', refreshToken: 'rt9', account: { subject: 'mallory' } },
    ],
    ['consented anew', { accessToken: 'at9', consentedAt: NOW + 1 }],
  ])('R118 is not that of the connection before, where the user has %s meanwhile', async (_what, changes) => {
    await stored({ account: { subject: 'alice' } });
    answer = async () => {
      await stored({ account: { subject: 'alice' }, ...changes });
      return tokens('of the connection before', undefined);
    };
    expect(await token()).toMatchObject({ kind: 'unavailable' });
    answer = async () => tokens('narrow');
    expect(await token()).toMatchObject({ kind: 'narrowed', accessToken: 'narrow' });
  });

  test('R118 is not given again once the user has consented anew, also where the refresh token stays', async () => {
    await stored();
    answer = async () => tokens(`narrow ${asked.length}`);
    expect(await token()).toMatchObject({ accessToken: 'narrow 1' });
    await stored({ consentedAt: NOW + 1 });
    expect(await token()).toMatchObject({ accessToken: 'narrow 2' });
  });

  test('R101 is refused where its ID token is another subject’s, and the grant keeps its tokens', async () => {
    await stored({ account: { subject: 'alice' } });
    answer = async ({ saveRefreshToken }) => {
      await saveRefreshToken?.('rt-of-mallory');
      return tokens('of-mallory', 'rt-of-mallory', { claims: { sub: 'mallory' } });
    };
    expect(await token()).toMatchObject({ kind: 'unavailable' });
    expect(await read()).toMatchObject({ accessToken: 'at1', refreshToken: 'rt1', refresh: undefined });
    expect((await read()).failure).toMatchObject({ kind: 'passing', cause: 'unusable_response' });
  });

  test('that has more than was asked for is none; one of fewer is told as it is', async () => {
    await stored();
    answer = async () => tokens('wide', undefined, { scopes: ['read', 'write'] });
    expect(await token()).toEqual({ kind: 'unsupported' });
    answer = async () => tokens('narrower', undefined, { scopes: ['read'] });
    expect(await token(['read', 'write'])).toMatchObject({ kind: 'narrowed', scopes: ['read'] });
  });

  test('without a lifetime lasts as the app says, and else is asked for each time', async () => {
    await stored();
    answer = async () => tokens(`narrow ${asked.length}`, undefined, { expiresInSeconds: undefined });
    expect(await token(['read'], { ...APP, accessTokenLifetimeSeconds: 90 })).toMatchObject({
      expiresAt: now + 90_000,
    });
    expect(await token(['write'])).toMatchObject({ accessToken: 'narrow 2', expiresAt: undefined });
    expect(await token(['write'])).toMatchObject({ accessToken: 'narrow 3' });
  });
});

describe('there is none', () => {
  const AWAY = { kind: 'unavailable', isUnverified: false, retryAfterSeconds: 30 };

  test.each([
    ['no refresh token', () => ({ refreshToken: undefined }), { kind: 'unsupported' }],
    ['a grant that has ended', () => failed('reconnect_needed'), { kind: 'no_grant' }],
    ['a provider that is to be left alone', () => failed('passing'), AWAY],
  ] as const)('with %s, and nobody is asked', async (_what, changes, result) => {
    await stored(changes());
    expect(await token()).toEqual(result);
    expect(asked).toEqual([]);
  });

  test('while the connection is in doubt, which is said, and not for less than 5 seconds', async () => {
    await stored({ failure: { ...failed('passing').failure, tokenRefused: true, retryAt: now + 2_000 } });
    expect(await token()).toEqual({ kind: 'unavailable', isUnverified: true, retryAfterSeconds: 5 });
    await stored({ failure: { ...failed('passing').failure, retryAt: now + 5_001 } });
    expect(await token()).toEqual({ kind: 'unavailable', isUnverified: false, retryAfterSeconds: 6 });
  });

  test('without a grant', async () => {
    expect(await token()).toEqual({ kind: 'no_grant' });
  });

  test.each(['invalid_scope', 'invalid_request'])(
    'where the provider refuses with %s, and the grant is well',
    async (reason) => {
      await stored();
      answer = async () => ({ kind: 'doubtful', reason });
      expect(await token()).toEqual({ kind: 'unsupported' });
      expect(await read()).toMatchObject({ failure: undefined, refresh: undefined });
      expect(await grants.listOpenRefreshes()).toEqual([]);
    },
  );

  test('where the provider is away: for as long as the grant backs off, and then again', async () => {
    await stored();
    answer = async () =>
      ({ kind: 'unavailable', reason: 'timeout', sent: false, retryAfterSeconds: 7 }) as RefreshOutcome;
    expect(await token()).toEqual(AWAY);
    now += 60_000;
    answer = async () => tokens('narrow');
    expect(await token()).toMatchObject({ kind: 'narrowed' });
  });
});

describe('what somebody who died has left open', () => {
  test('the refresh token that had come is used first', async () => {
    await stored({ refresh: { startedAt: now - 60_000, received: 'rt2' } });
    answer = async ({ refreshToken, scopes }) => tokens(scopes ? 'narrow' : 'at3', `${refreshToken}+`);
    expect(await token()).toMatchObject({ kind: 'narrowed', accessToken: 'narrow' });
    expect(asked.at(-1)?.scopes).toEqual(['read']);
    expect(asked[0]?.refreshToken).toBe('rt2');
    expect((await read()).refresh).toBeUndefined();
  });

  test.each([true, false])('a refresh token that may be spent is tried once more (rotates: %s)', async (rotates) => {
    await stored({ refresh: { startedAt: now - 60_000, received: undefined }, rotates });
    answer = async () => tokens('narrow');
    expect(await token()).toMatchObject({ kind: 'narrowed' });
    expect(asked).toEqual([{ refreshToken: 'rt1', scopes: ['read'] }]);
    expect((await read()).refresh).toBeUndefined();
  });

  test('R39 a refresh token that was spent by the interrupted refresh ends the grant, with that cause', async () => {
    await stored({ refresh: { startedAt: now - 60_000, received: undefined }, rotates: true });
    answer = async () => ({ kind: 'refused' });
    expect(await token()).toEqual({ kind: 'no_grant' });
    expect((await read()).failure).toMatchObject({ kind: 'reconnect_needed', cause: 'response_lost' });
  });

  test('R39 a refusal of the scopes does not hide that the refresh token may be spent, and no later refresh waits', async () => {
    await stored({ refresh: { startedAt: now - 120_000, received: undefined }, rotates: true });
    answer = async () => ({ kind: 'doubtful', reason: 'invalid_scope' });
    const took = startStopwatch();
    for (let n = 0; n < 3; n += 1) expect(await token()).toEqual({ kind: 'unsupported' });
    expect(took()).toBeLessThan(1_000);
    answer = async () => ({ kind: 'refused' });
    expect(await token()).toEqual({ kind: 'no_grant' });
    expect((await read()).failure).toMatchObject({ kind: 'reconnect_needed', cause: 'response_lost' });
  });

  test('at a start every open refresh is settled, also where an app is gone and one of them fails', async () => {
    await stored({ refresh: { startedAt: now - 60_000, received: 'rt2' } });
    await grants.addOpenRefresh('u1', APP.id);
    await grants.addOpenRefresh('u1', 'gone');
    await grants.addOpenRefresh('u2', APP.id);
    answer = async () => tokens('at3', 'rt3');
    await refresher.refreshInterrupted((id) => (id === APP.id ? APP : undefined));
    expect(await grants.listOpenRefreshes()).toEqual([]);
    expect(await read()).toMatchObject({ refreshToken: 'rt3', refresh: undefined });
    expect(asked.map(({ refreshToken }) => refreshToken)).toEqual(['rt2']);
  });
});
