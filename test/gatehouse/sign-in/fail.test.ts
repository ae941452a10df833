/** The errors of a sign-in: the failure, the next action on the page, and the detail in the log. */
import { describe, expect, test } from 'vitest';
import { createFail, providerFailure } from '../../../src/gatehouse/sign-in/fail.ts';
import { SIGN_IN_FAILURES, type SignInFailure } from '../../../src/gatehouse/sign-in-record/failures.ts';
import { AppError } from '../../../src/shared/errors.ts';
import { OutboundError } from '../../../src/shared/outbound/outbound.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import {
  ProviderError,
  type ProviderErrorFacts,
  type ProviderFailure,
} from '../../../src/shared/provider/provider-error.ts';

const HREF = 'https://gatehouse.test/base';
const APP = { id: 'platform', issuer: 'https://provider.test:8443/tenant' } as ConnectedApp;
const LINK_PATH = '/base/connect/gthl_8KqVabcdefg';

const fail = createFail({ apps: { find: (id) => (id === APP.id ? APP : undefined) }, publicHref: HREF });
const providerError = (failure: ProviderFailure, reason: string, facts: ProviderErrorFacts = {}) =>
  new ProviderError(failure, reason, facts);
const OFFLINE = new OutboundError('connection', 'provider.test:443 refused the connection', 'Check the port.');

interface Action {
  label: string;
  url: string;
  alternative?: Action;
}

describe('the next action on the page', () => {
  const startPage = { label: 'Go to the start page', url: `${HREF}/` };
  const anotherAccountAt = (url: string) => ({ label: 'Use another account', url: `${url}prompt=select_account` });
  const anotherAccount = anotherAccountAt(`${HREF}/sign-in?app=platform&`);
  const again = (url: string, alternative: Action) => ({ label: 'Try again', url, alternative });
  const signInAgain = again(`${HREF}/sign-in?app=platform`, anotherAccount);
  const stepUpAgain = again(`${HREF}/sign-in?app=platform&step_up=1`, anotherAccount);
  const connectUrl = `${HREF}/connections/platform`;
  const connectAgain = again(connectUrl, anotherAccountAt(`${connectUrl}?`));
  const linkUrl = `https://gatehouse.test${LINK_PATH}`;
  const anotherAccountOfLink = anotherAccountAt(`${linkUrl}?`);
  const openLink = { label: 'Open the link again', url: linkUrl, alternative: anotherAccountOfLink };
  const signOut = { label: 'Sign out', url: `${HREF}/sign-out`, isForm: true };

  /** The same action with the return path that the requests below name. */
  const withReturnPath = ({ label, url, alternative }: Action): Action => ({
    label,
    url: `${url}${url.includes('?') ? '&' : '?'}return_to=%2Fboard%3Fa%3D1%23b`,
    ...(alternative && { alternative: withReturnPath(alternative) }),
  });

  type Context = Parameters<typeof fail>[1];
  const ofApp: Context = { appId: 'platform' };
  const ofConnection: Context = { ...ofApp, purpose: 'connect' };
  const ofLink: Context = { ...ofConnection, linkPath: LINK_PATH };

  test.each<[SignInFailure, Context, object]>([
    ['state_missing', undefined, startPage],
    ['state_expired', { appId: 'deleted' }, startPage],
    ['code_refused', ofApp, signInAgain],
    ['code_refused', { ...ofApp, purpose: 'sign_in' }, signInAgain],
    ['step_up_refused', ofApp, stepUpAgain],
    ['auth_time_missing', ofApp, stepUpAgain],
    ['not_permitted', ofApp, anotherAccount],
    ['other_user_signed_in', { ...ofApp, signOutFirst: true }, { ...signOut, alternative: anotherAccount }],
    ['other_user_signed_in', { appId: 'deleted', signOutFirst: true }, signOut],
    ['other_user', { ...ofConnection, signOutFirst: true }, signOut],
    ['code_refused', ofConnection, connectAgain],
    ['not_permitted', ofConnection, connectAgain],
    ['link_ended', ofConnection, startPage],
    ['access_denied', ofLink, openLink],
    ['not_permitted', ofLink, openLink],
    ['link_other_account', ofLink, anotherAccountOfLink],
    ['link_ended', ofLink, startPage],
    ['code_refused', { ...ofLink, appId: 'deleted' }, startPage],
    ['code_refused', { ...ofApp, returnTo: '/board?a=1#b' }, withReturnPath(signInAgain)],
    ['step_up_refused', { ...ofApp, returnTo: '/board?a=1#b' }, withReturnPath(stepUpAgain)],
    ['not_permitted', { ...ofApp, returnTo: '/board?a=1#b' }, withReturnPath(anotherAccount)],
    [
      'access_denied',
      { ...ofApp, returnTo: '/board?a=1#b' },
      withReturnPath(again(signInAgain.url, anotherAccountAt(`${HREF}/sign-in?`))),
    ],
    [
      'other_user_signed_in',
      { ...ofApp, signOutFirst: true, returnTo: '/board?a=1#b' },
      { ...signOut, alternative: withReturnPath(anotherAccount) },
    ],
    ['access_denied', { ...ofConnection, returnTo: '/board?a=1#b' }, withReturnPath(connectAgain)],
    ['access_denied', { ...ofLink, returnTo: '/board?a=1#b' }, openLink],
    // A return path is left out if it is the default one.
    ['code_refused', { ...ofApp, returnTo: '/base/' }, signInAgain],
    ['code_refused', { ...ofConnection, returnTo: '/base/connections/platform' }, connectAgain],
  ])('of %s with %j', (failure, context, action) => {
    expect(fail(failure, context).action).toEqual(action);
  });
});

