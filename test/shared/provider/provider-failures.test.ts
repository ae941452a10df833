/** The classification and description of provider failures. */
import { AuthorizationResponseError, ClientError, ResponseBodyError } from 'openid-client';
import { describe, expect, test } from 'vitest';
import { OutboundError } from '../../../src/shared/outbound/outbound.ts';
import { isClientRefusal, isCodeRefusal, oauthErrorOf } from '../../../src/shared/provider/oauth-error.ts';
import {
  describeFailure,
  failedCall,
  failedCallText,
  ProviderError,
} from '../../../src/shared/provider/provider-error.ts';
import {
  callError,
  exchangeError,
  pushError,
  replyOf,
  userinfoError,
} from '../../../src/shared/provider/provider-failures.ts';
import { describeReply } from '../../../src/shared/provider/provider-reply.ts';
import type { Capture } from '../../../src/shared/provider/token-response.ts';

const TIMEOUT = new OutboundError('timeout', 'idp.test:443 did not respond in time', 'Check the firewall.');
const REFUSED = new OutboundError('address', 'the address policy refuses 10.0.0.8:443 (private_address)');
/** The library wraps errors of a call like this. */
const wrapped = (cause: unknown) => new ClientError('of the library', { cause });
const summaryOf = ({ failure, reason, facts }: ProviderError) => {
  const { cause: _, ...rest } = facts;
  const definedFacts = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
  return [failure, reason, definedFacts];
};

describe('a pushed authorization request', () => {
  const push = (captured: Capture, error: unknown = wrapped(undefined)) => summaryOf(pushError(error, captured));

  test.each<[string, Capture, unknown[]]>([
    ['without a response', {}, ['invalid', 'push_refused', {}]],
    [
      '429',
      { status: 429, retryAfterSeconds: 7 },
      ['unavailable', 'push_failed', { status: 429, retryAfterSeconds: 7 }],
    ],
    ['500', { status: 500 }, ['unavailable', 'push_failed', { status: 500 }]],
    ['499', { status: 499, retryAfterSeconds: 7 }, ['misconfigured', 'push_refused', { status: 499 }]],
    [
      '400',
      { status: 400, error: 'invalid_scope' },
      ['misconfigured', 'push_refused', { status: 400, oauthError: 'invalid_scope' }],
    ],
    [
      '400',
      { status: 400, error: 'invalid_client' },
      ['misconfigured', 'client_refused', { status: 400, oauthError: 'invalid_client' }],
    ],
    ['401', { status: 401 }, ['misconfigured', 'client_refused', { status: 401 }]],
  ])('%s %o', (_words, captured, expected) => expect(push(captured)).toEqual(expected));

  test('has the reason of a request that was not sent', () => {
    expect(push({}, wrapped(TIMEOUT))).toEqual(['unavailable', 'timeout', {}]);
    expect(push({}, wrapped(REFUSED))).toEqual(['misconfigured', 'address', {}]);
  });
});

