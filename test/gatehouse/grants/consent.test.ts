/**
 * The grant that a consent creates: what it keeps of an earlier grant, its account, and when a new consent is required.
 */
import { describe, expect, test } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import {
  accountAfter,
  type Consent,
  consentedGrant,
  isOtherAccount,
  needsConsent,
  sameAccount,
} from '../../../src/gatehouse/grants/consent.ts';
import type { Grant } from '../../../src/gatehouse/grants/grant.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import type { TokenResponse } from '../../../src/shared/provider/token-response.ts';
import { PLATFORM } from '../../support/apps.ts';

const NOW = 1_800_000_000_000;
const BEFORE = NOW - 3_600_000;
const ALL = ['openid', 'mail', 'files', 'offline_access'];
const APP = { ...PLATFORM, scopes: ALL } as ConnectedApp;
const TEMPLATE = { ...APP, issuer: 'https://idp.test/{tenantid}' } as ConnectedApp;

const responseOf = (changes: Partial<TokenResponse> = {}) =>
  ({
    accessToken: 'at2',
    refreshToken: undefined,
    scopes: undefined,
    expiresInSeconds: 60,
    ...changes,
  }) as TokenResponse;
const earlierOf = (changes: Partial<Grant> = {}): Grant => ({
  ...{ id: 'c1', userId: 'u1', appId: APP.id, registration: registrationOf(APP) },
  ...{ accessToken: 'at1', refreshToken: 'rt1', scopes: ALL, requestedScopes: ALL },
  ...{
    account: { subject: 's1' },
    obtainedAt: BEFORE,
    expiresAt: BEFORE + 9,
    connectedAt: BEFORE,
    consentedAt: BEFORE,
  },
  ...{ failure: undefined, refresh: undefined, rotates: true, refreshedBy: 7 },
  ...changes,
});
const failure = (kind: 'passing' | 'unverified' | 'reconnect_needed') =>
  ({ failure: { kind, cause: 'grant_refused', since: BEFORE, failures: 1, retryAt: BEFORE } }) as const;

const consented = (earlier?: Grant, changes: Partial<Consent> = {}) =>
  consentedGrant(
    { userId: 'u1', app: APP, response: responseOf(), scopes: ALL, account: { subject: 's1' }, ...changes },
    earlier,
    'c2',
    NOW,
  );

test('R118 a consent for an earlier grant keeps the id of its connection; without one, the connection gets a new id', () => {
  expect([consented(earlierOf()).id, consented(earlierOf(), { chosen: true }).id, consented().id]).toEqual([
    'c1',
    'c1',
    'c2',
  ]);
  const narrower = earlierOf({ chosen: true, scopes: ['openid'] });
  expect(consented(narrower)).toEqual({ ...narrower, consentedAt: NOW });
});

describe('a consent', () => {
  test('grants the requested scopes if the response names none', () => {
    expect(consented(undefined, { response: responseOf({ refreshToken: 'rt2' }) })).toMatchObject({
      ...{ userId: 'u1', appId: 'platform', accessToken: 'at2', refreshToken: 'rt2', account: { subject: 's1' } },
      ...{ scopes: ALL, requestedScopes: ALL, declinedScopes: [], chosen: false },
      ...{ obtainedAt: NOW, connectedAt: NOW, consentedAt: NOW, expiresAt: NOW + 60_000 },
    });
  });

  test('has the lifetime that the app sets if the response states none', () => {
    const app = { ...APP, accessTokenLifetimeSeconds: 30 } as ConnectedApp;
    expect(consented(undefined, { app, response: responseOf({ expiresInSeconds: undefined }) }).expiresAt).toBe(
      NOW + 30_000,
    );
  });

  test('to fewer scopes stores the declined ones', () => {
    const chosen = consented(undefined, { scopes: ['openid', 'mail'], chosen: true });
    expect(chosen).toMatchObject({
      chosen: true,
      requestedScopes: ['openid', 'mail'],
      declinedScopes: ['files', 'offline_access'],
    });
  });

  test('renews an earlier connection, and drops its failure and its journal entry', () => {
    const earlier = earlierOf({ ...failure('unverified'), refresh: { startedAt: BEFORE, received: undefined } });
    const { failure: left, refresh, rotates, refreshedBy, connectedAt, refreshToken } = consented(earlier);
    expect([left, refresh, rotates, refreshedBy]).toEqual([undefined, undefined, undefined, undefined]);
    expect([connectedAt, refreshToken]).toEqual([BEFORE, 'rt1']);
  });

  test.each<[string, string | undefined, Partial<Grant>, Partial<Consent>]>([
    ['for the same scopes', 'rt1', {}, {}],
    ['that an interrupted refresh has replaced', 'rt2', { refresh: { startedAt: BEFORE, received: 'rt2' } }, {}],
    ['that was refused', undefined, failure('reconnect_needed'), {}],
    ['that was perhaps refused', 'rt1', failure('unverified'), {}],
    ['for more than was granted now', undefined, {}, { response: responseOf({ scopes: ['openid', 'mail'] }) }],
    ['which was for staying connected, where that was dropped', undefined, {}, { scopes: ['openid', 'mail', 'files'] }],
  ])('keeps the refresh token %s: %s', (_words, kept, changes, consent) => {
    expect(consented(earlierOf(changes), consent).refreshToken).toBe(kept);
  });

  test('prefers the refresh token of its response', () => {
    expect(consented(earlierOf(), { response: responseOf({ refreshToken: 'rt2' }) }).refreshToken).toBe('rt2');
  });

  describe('of a user who chose fewer scopes before', () => {
    const chosen = (changes: Partial<Grant> = {}) =>
      earlierOf({
        chosen: true,
        scopes: ['openid', 'mail'],
        requestedScopes: ['openid', 'mail'],
        declinedScopes: ['files'],
        announcedScopes: ['new'],
        ...changes,
      });

    test('by a sign-in, which requests all scopes, adds none', () => {
      expect(consented(chosen())).toEqual({ ...chosen(), consentedAt: NOW });
    });

    test.each<[string, Partial<Grant>, Partial<Consent>]>([
      ['chooses again', {}, { chosen: true }],
      ['has no refresh token', { refreshToken: undefined }, {}],
      ['has a connection that may have ended', failure('unverified'), {}],
      ['did not choose', { chosen: false }, {}],
    ])('adds scopes if the user %s', (_words, changes, consent) => {
      expect(consented(chosen(changes), consent).scopes).toEqual(ALL);
    });

    test('by a sign-in that grants no more scopes stores the new tokens, and keeps the choice', () => {
      const { accessToken, ...rest } = consented(chosen(), { response: responseOf({ scopes: ['openid', 'mail'] }) });
      expect(accessToken).toBe('at2');
      expect(rest).toMatchObject({
        chosen: true,
        requestedScopes: ['openid', 'mail'],
        declinedScopes: ['files'],
        announcedScopes: ['new'],
      });
    });

    test('by another choice drops the declined and announced scopes', () => {
      const again = consented(chosen(), {
        chosen: true,
        scopes: ['openid', 'files'],
        response: responseOf({ scopes: ['openid'] }),
      });
      expect(again).toMatchObject({ chosen: true, declinedScopes: ['mail', 'offline_access'] });
      expect(again.announcedScopes).toBeUndefined();
    });
  });
});