test('an error has the code and the words of its failure, and the facts for the record', () => {
  const facts = { disabled: true };
  const { code, detail, helper } = SIGN_IN_FAILURES.not_permitted;
  const error = fail('not_permitted', { appId: 'platform', facts });
  expect(error).toMatchObject({ name: 'SignInError', failure: 'not_permitted', code, detail, helper, facts });
  expect(fail('access_denied').words).toEqual(SIGN_IN_FAILURES.access_denied.page);
  expect(fail('state_expired').facts).toEqual({});
});

test('no failure of a sign-in has a code that blames the platform', () => {
  const codes = Object.values(SIGN_IN_FAILURES).map(({ code }) => code);
  expect(codes.filter((code) => code.startsWith('platform_'))).toEqual([]);
  expect(SIGN_IN_FAILURES.token_response_refused.code).toBe('provider_error');
});

test('only a page with the sign-out form has a referrer policy, which sends the origin', () => {
  const appId = 'platform';
  expect(fail('other_user', { appId, signOutFirst: true }).headers).toEqual({ 'Referrer-Policy': 'strict-origin' });
  expect(fail('other_user', { appId, signOutFirst: false }).headers).toEqual({});
});

describe('the failure of an error of the provider client', () => {
  const refusedToken = (claim: string, claims: object = {}) => ({ cause: { claim, claims } });

  test.each<[SignInFailure, unknown]>([
    ['token_response_refused', new Error('a bug')],
    ['provider_unavailable', providerError('unavailable', 'account_unreadable')],
    ['misconfigured', providerError('misconfigured', 'client_refused')],
    ['access_denied', providerError('refused', 'authorization_refused', { oauthError: 'access_denied' })],
    ['access_denied', providerError('refused', 'authorization_refused', { oauthError: 'consent_required' })],
    ['provider_refused', providerError('refused', 'authorization_refused', { oauthError: 'invalid_scope' })],
    ['provider_refused', providerError('refused', 'authorization_refused')],
    ['authorization_response_refused', providerError('invalid', 'authorization_response_invalid')],
    ['not_permitted', providerError('invalid', 'token_response_invalid', refusedToken('tid'))],
    ['token_response_refused', providerError('invalid', 'token_response_invalid', refusedToken('iss'))],
    ['account_unreadable', providerError('invalid', 'account_unreadable')],
    ['account_unreadable', providerError('refused', 'account_url_missing')],
    ['code_refused', providerError('refused', 'token_refused')],
    ['token_response_refused', providerError('invalid', 'token_response_invalid')],
  ])('is %s for %s', (failure, cause) => {
    expect(providerFailure(cause)).toBe(failure);
  });
});

