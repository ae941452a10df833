/** The cause of a failed sign-in, in words for administrators: by failure, and by facts for a more specific one. */
import { describe, expect, test } from 'vitest';
import type { SignInRecord } from '../../../src/gatehouse/sign-in-record/attempt.ts';
import { causeOf, type SignInCause } from '../../../src/gatehouse/sign-in-record/cause.ts';
import {
  SIGN_IN_FAILURES,
  type SignInFacts,
  type SignInFailure,
} from '../../../src/gatehouse/sign-in-record/failures.ts';

const NOW = 1_800_000_000_000;
const MINUTE = 60_000;

const recordWith = (changes: Partial<SignInRecord>): SignInRecord => ({
  id: 'r1',
  app: 'platform',
  purpose: 'sign_in',
  startedAt: NOW,
  steps: [],
  references: ['R1'],
  facts: {},
  ...changes,
});

/** The cause of an attempt with this failure and these facts. */
const causeWith = (failure: SignInRecord['failure'], facts: SignInFacts = {}, changes: Partial<SignInRecord> = {}) =>
  causeOf(recordWith({ failure, facts, ...changes }), NOW) as SignInCause;

const FACTS: [SignInFailure | 'internal', SignInFacts, SignInCause['code'], SignInCause['field']][] = [
  ['cookie_missing', {}, 'cookie_missing', undefined],
  ['cookie_missing', { otherBrowser: true }, 'other_browser', undefined],
  ['misconfigured', { reason: 'client_refused' }, 'wrong_client_secret', 'clientSecret'],
  ['misconfigured', { reason: 'flow_refused' }, 'misconfigured', 'clientId'],
  ['misconfigured', { reason: 'par_endpoint_missing' }, 'misconfigured', 'par'],
  ['misconfigured', { reason: 'push_refused' }, 'misconfigured', 'callbackUrls'],
  ['misconfigured', { reason: 'metadata_invalid' }, 'misconfigured', 'issuer'],
  ['token_response_refused', { member: 'token_type' }, 'token_response_malformed', 'tokenPath'],
  [
    'token_response_refused',
    { reason: 'token_response_invalid', status: 302 },
    'wrong_token_endpoint',
    'tokenEndpoint',
  ],
  ['token_response_refused', { reason: 'token_not_bound' }, 'token_response_refused', 'dpop'],
  [
    'token_response_refused',
    { reason: 'api_base_url_refused', member: 'api_url', host: 'evil.test' },
    'api_host_refused',
    'apiBaseUrlFrom',
  ],
  ['token_response_refused', { check: 'times', secondsAhead: 40 }, 'clock_skew', undefined],
  ['token_response_refused', { check: 'issuer' }, 'wrong_issuer', 'issuer'],
  ['token_response_refused', { check: 'audience' }, 'wrong_client_id', 'clientId'],
  ['token_response_refused', { check: 'signature' }, 'bad_signature', 'issuer'],
  ['token_response_refused', { check: 'nonce' }, 'token_response_refused', 'issuer'],
  ['token_response_refused', { check: 'nonce', missing: 'nonce' }, 'claim_faulty', undefined],
  ['token_response_refused', { check: 'times', malformed: 'exp', secondsAhead: 9 }, 'claim_faulty', undefined],
  ['token_response_refused', { check: 'form', missing: 'id_token' }, 'id_token_missing', 'scopes'],
  ['token_response_refused', { member: 'token_type', value: '“mac”' }, 'token_type_unknown', undefined],
  ['token_response_refused', { member: 'token_type', value: '“DPoP”' }, 'token_bound_unasked', 'dpop'],
  ['demand_not_met', { unmet: 'acr' }, 'demand_not_met', undefined],
  ['demand_not_met', { unmet: 'auth_time' }, 'demand_not_met', undefined],
  ['demand_not_met', { unmet: 'auth_time_missing' }, 'demand_not_met', undefined],
  ['provider_unavailable', { status: 503 }, 'provider_unavailable', 'issuer'],
  ['code_refused', { oauthError: 'invalid_grant' }, 'code_not_accepted', 'callbackUrls'],
  ['code_refused', { oauthError: 'bad_verification_code' }, 'code_not_accepted', 'callbackUrls'],
  ['code_refused', { status: 405 }, 'wrong_token_endpoint', 'tokenEndpoint'],
  ['code_refused', { oauthError: 'invalid_request' }, 'token_request_refused', 'tokenParameters'],
  ['authorization_response_refused', {}, 'wrong_issuer', 'issuer'],
  ['provider_refused', { oauthError: 'invalid_scope' }, 'scope_refused', 'scopes'],
  ['provider_refused', { oauthError: 'server_error' }, 'provider_refused', 'clientId'],
  ['error_without_state', {}, 'error_without_state', 'clientId'],
  ['error_without_state', { oauthError: 'invalid_scope' }, 'error_without_state', 'scopes'],
  ['form_post', {}, 'form_post', 'clientId'],
  ['unusable_app', {}, 'unusable_app', 'callbackUrls'],
  ['not_permitted', {}, 'not_permitted', 'signIn'],
  ['not_permitted', { disabled: true }, 'not_permitted', undefined],
  ['not_permitted', { check: 'tenant' }, 'other_tenant', 'signIn'],
  ['not_permitted', { observation: { claim: 'groups', seen: 'left_out' } }, 'claim_left_out', 'signIn'],
  ['account_unreadable', { reason: 'account_unreadable', status: 404 }, 'account_unreadable', 'account'],
  ['account_unreadable', { reason: 'account_url_missing' }, 'account_unreadable', 'account'],
  ['other_app', {}, 'other_app', 'callbackUrls'],
  ['access_denied', {}, 'access_denied', undefined],
  ['internal', {}, 'internal', undefined],
];