describe('whether a new consent is required', () => {
  const needs = (changes: Partial<Grant> | undefined, scopes: string[], isConnecting = false) =>
    needsConsent(changes && earlierOf(changes), scopes, isConnecting);

  test.each<[string, boolean, Partial<Grant> | undefined, string[], boolean?]>([
    ['nothing is connected and no refresh token is wanted', false, undefined, ['openid']],
    ['nothing is connected and one is wanted', true, undefined, ALL],
    ['the refresh token can be kept', false, {}, ALL],
    ['there is none', true, { refreshToken: undefined }, ALL],
    ['it was refused', true, failure('reconnect_needed'), ALL],
    ['the connection is unverified', false, failure('unverified'), ALL],
    ['a scope is dropped', true, {}, ['openid', 'offline_access']],
    ['a user connects with the same scopes', false, {}, ALL, true],
    ['a user connects with one more', true, { scopes: ['openid', 'mail', 'files'] }, [...ALL, 'new'], true],
    ['a user signs in, and the app has one more', false, {}, [...ALL, 'new']],
    ['a user connects, and it is not known with which account', true, { account: { email: 'a@b.test' } }, ALL, true],
    [
      'a user connects with a known account of an app without ID tokens',
      false,
      { account: { accountId: '7' } },
      ALL,
      true,
    ],
    [
      'a refresh token was issued without offline_access',
      false,
      { requestedScopes: ['mail'], scopes: ['mail'] },
      ['mail'],
      true,
    ],
    ['the same, and a scope is added', true, { requestedScopes: ['mail'], scopes: ['mail'] }, ['mail', 'files'], true],
    ['the same, and the user signs in', false, { requestedScopes: ['mail'], scopes: ['mail'] }, ['mail', 'files']],
  ])('if %s: %s', (_words, asks, changes, scopes, isConnecting) => {
    expect(needs(changes, scopes, isConnecting)).toBe(asks);
  });
});

describe('the account of a grant', () => {
  const compare = (earlier: Grant['account'], account: Grant['account'], app = APP) => {
    const grant = earlierOf({ account: earlier });
    return [sameAccount(app, grant, account), isOtherAccount(app, grant, account)];
  };

  test.each<[Grant['account'], Grant['account'], boolean, boolean]>([
    [{ subject: 's1' }, { subject: 's1' }, true, false],
    [{ subject: 's1' }, { subject: 's2' }, false, true],
    [{ accountId: '7' }, { accountId: '7' }, true, false],
    [{ accountId: '7' }, { accountId: '8' }, false, true],
    [{ subject: '7' }, { accountId: '7' }, false, false],
    [{}, {}, false, false],
    [{}, { subject: 's1' }, false, false],
    [{ email: 'a@b.test' }, { email: 'a@b.test' }, false, false],
  ])('%j and %j: the same %s, another %s', (earlier, account, same, other) => {
    expect(compare(earlier, account)).toEqual([same, other]);
  });

  test('of an issuer template belongs to one tenant', () => {
    const at = (tenant: string) => ({ subject: 's1', issuer: `https://idp.test/${tenant}` });
    expect(compare(at('ink'), at('ink'), TEMPLATE)).toEqual([true, false]);
    expect(compare(at('ink'), at('book'), TEMPLATE)).toEqual([false, true]);
    expect(compare(at('ink'), at('book'))).toEqual([true, false]);
  });

  test.each<[string, Partial<Grant>, object | undefined, Grant['account']]>([
    [
      'is that of the ID token, if an import named none',
      { accessToken: '', account: { email: 'e' } },
      { sub: 's9' },
      { email: 'e', issuer: 'https://idp.test', subject: 's9' },
    ],
    ['stays without an ID token', { accessToken: '', account: {} }, undefined, {}],
    ['stays where it is known', { accessToken: '', account: { subject: 's1' } }, { sub: 's9' }, { subject: 's1' }],
    ['stays once the grant was refreshed', { account: {} }, { sub: 's9' }, {}],
  ])('%s', (_words, changes, claims, account) => {
    expect(accountAfter(APP, earlierOf(changes), responseOf({ claims: claims as never }))).toEqual(account);
  });
});
