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
const EARLIER = NOW - 3_600_000;
const ALL_SCOPES = ['openid', 'mail', 'files', 'offline_access'];
const APP = { ...PLATFORM, scopes: ALL_SCOPES } as ConnectedApp;
const TEMPLATE = { ...APP, issuer: 'https://idp.test/{tenantid}' } as ConnectedApp;

const responseOf = (changes: Partial<TokenResponse> = {}) =>
  ({
    accessToken: 'at2',
    refreshToken: undefined,
    scopes: undefined,
    expiresInSeconds: 60,
    ...changes,
  }) as TokenResponse;
const earlierGrant = (changes: Partial<Grant> = {}): Grant => ({
  id: 'c1',
  userId: 'u1',
  appId: APP.id,
  registration: registrationOf(APP),
  accessToken: 'at1',
  refreshToken: 'rt1',
  scopes: ALL_SCOPES,
  requestedScopes: ALL_SCOPES,
  account: { subject: 's1' },
  obtainedAt: EARLIER,
  expiresAt: EARLIER + 9,
  connectedAt: EARLIER,
  consentedAt: EARLIER,
  failure: undefined,
  refresh: undefined,
  rotates: true,
  refreshedBy: 7,
  ...changes,
});
const failure = (kind: 'passing' | 'unverified' | 'reconnect_needed') =>
  ({ failure: { kind, cause: 'grant_refused', since: EARLIER, failures: 1, retryAt: EARLIER } }) as const;

const grantAfterConsent = (earlier?: Grant, changes: Partial<Consent> = {}) =>
  consentedGrant(
    { userId: 'u1', app: APP, response: responseOf(), scopes: ALL_SCOPES, account: { subject: 's1' }, ...changes },
    earlier,
    'c2',
    NOW,
  );

test('R118 a consent keeps the id of an earlier connection; without one, the connection gets a new id', () => {
  expect(grantAfterConsent(earlierGrant()).id).toBe('c1');
  expect(grantAfterConsent(earlierGrant(), { chosen: true }).id).toBe('c1');
  expect(grantAfterConsent().id).toBe('c2');

  const narrower = earlierGrant({ chosen: true, scopes: ['openid'] });
  expect(grantAfterConsent(narrower)).toEqual({ ...narrower, consentedAt: NOW });
});

describe('a consent', () => {
  test('grants the requested scopes if the response names none', () => {
    expect(grantAfterConsent(undefined, { response: responseOf({ refreshToken: 'rt2' }) })).toMatchObject({
      userId: 'u1',
      appId: 'platform',
      accessToken: 'at2',
      refreshToken: 'rt2',
      account: { subject: 's1' },
      scopes: ALL_SCOPES,
      requestedScopes: ALL_SCOPES,
      declinedScopes: [],
      chosen: false,
      obtainedAt: NOW,
      connectedAt: NOW,
      consentedAt: NOW,
      expiresAt: NOW + 60_000,
    });
  });

  test('has the lifetime that the app sets if the response states none', () => {
    const app = { ...APP, accessTokenLifetimeSeconds: 30 } as ConnectedApp;
    expect(grantAfterConsent(undefined, { app, response: responseOf({ expiresInSeconds: undefined }) }).expiresAt).toBe(
      NOW + 30_000,
    );
  });

  test('to fewer scopes stores the declined ones', () => {
    const chosen = grantAfterConsent(undefined, { scopes: ['openid', 'mail'], chosen: true });
    expect(chosen).toMatchObject({
      chosen: true,
      requestedScopes: ['openid', 'mail'],
      declinedScopes: ['files', 'offline_access'],
    });
  });

  test('renews an earlier connection, and drops its failure and its journal entry', () => {
    const earlier = earlierGrant({ ...failure('unverified'), refresh: { startedAt: EARLIER, received: undefined } });
    const {
      failure: failureAfter,
      refresh,
      rotates,
      refreshedBy,
      connectedAt,
      refreshToken,
    } = grantAfterConsent(earlier);
    for (const dropped of [failureAfter, refresh, rotates, refreshedBy]) expect(dropped).toBeUndefined();
    expect(connectedAt).toBe(EARLIER);
    expect(refreshToken).toBe('rt1');
  });

  test.each<[string, string | undefined, Partial<Grant>, Partial<Consent>]>([
    ['for the same scopes', 'rt1', {}, {}],
    ['that an interrupted refresh has replaced', 'rt2', { refresh: { startedAt: EARLIER, received: 'rt2' } }, {}],
    ['that was refused', undefined, failure('reconnect_needed'), {}],
    ['that may have been refused', 'rt1', failure('unverified'), {}],
    ['for more scopes than are granted now', undefined, {}, { response: responseOf({ scopes: ['openid', 'mail'] }) }],
    ['for a choice that no longer has offline_access', undefined, {}, { scopes: ['openid', 'mail', 'files'] }],
  ])('with an earlier refresh token %s stores %s', (_description, expectedToken, changes, consent) => {
    expect(grantAfterConsent(earlierGrant(changes), consent).refreshToken).toBe(expectedToken);
  });

  test('prefers the refresh token of its response', () => {
    expect(grantAfterConsent(earlierGrant(), { response: responseOf({ refreshToken: 'rt2' }) }).refreshToken).toBe(
      'rt2',
    );
  });

  describe('of a user whose connection has fewer scopes by choice', () => {
    const grantOfChoice = (changes: Partial<Grant> = {}) =>
      earlierGrant({
        chosen: true,
        scopes: ['openid', 'mail'],
        requestedScopes: ['openid', 'mail'],
        declinedScopes: ['files'],
        announcedScopes: ['new'],
        ...changes,
      });

    test('adds no scopes by a sign-in, which requests all', () => {
      expect(grantAfterConsent(grantOfChoice())).toEqual({ ...grantOfChoice(), consentedAt: NOW });
    });

    test.each<[string, Partial<Grant>, Partial<Consent>]>([
      ['chooses again', {}, { chosen: true }],
      ['has no refresh token', { refreshToken: undefined }, {}],
      ['has a connection that may have ended', failure('unverified'), {}],
      ['was granted fewer scopes without choosing them', { chosen: false }, {}],
    ])('adds scopes if the user %s', (_description, changes, consent) => {
      expect(grantAfterConsent(grantOfChoice(changes), consent).scopes).toEqual(ALL_SCOPES);
    });

    test('stores the tokens of a sign-in that grants no more scopes, and keeps the choice', () => {
      const { accessToken, ...otherFields } = grantAfterConsent(grantOfChoice(), {
        response: responseOf({ scopes: ['openid', 'mail'] }),
      });
      expect(accessToken).toBe('at2');
      expect(otherFields).toMatchObject({
        chosen: true,
        requestedScopes: ['openid', 'mail'],
        declinedScopes: ['files'],
        announcedScopes: ['new'],
      });
    });

    test('replaces the declined scopes and drops the announced ones by another choice', () => {
      const newChoice = grantAfterConsent(grantOfChoice(), {
        chosen: true,
        scopes: ['openid', 'files'],
        response: responseOf({ scopes: ['openid'] }),
      });
      expect(newChoice).toMatchObject({ chosen: true, declinedScopes: ['mail', 'offline_access'] });
      expect(newChoice.announcedScopes).toBeUndefined();
    });
  });
});

