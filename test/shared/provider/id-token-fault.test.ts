/** What is wrong with an ID token, read from what the protocol library throws: by codes and claims, however deep they lie. */
import { expect, test } from 'vitest';
import { idTokenFault, unverifiedEmailIn } from '../../../src/shared/provider/id-token-fault.ts';

/** The library wraps what it found in errors of its own. */
const wrapped = (found: unknown, depth = 2): unknown =>
  depth === 0 ? found : Object.assign(new Error('outer'), { cause: wrapped(found, depth - 1) });

test.each([
  ['a wrong issuer', { claim: 'iss', claims: {} }, { check: 'issuer' }],
  ['another tenant', { claim: 'tid', claims: { tid: 'a-1' } }, { check: 'tenant', seen: 'tenant a-1' }],
  ['a tenant that is no id', { claim: 'tid', claims: { tid: 'a b' } }, { check: 'tenant' }],
  ['a wrong audience', { claim: 'aud', claims: {} }, { check: 'audience' }],
  ['a wrong nonce', { claim: 'nonce', claims: {} }, { check: 'nonce' }],
  ['one that has ended', { claim: 'exp', claims: { iat: 940 }, now: 1_000 }, { check: 'times', secondsAhead: 60 }],
  ['one from later on', { claim: 'nbf', claims: { nbf: 1_090 }, now: 1_000 }, { check: 'times', secondsAhead: -90 }],
  [
    'one issued before and good from later on',
    { claim: 'nbf', claims: { iat: 900, nbf: 1_090 }, now: 1_000 },
    { check: 'times', secondsAhead: -90 },
  ],
  [
    'one good since before',
    { claim: 'exp', claims: { iat: 900, nbf: 890 }, now: 1_000 },
    { check: 'times', secondsAhead: 100 },
  ],
  ['one without times', { claim: 'exp', claims: {}, now: 1_000 }, { check: 'times' }],
  ['no clock', { claim: 'exp', claims: { iat: 900 } }, { check: 'times' }],
  ['no claims', { claim: 'exp', claims: 'none', now: 1_000 }, { check: 'times' }],
  ['another authorized party', { claim: 'azp', claims: {} }, { check: 'audience' }],
  ['a signature of another key', { code: 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED' }, { check: 'signature' }],
  ['a key that the provider does not publish', { code: 'ERR_JWKS_NO_MATCHING_KEY' }, { check: 'signature' }],
  ['a claim that nobody judges', { claim: 'colour' }, { check: 'form' }],
  ['nothing that is known', new Error('unexpected'), { check: 'form' }],
])('%s', (_words, found, fault) => {
  expect([idTokenFault(found), idTokenFault(wrapped(found))]).toEqual([fault, fault]);
});

test('what is no error, or lies deeper than anybody wraps, is a fault of form', () => {
  for (const error of [null, undefined, 'iss', 7, wrapped({ claim: 'iss' }, 50)]) {
    expect(idTokenFault(error)).toEqual({ check: 'form' });
    expect(unverifiedEmailIn(error)).toBeUndefined();
  }
});

test.each([
  ['one', { claims: { email: 'ada@example.test' } }, 'ada@example.test'],
  ['none', { claims: {} }, undefined],
  ['a number', { claims: { email: 5 } }, undefined],
  ['one with a space', { claims: { email: 'a da@example.test' } }, undefined],
  ['one that ends in a line', { claims: { email: 'ada@example.test\nx' } }, undefined],
  ['one that begins with a line', { claims: { email: 'x\nada@example.test' } }, undefined],
  ['one that is too long', { claims: { email: `${'a'.repeat(101)}@example.test` } }, undefined],
  [
    'one of the longest',
    { claims: { email: `${'a'.repeat(100)}@${'b'.repeat(100)}` } },
    `${'a'.repeat(100)}@${'b'.repeat(100)}`,
  ],
  ['no claims', { claims: null }, undefined],
])('an address named in a refused token: %s', (_words, found, email) => {
  expect([unverifiedEmailIn(found), unverifiedEmailIn(wrapped(found))]).toEqual([email, email]);
});