describe('a code exchange', () => {
  const exchange = (captured: Capture, error: unknown = wrapped(undefined)) =>
    summaryOf(exchangeError(error, captured));

  test.each<[Capture, unknown[]]>([
    [{}, ['invalid', 'authorization_response_invalid', {}]],
    [
      { status: 429, retryAfterSeconds: 9 },
      ['unavailable', 'token_endpoint_failed', { status: 429, retryAfterSeconds: 9 }],
    ],
    [{ status: 503 }, ['unavailable', 'token_endpoint_failed', { status: 503 }]],
    [{ status: 200, fault: 'scope' }, ['invalid', 'token_response_invalid', { status: 200, member: 'scope' }]],
    [{ status: 200, error: 'odd' }, ['invalid', 'token_response_invalid', { status: 200, oauthError: 'odd' }]],
    [{ status: 399 }, ['invalid', 'token_response_invalid', { status: 399 }]],
    [
      { status: 200, fault: 'access_token', error: 'bad_verification_code' },
      ['refused', 'code_refused', { status: 200, oauthError: 'bad_verification_code' }],
    ],
    [{ status: 400, retryAfterSeconds: 9 }, ['refused', 'code_refused', { status: 400 }]],
    [
      { status: 400, error: 'unauthorized_client' },
      ['misconfigured', 'client_refused', { status: 400, oauthError: 'unauthorized_client' }],
    ],
    [{ status: 401 }, ['misconfigured', 'client_refused', { status: 401 }]],
    [
      { status: 401, error: 'invalid_grant' },
      ['refused', 'code_refused', { status: 401, oauthError: 'invalid_grant' }],
    ],
    [
      { status: 401, error: 'invalid_request' },
      ['refused', 'code_refused', { status: 401, oauthError: 'invalid_request' }],
    ],
    [
      { status: 400, error: 'unsupported_grant_type' },
      ['misconfigured', 'flow_refused', { status: 400, oauthError: 'unsupported_grant_type' }],
    ],
  ])('%o', (captured, expected) => expect(exchange(captured)).toEqual(expected));

  test('names only the error code of a refusal in the callback', () => {
    const refusal = (error: string) =>
      new AuthorizationResponseError('refused', {
        cause: new URLSearchParams({ error, error_description: 'a stranger’s text' }),
      });
    expect(exchange({}, refusal('access_denied'))).toEqual([
      'refused',
      'authorization_refused',
      { oauthError: 'access_denied' },
    ]);
    expect(exchange({}, refusal('not a code'))).toEqual(['refused', 'authorization_refused', {}]);
  });

  test('has the reason of a response that was refused or could not be verified', () => {
    const refused = new ProviderError('invalid', 'token_not_bound');
    expect(exchange({ status: 200 }, refused)).toEqual(['invalid', 'token_not_bound', {}]);
    const keys = new ProviderError('unavailable', 'keys_unavailable', { status: 500 });
    expect(exchange({ status: 200 }, wrapped(keys))).toEqual(['unavailable', 'keys_unavailable', { status: 500 }]);
  });
});

test('callError uses the default reason for an unknown error', () => {
  const error = new TypeError('of a library');
  expect(callError(error, { defaultReason: 'userinfo_invalid' })).toMatchObject({
    failure: 'invalid',
    reason: 'userinfo_invalid',
    facts: { cause: error },
  });
  const providerError = new ProviderError('unavailable', 'discovery_failed');
  expect(callError(wrapped(providerError), { defaultReason: 'userinfo_invalid' })).toBe(providerError);
});

test.each([
  [429, ['unavailable', 'userinfo_failed', { status: 429, limited: true }]],
  [500, ['unavailable', 'userinfo_failed', { status: 500 }]],
  [401, ['invalid', 'userinfo_invalid', {}]],
  [499, ['invalid', 'userinfo_invalid', {}]],
])('userinfo with status %i', (status, expected) => {
  expect(summaryOf(userinfoError(wrapped(new Response(null, { status })), 0))).toEqual(expected);
});

describe('the reply to a revocation', () => {
  const bodyError = (error: string, status = 400) =>
    new ResponseBodyError('refused', { cause: { error } as never, response: new Response(null, { status }) });

  test('has the status and the error code, unless the code repeats the token', () => {
    expect(replyOf(bodyError('invalid_client', 401), 'rt-1', 0)).toEqual({ status: 401, error: 'invalid_client' });
    expect(replyOf(bodyError('no-rt-1'), 'rt-1', 0)).toEqual({ status: 400, error: undefined });
    expect(replyOf(wrapped(new Response(null, { status: 302 })), 'rt-1', 0)).toEqual({ status: 302 });
  });

  test('has the cause if there was no response', () => {
    expect(replyOf(wrapped(TIMEOUT), 'rt-1', 0)).toEqual({ error: 'timeout', detail: TIMEOUT.message });
    expect(replyOf(new TypeError('of a library'), 'rt-1', 0)).toEqual({
      status: undefined,
      error: 'unreadable_response',
    });
    const failed = new ProviderError('unavailable', 'discovery_failed', { status: 503 });
    expect(replyOf(failed, 'rt-1', 0)).toEqual({ status: 503, error: 'discovery_failed' });
  });

  test.each([
    [undefined, 'no response'],
    [{ error: 'too_large' }, 'no response: too large'],
    [{ error: 'connection', detail: 'idp:443 refused it' }, 'no response: idp:443 refused it'],
    [{ status: 400 }, 'status 400'],
    [{ status: 400, error: 'invalid_client' }, 'status 400, invalid_client'],
  ])('%o is described as %s', (reply, text) => expect(describeReply(reply)).toBe(text));
});