describe('a cause', () => {
  test.each(FACTS)('of %s with %j is %s, with the field %s', (failure, facts, code, field) => {
    const cause = causeWith(failure, facts);
    expect([cause.code, cause.field]).toEqual([code, field]);
  });

  test('of every failure has a sentence and advice, and no two have the same sentence', () => {
    const causes = [
      ...Object.keys(SIGN_IN_FAILURES).map((failure) => causeWith(failure as SignInFailure)),
      ...FACTS.map(([failure, facts]) => causeWith(failure, facts)),
      causeOf(recordWith({ startedAt: NOW - 10 * MINUTE }), NOW) as SignInCause,
    ];
    for (const { text, advice } of causes) {
      expect(text).toMatch(/^\p{Lu}.{15,}[^.]\.$/u);
      expect(advice).toMatch(/^\p{Lu}.{15,}[^.]\.$/u);
    }
    expect(new Set(FACTS.map(([failure, facts]) => causeWith(failure, facts).text)).size).toBe(FACTS.length);
  });

  test('without a variant has the name of its failure', () => {
    const plain = [
      'parameter_doubled',
      'state_missing',
      'state_invented',
      'no_longer_pending',
      'registration_changed',
    ] as const;
    for (const failure of [...plain, 'disabled_app', 'other_user', 'step_up_refused', 'state_expired'] as const) {
      expect(causeWith(failure).code).toBe(failure);
      expect(causeWith(failure).field).toBeUndefined();
    }
  });
});