describe('the log', () => {
  const logDetailOf = (cause?: unknown) => fail('token_response_refused', { appId: 'platform', cause }).logDetail;

  test.each([
    ['only the failure', undefined, ''],
    ['only the failure for an unexpected error', new Error('texts of libraries'), ''],
    [
      'the detail of an error of Gatehouse',
      new AppError('storage_unavailable', { logDetail: 'disk full' }),
      ': disk full',
    ],
    [
      'status, code and endpoint of a refusal',
      providerError('refused', 'token_refused', { status: 400, oauthError: 'invalid_grant', endpoint: 'token' }),
      ': token_refused 400 invalid_grant token',
    ],
    [
      'the member of a token response, and its host',
      providerError('invalid', 'api_base_url_refused', { member: 'api_url', host: 'evil.test' }),
      ': api_base_url_refused api_url evil.test',
    ],
    [
      'why a call failed',
      providerError('unavailable', 'connection', { cause: OFFLINE }),
      ': connection (provider.test:443 refused the connection)',
    ],
    [
      'the check that an ID token failed',
      providerError('invalid', 'token_response_invalid', { cause: { claim: 'nonce' } }),
      ': token_response_invalid (nonce)',
    ],
    [
      'how far the clocks are apart',
      providerError('invalid', 'token_response_invalid', {
        cause: { claim: 'exp', claims: { exp: 200, iat: 100 }, now: 7_300 },
      }),
      ': token_response_invalid (times, this clock 7200 s ahead)',
    ],
    [
      'a claim that is missing',
      providerError('invalid', 'token_response_invalid', {
        cause: { claims: { iss: 'a', aud: 'b', sub: 'c', exp: 1, iat: 1 } },
      }),
      ': token_response_invalid (nonce: “nonce” is missing)',
    ],
    [
      'no check if the form was wrong',
      providerError('invalid', 'token_response_invalid', { cause: new Error('no JSON') }),
      ': token_response_invalid',
    ],
    [
      'no check of anything but the token response',
      providerError('invalid', 'userinfo_invalid', { cause: { claim: 'nonce' } }),
      ': userinfo_invalid',
    ],
  ])('names %s', (_part, cause, detail) => {
    expect(logDetailOf(cause)).toBe(`token_response_refused${detail}`);
  });

  test('names the app and the called host if the provider client caused the error', () => {
    const cause = providerError('unavailable', 'timeout');
    const callOf = (context: Parameters<typeof fail>[1]) => fail('provider_unavailable', context).call;

    expect(callOf({ appId: 'platform', cause })).toEqual({ app: 'platform', host: 'provider.test:8443' });
    expect(callOf({ appId: 'deleted', cause })).toBeUndefined();
    expect(callOf({ cause })).toBeUndefined();
    expect(callOf({ appId: 'platform', cause: new Error('a bug') })).toBeUndefined();
  });
});

test('an error passes on Retry-After from the provider or the storage', () => {
  const retryAfterOf = (cause?: unknown) => fail('provider_unavailable', { cause }).retryAfterSeconds;
  expect(retryAfterOf(providerError('unavailable', 'http_status', { retryAfterSeconds: 30 }))).toBe(30);
  expect(retryAfterOf(new AppError('storage_unavailable', { retryAfterSeconds: 5 }))).toBe(5);
  expect([retryAfterOf(new Error('a bug')), retryAfterOf()]).toEqual([undefined, undefined]);
});
