import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createStateSigner } from '../../../src/gatehouse/sign-in/state.ts';
import { anyText } from '../../support/any-text.ts';

const createSigner = (...secrets: string[]) => createStateSigner({ secrets, randomBytes });
const signer = createSigner('first-secret');
const NOW = 1_800_000_000_000;

describe('R10: a state shows whether and when it was created here', () => {
  test('to the second, and none is repeated', () => {
    expect(signer.createdAt(signer.create(NOW + 999))).toBe(NOW);
    expect(new Set(Array.from({ length: 1_000 }, () => signer.create(NOW))).size).toBe(1_000);
  });

  test('after a rotation too, as long as its secret is listed', () => {
    const state = signer.create(NOW);
    expect(createSigner('new-secret', 'first-secret').createdAt(state)).toBe(NOW);
    expect(createSigner('new-secret').createdAt(state)).toBeUndefined();
    expect(signer.createdAt(createSigner('new-secret', 'first-secret').create(NOW))).toBeUndefined();
  });

  test('with secrets that are replaced at run time', () => {
    const rotatedSigner = createSigner('first-secret');
    const state = rotatedSigner.create(NOW);

    rotatedSigner.useSecrets(['new-secret', 'first-secret']);
    expect(rotatedSigner.createdAt(state)).toBe(NOW);
    expect(createSigner('new-secret').createdAt(rotatedSigner.create(NOW))).toBe(NOW);

    rotatedSigner.useSecrets(['new-secret']);
    expect(rotatedSigner.createdAt(state)).toBeUndefined();
  });

  test('but not once any character of it has changed', () => {
    const state = signer.create(NOW);
    fc.assert(
      fc.property(fc.nat(state.length - 1), fc.constantFrom(...'AZaz09_-.'), (at, character) => {
        if (state[at] === character) return;
        const changed = state.slice(0, at) + character + state.slice(at + 1);
        // The last character has bits that base64url does not use, so another character can stand for the same bytes.
        const hasSameBytes = at === state.length - 1 && haveSameMac(changed, state);
        expect(signer.createdAt(changed)).toBe(hasSameBytes ? NOW : undefined);
      }),
      { numRuns: 500 },
    );
  });

  test('and no other text does', () => {
    const [random, time, mac] = signer.create(NOW).split('.');
    const incompleteStates = ['', '.', '..', `${random}.${time}`, `${random}.${time}.`, `${random}..${mac}`];
    const withOtherTime = `${random}.1.${mac}`;
    for (const state of [...incompleteStates, withOtherTime]) {
      expect(signer.createdAt(state)).toBeUndefined();
    }
    fc.assert(
      fc.property(anyText(), (text) => {
        expect(signer.createdAt(text)).toBeUndefined();
      }),
    );
  });
});

function haveSameMac(left: string, right: string): boolean {
  return macOf(left).equals(macOf(right));
}

function macOf(state: string): Buffer {
  const [, , mac = ''] = state.split('.');
  return Buffer.from(mac, 'base64url');
}