describe('the text of a cause', () => {
  test('contain status and error code, if known', () => {
    const client = { reason: 'client_refused' };
    const ending = (facts: SignInFacts) => causeWith('misconfigured', facts).text.replace(/^[^(]*authentication/, '');
    expect(ending(client)).toBe('.');
    expect(ending({ ...client, status: 401 })).toBe(' (status 401).');
    expect(ending({ ...client, oauthError: 'invalid_client' })).toBe(' (invalid_client).');
    expect(ending({ ...client, status: 401, oauthError: 'invalid_client' })).toBe(' (status 401, invalid_client).');
    expect(causeWith('misconfigured', { reason: 'metadata_invalid' }).text).toContain('(metadata_invalid)');
    expect(causeWith('misconfigured', { reason: 'push_refused', oauthError: 'invalid_scope' }).text).toContain(
      '(invalid_scope)',
    );
    expect(causeWith('provider_refused', { oauthError: 'server_error' }).text).toBe(
      'The provider refused (server_error).',
    );
  });

  test.each([
    [95, '95 s ahead of'],
    [-95, '95 s behind'],
    [0, '0 s ahead of'],
    [undefined, 'not the same as'],
  ])('say for clocks %s seconds ahead: %s the provider’s', (secondsAhead, words) => {
    expect(causeWith('token_response_refused', { check: 'times', secondsAhead }).text).toBe(
      `This server’s clock is ${words} the provider’s.`,
    );
  });

  test.each([
    [11 * MINUTE, '11 minutes'],
    [1 * MINUTE, '1 minute'],
    [1.6 * MINUTE, '2 minutes'],
    [0, '0 minutes'],
  ])('say for a duration of %i ms: %s', (duration, words) => {
    const { text } = causeWith('state_expired', {}, { endedAt: NOW + duration });
    expect(text).toContain(`came back after ${words}, and 10 are allowed`);
  });
});

describe('a failed call', () => {
  const call = { words: 'provider.test:443 refused the connection', advice: 'Check the port.' };
  const words = 'The call to the provider failed: provider.test:443 refused the connection.';

  test.each(['provider_unavailable', 'provider_unreadable', 'misconfigured'] as const)(
    'of %s is named, with the advice for the call',
    (failure) => {
      expect(causeWith(failure, { reason: 'connection', call })).toMatchObject({
        text: words,
        advice: 'Check the port.',
      });
    },
  );

  test('without advice comes with the advice for the failure', () => {
    const unadvised = { call: { ...call, advice: undefined } };
    expect(causeWith('misconfigured', unadvised)).toMatchObject({
      text: words,
      advice: 'The doctor says which endpoint it is.',
    });
    const { advice } = causeWith('provider_unavailable', unadvised);
    expect(advice).toContain('Wait until the provider is back.');
    expect(causeWith('provider_unavailable').advice).toBe(advice);
  });

  test('is not mentioned if the provider responded', () => {
    expect(causeWith('provider_unavailable', { status: 503, reason: 'http_status' }).text).toBe(
      'The provider is down or cannot be reached (status 503).',
    );
    expect(causeWith('provider_unavailable').text).toBe('The provider is down or cannot be reached.');
    expect(causeWith('misconfigured').text).toBe('The registration does not match the provider.');
  });
});

describe('a token response', () => {
  test.each([
    [{ reason: 'token_response_invalid', status: 300 }, 'wrong_token_endpoint'],
    [{ reason: 'token_response_invalid', status: 299 }, 'token_response_refused'],
    [{ reason: 'token_response_invalid' }, 'token_response_refused'],
    [{ reason: 'userinfo_invalid', status: 302 }, 'token_response_refused'],
  ])('with %j is %s', (facts, code) => {
    expect(causeWith('token_response_refused', facts).code).toBe(code);
  });

  test('that names a refused API host is described with that host, or as without a usable URL', () => {
    const refused = { reason: 'api_base_url_refused', member: 'api_url' };
    expect(causeWith('token_response_refused', { ...refused, host: 'evil.test' }).text).toContain(
      'names evil.test for the API in “api_url”',
    );
    expect(causeWith('token_response_refused', refused).text).toContain('names no usable URL for the API in “api_url”');
  });

  test('that lacks a member is described with its name', () => {
    expect(causeWith('token_response_refused', { member: 'access_token' }).text).toContain(
      'lacks access_token, or has it',
    );
  });
});

test.each([
  [{ status: 404 }, 'wrong_token_endpoint', 'The token endpoint does not accept our request (status 404).'],
  [{ status: 400, oauthError: 'invalid_request' }, 'token_request_refused', '(status 400, invalid_request)'],
  [{ status: 400, oauthError: 'invalid_grant' }, 'code_not_accepted', '(status 400, invalid_grant)'],
  [{ status: 400 }, 'code_not_accepted', 'The provider did not accept the code that it had issued (status 400).'],
])('a refused code with %j is %s', (facts, code, words) => {
  expect(causeWith('code_refused', facts)).toMatchObject({ code, text: expect.stringContaining(words) });
});

test('an account whose id cannot be read is described with the status of the response', () => {
  expect(causeWith('account_unreadable', { status: 404 }).text).toContain('no usable id of the account (status 404)');
});

describe('without a failure', () => {
  test('there is a cause only if the browser has not come back for two minutes', () => {
    const codeAfter = (milliseconds: number, changes: Partial<SignInRecord> = {}) =>
      causeOf(recordWith({ startedAt: NOW - milliseconds, ...changes }), NOW)?.code;
    expect(codeAfter(2 * MINUTE - 1)).toBeUndefined();
    expect(codeAfter(2 * MINUTE)).toBe('nothing_came_back');
    expect(codeAfter(60 * MINUTE, { outcome: 'signed_in' })).toBeUndefined();
    expect(causeOf(recordWith({ startedAt: NOW - 2 * MINUTE }), NOW)?.field).toBe('callbackUrls');
  });
});
