/** R1: nonce and PKCE verifier are as unguessable as the browser's secret, and are not stored. */
import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { deriveNonceAndVerifier } from '../../../src/shared/provider/nonce-and-verifier.ts';

const newSecret = () => randomBytes(24).toString('base64url');

test('R1 nonce and verifier are equal for the same browser and state, and different for any other', () => {
  const [browser, state] = [newSecret(), newSecret()];
  const derived = deriveNonceAndVerifier(browser, state);
  expect(deriveNonceAndVerifier(browser, state)).toEqual(derived);

  const others = [deriveNonceAndVerifier(browser, newSecret()), deriveNonceAndVerifier(newSecret(), state)];
  const texts = [derived, ...others].flatMap(({ nonce, codeVerifier }) => [nonce, codeVerifier]);
  expect(new Set(texts).size).toBe(6);
  expect(derived.state).toBe(state);
});

test('R1 the verifier has the form of RFC 7636, and holds neither secret nor state', () => {
  const [browser, state] = [newSecret(), newSecret()];
  const { nonce, codeVerifier } = deriveNonceAndVerifier(browser, state);
  for (const text of [nonce, codeVerifier]) {
    expect(text).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(text).not.toContain(browser.slice(0, 8));
    expect(text).not.toContain(state.slice(0, 8));
  }
});