describe('the description of a failure', () => {
  test.each<[string, unknown]>([
    ['idp.test:443 did not respond in time', TIMEOUT],
    ['idp.test:443 did not respond in time', ProviderError.from(TIMEOUT)],
    ['keys unavailable, status 500', new ProviderError('unavailable', 'keys_unavailable', { status: 500 })],
    [
      'api base url refused, instance_url, api.test',
      new ProviderError('invalid', 'api_base_url_refused', { member: 'instance_url', host: 'api.test' }),
    ],
    [
      'push refused, status 400, invalid_scope',
      new ProviderError('misconfigured', 'push_refused', { status: 400, oauthError: 'invalid_scope' }),
    ],
    ['unknown failure', new TypeError('of a library')],
  ])('%s', (words, error) => expect(describeFailure(error)).toBe(words));

  test('of a call has the cause, and the advice if there is any', () => {
    expect(failedCallText(TIMEOUT)).toBe(
      'The call to the provider failed: idp.test:443 did not respond in time. Check the firewall.',
    );
    expect(failedCallText(REFUSED)).toBe(`The call to the provider failed: ${REFUSED.message}.`);
  });

  test('failedCall finds the outbound error directly or in a ProviderError, but nowhere else', () => {
    expect([failedCall(TIMEOUT), failedCall(ProviderError.from(TIMEOUT))]).toEqual([TIMEOUT, TIMEOUT]);
    expect(failedCall(new ProviderError('invalid', 'x', { cause: new TypeError('x') }))).toBeUndefined();
    expect(failedCall(new Error('x', { cause: TIMEOUT }))).toBeUndefined();
  });
});

test('ProviderError.from converts any error', () => {
  const providerError = new ProviderError('refused', 'code_refused');
  expect(ProviderError.from(providerError)).toBe(providerError);
  expect(summaryOf(ProviderError.from(TIMEOUT))).toEqual(['unavailable', 'timeout', {}]);
  expect(summaryOf(ProviderError.from(REFUSED))).toEqual(['misconfigured', 'address', {}]);
  expect(summaryOf(ProviderError.from('thrown'))).toEqual(['invalid', 'unreadable_response', {}]);
  expect(ProviderError.from(TIMEOUT)).toMatchObject({
    name: 'ProviderError',
    message: 'unavailable: timeout',
    cause: TIMEOUT,
  });
});

test.each([
  ['invalid_grant', 'invalid_grant'],
  ['!#[]~', '!#[]~'],
  ['x'.repeat(100), 'x'.repeat(100)],
  ['x'.repeat(101), undefined],
  ['', undefined],
  ['a b', undefined],
  ['a"b', undefined],
  ['a\\b', undefined],
  ['a\nb', undefined],
  ['4111111111111111', undefined],
  [7, undefined],
])('R22: the error code %j is shown as %s', (code, shown) => expect(oauthErrorOf(code)).toBe(shown));

test('R22: an error code that repeats a secret of the request is not shown', () => {
  expect(oauthErrorOf('not-s3cret', ['other', 's3cret'])).toBeUndefined();
  expect(oauthErrorOf('invalid_grant', [undefined, '', 's3cret'])).toBe('invalid_grant');
});

test('tells error codes that refuse the client from those that refuse the code', () => {
  const all = [
    'invalid_client',
    'bad_client_secret',
    'invalid_grant',
    'bad_verification_code',
    'access_denied',
    undefined,
  ];
  expect(all.map(isClientRefusal)).toEqual([true, true, false, false, false, false]);
  expect(all.map(isCodeRefusal)).toEqual([false, false, true, true, false, false]);
});
