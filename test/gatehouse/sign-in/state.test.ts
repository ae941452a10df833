import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createStateSigner } from '../../../src/gatehouse/sign-in/state.ts';
import { anyText } from '../../support/any-text.ts';

const signerOf = (...secrets: string[]) => createStateSigner({ secrets, randomBytes });
const ours = signerOf('first-secret');
const NOW = 1_800_000_000_000;

describe('R10: a state shows whether and when it was created here', () => {
  test('to the second, and is never repeated', () => {
    expect(ours.createdAt(ours.create(NOW + 999))).toBe(NOW);
    expect(new Set(Array.from({ length: 1_000 }, () => ours.create(NOW))).size).toBe(1_000);
  });

  test('old secrets verify after a rotation, until they are removed', () => {
    const old = ours.create(NOW);
    expect(signerOf('new-secret', 'first-secret').createdAt(old)).toBe(NOW);
    expect(signerOf('new-secret').createdAt(old)).toBeUndefined();
    expect(ours.createdAt(signerOf('new-secret', 'first-secret').create(NOW))).toBeUndefined();
  });

  test('replaced secrets apply at once', () => {
    const signer = signerOf('first-secret');
    const old = signer.create(NOW);
    signer.useSecrets(['new-secret', 'first-secret']);
    expect(signer.createdAt(old)).toBe(NOW);
    expect(signerOf('new-secret').createdAt(signer.create(NOW))).toBe(NOW);
    signer.useSecrets(['new-secret']);
    expect(signer.createdAt(old)).toBeUndefined();
  });

  test('a change of any character makes it invalid', () => {
    const state = ours.create(NOW);
    fc.assert(
      fc.property(fc.nat(state.length - 1), fc.constantFrom(...'AZaz09_-.'), (at, character) => {
        if (state[at] === character) return;
        const changed = state.slice(0, at) + character + state.slice(at + 1);
        // The last character of a part carries bits that base64url leaves unused.
        const sameBytes = at === state.length - 1 && sameMac(changed, state);
        expect(ours.createdAt(changed)).toBe(sameBytes ? NOW : undefined);
      }),
      { numRuns: 500 },
    );
  });

  test('rejects any other text', () => {
    const [random, time, mac] = ours.create(NOW).split('.');
    for (const state of [
      '',
      '.',
      '..',
      `${random}.${time}`,
      `${random}.${time}.`,
      `${random}..${mac}`,
      `${random}.1.${mac}`,
    ]) {
      expect(ours.createdAt(state)).toBeUndefined();
    }
    fc.assert(
      fc.property(anyText(), (text) => {
        expect(ours.createdAt(text)).toBeUndefined();
      }),
    );
  });
});

function sameMac(left: string, right: string): boolean {
  const [a, b] = [left, right].map((state) => Buffer.from(state.split('.')[2] ?? '', 'base64url'));
  return a !== undefined && b !== undefined && a.equals(b);
}
