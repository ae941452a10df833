/** The fault of an ID token, read from the codes and claims of the library's errors and their causes. */
import { expect, test } from 'vitest';
import { idTokenFault, unverifiedEmailIn } from '../../../src/shared/provider/id-token-fault.ts';

/** The library wraps errors in its own. */
const wrapped = (error: unknown, depth = 2): unknown =>
  depth === 0 ? error : Object.assign(new Error('outer'), { cause: wrapped(error, depth - 1) });

test.each([
  ['a wrong issuer', { claim: 'iss', claims: { iss: 'https://a.example' } }, { check: 'issuer' }],
  ['another tenant', { claim: 'tid', claims: { tid: 'a-1' } }, { check: 'tenant', seen: 'tenant a-1' }],
  ['a tenant that is no id', { claim: 'tid', claims: { tid: 'a b' } }, { check: 'tenant' }],
  ['a wrong audience', { claim: 'aud', claims: { aud: 'a' } }, { check: 'audience' }],
  ['a wrong nonce', { claim: 'nonce', claims: { nonce: 'a' } }, { check: 'nonce' }],
  [
    'an expired token',
    { claim: 'exp', claims: { exp: 950, iat: 940 }, now: 1_000 },
    { check: 'times', secondsAhead: 60 },
  ],
  [
    'a token that is not valid yet',
    { claim: 'nbf', claims: { nbf: 1_090 }, now: 1_000 },
    { check: 'times', secondsAhead: -90 },
  ],
  [
    'a token issued earlier that is not valid yet',
    { claim: 'nbf', claims: { iat: 900, nbf: 1_090 }, now: 1_000 },
    { check: 'times', secondsAhead: -90 },
  ],
  [
    'an expired token with an earlier nbf',
    { claim: 'exp', claims: { exp: 950, iat: 900, nbf: 890 }, now: 1_000 },
    { check: 'times', secondsAhead: 100 },
  ],
  ['an expired token without iat', { claim: 'exp', claims: { exp: 1 }, now: 1_000 }, { check: 'times' }],
  ['no clock', { claim: 'exp', claims: { exp: 950, iat: 900 } }, { check: 'times' }],
  ['no claims', { claim: 'exp', claims: 'none', now: 1_000 }, { check: 'times' }],
  ['another authorized party', { claim: 'azp', claims: { azp: 'b' } }, { check: 'audience' }],
  ['a signature of another key', { code: 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED' }, { check: 'signature' }],
  ['a key that the provider does not publish', { code: 'ERR_JWKS_NO_MATCHING_KEY' }, { check: 'signature' }],
  ['an unknown claim', { claim: 'colour' }, { check: 'form' }],
  ['an unknown error', new Error('unexpected'), { check: 'form' }],
])('%s', (_words, error, fault) => {
  expect([idTokenFault(error), idTokenFault(wrapped(error))]).toEqual([fault, fault]);
});

const CLAIMS = { iss: 'https://a.example', aud: 'us', sub: 'user-1', exp: 2, iat: 1, nonce: 'n' };

test.each([
  ['iss', 'issuer'],
  ['aud', 'audience'],
  ['sub', 'form'],
  ['exp', 'times'],
  ['iat', 'times'],
  ['nonce', 'nonce'],
])('%s: missing and malformed claims are named, whether the library names them or not', (claim, check) => {
  const missing = { check, missing: claim, seen: `“${claim}” is missing` };
  const { [claim as 'iss']: _, ...claims } = CLAIMS;
  expect(idTokenFault(wrapped({ claims }))).toEqual(missing);
  expect(idTokenFault(wrapped({ claim, claims, now: 5 }))).toEqual(missing);
  const malformed = { check, malformed: claim, seen: `“${claim}” has a form that is not allowed` };
  for (const value of [null, true, {}]) {
    expect(idTokenFault(wrapped({ claims: { ...CLAIMS, [claim]: value } }))).toEqual(malformed);
  }
});

test.each(['nbf', 'auth_time'])('%s may be missing, but not malformed', (claim) => {
  const malformed = { malformed: claim, seen: `“${claim}” has a form that is not allowed` };
  expect(idTokenFault({ claims: { ...CLAIMS, [claim]: '1' } })).toEqual({ check: 'times', ...malformed });
});

test('several audiences without azp lack azp, unless the audience is wrong', () => {
  const claims = { ...CLAIMS, aud: ['us', 'them'] };
  const missing = { check: 'audience', missing: 'azp', seen: '“azp” is missing' };
  expect(idTokenFault({ claim: 'aud', claims })).toEqual(missing);
  expect(idTokenFault({ claim: 'azp', claims, now: 5 })).toEqual(missing);
  expect(idTokenFault({ claim: 'aud', claims, expected: 'me' })).toEqual({ check: 'audience' });
  expect(idTokenFault({ claim: 'aud', claims: { ...claims, azp: 'us' } })).toEqual({ check: 'audience' });
});

test('a value that is not an error, or is wrapped too deeply, is a fault of form', () => {
  for (const error of [null, undefined, 'iss', 7, wrapped({ claim: 'iss' }, 50)]) {
    expect(idTokenFault(error)).toEqual({ check: 'form' });
    expect(unverifiedEmailIn(error)).toBeUndefined();
  }
});

test.each([
  ['valid', { claims: { email: 'ada@example.test' } }, 'ada@example.test'],
  ['missing', { claims: {} }, undefined],
  ['a number', { claims: { email: 5 } }, undefined],
  ['with a space', { claims: { email: 'a da@example.test' } }, undefined],
  ['with a second line after it', { claims: { email: 'ada@example.test\nx' } }, undefined],
  ['with a line before it', { claims: { email: 'x\nada@example.test' } }, undefined],
  ['too long', { claims: { email: `${'a'.repeat(101)}@example.test` } }, undefined],
  [
    'of maximum length',
    { claims: { email: `${'a'.repeat(100)}@${'b'.repeat(100)}` } },
    `${'a'.repeat(100)}@${'b'.repeat(100)}`,
  ],
  ['no claims', { claims: null }, undefined],
])('the e-mail address in a refused token: %s', (_words, error, email) => {
  expect([unverifiedEmailIn(error), unverifiedEmailIn(wrapped(error))]).toEqual([email, email]);
});