describe('whether a new consent is required', () => {
  const needsConsentFor = (changes: Partial<Grant> | undefined, scopes: string[], isConnecting = false) =>
    needsConsent(changes && earlierGrant(changes), scopes, isConnecting);

  test.each<[string, boolean, Partial<Grant> | undefined, string[], boolean?]>([
    ['nothing is connected and no refresh token is requested', false, undefined, ['openid']],
    ['nothing is connected and a refresh token is requested', true, undefined, ALL_SCOPES],
    ['the refresh token can be kept', false, {}, ALL_SCOPES],
    ['there is no refresh token', true, { refreshToken: undefined }, ALL_SCOPES],
    ['the refresh token was refused', true, failure('reconnect_needed'), ALL_SCOPES],
    ['the connection is unverified', false, failure('unverified'), ALL_SCOPES],
    ['a scope is dropped', true, {}, ['openid', 'offline_access']],
    ['a user connects with the same scopes', false, {}, ALL_SCOPES, true],
    [
      'a user connects with one more scope',
      true,
      { scopes: ['openid', 'mail', 'files'] },
      [...ALL_SCOPES, 'new'],
      true,
    ],
    ['a user signs in, and the app has one more scope', false, {}, [...ALL_SCOPES, 'new']],
    [
      'a user connects, and the earlier account is not known',
      true,
      { account: { email: 'a@b.test' } },
      ALL_SCOPES,
      true,
    ],
    [
      'a user connects with a known account of an app without ID tokens',
      false,
      { account: { accountId: '7' } },
      ALL_SCOPES,
      true,
    ],
    [
      'a refresh token was issued without offline_access',
      false,
      { requestedScopes: ['mail'], scopes: ['mail'] },
      ['mail'],
      true,
    ],
    [
      'a refresh token was issued without offline_access, and a scope is added',
      true,
      { requestedScopes: ['mail'], scopes: ['mail'] },
      ['mail', 'files'],
      true,
    ],
    [
      'a refresh token was issued without offline_access, and the user signs in',
      false,
      { requestedScopes: ['mail'], scopes: ['mail'] },
      ['mail', 'files'],
    ],
  ])('if %s: %s', (_description, isRequired, changes, scopes, isConnecting) => {
    expect(needsConsentFor(changes, scopes, isConnecting)).toBe(isRequired);
  });
});

describe('the account of a grant', () => {
  const compare = (earlier: Grant['account'], account: Grant['account'], app = APP) => {
    const grant = earlierGrant({ account: earlier });
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
  ])('%j and %j are the same: %s, are different: %s', (earlier, account, isSame, isOther) => {
    expect(compare(earlier, account)).toEqual([isSame, isOther]);
  });

  test('of an issuer template belongs to one tenant', () => {
    const accountAt = (tenant: string) => ({ subject: 's1', issuer: `https://idp.test/${tenant}` });
    expect(compare(accountAt('ink'), accountAt('ink'), TEMPLATE)).toEqual([true, false]);
    expect(compare(accountAt('ink'), accountAt('book'), TEMPLATE)).toEqual([false, true]);
    expect(compare(accountAt('ink'), accountAt('book'))).toEqual([true, false]);
  });

  test.each<[string, Partial<Grant>, object | undefined, Grant['account']]>([
    [
      'is that of the ID token, if an import named none',
      { accessToken: '', account: { email: 'e' } },
      { sub: 's9' },
      { email: 'e', issuer: 'https://idp.test', subject: 's9' },
    ],
    ['stays without an ID token', { accessToken: '', account: {} }, undefined, {}],
    ['stays if it is known', { accessToken: '', account: { subject: 's1' } }, { sub: 's9' }, { subject: 's1' }],
    ['stays once the grant was refreshed', { account: {} }, { sub: 's9' }, {}],
  ])('%s', (_description, changes, claims, account) => {
    expect(accountAfter(APP, earlierGrant(changes), responseOf({ claims: claims as never }))).toEqual(account);
  });
});
