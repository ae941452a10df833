/** Keys that are rotated, lost or asked for too often. */
import { afterAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { createSigningKeys, type SigningKeys } from '../../src/connected-apps/signing-keys.ts';
import { createAddressPolicy } from '../../src/outbound/address-policy.ts';
import { createOutbound } from '../../src/outbound/outbound.ts';
import { type Mode, signWith } from '../support/hostile-modes.ts';
import { failureOf, useProtocol } from './protocol.ts';

const at = useProtocol();

describe('R24: signing keys', () => {
  test('one login or twenty at once ask for them once; a minute later still', async () => {
    await Promise.all(Array.from({ length: 20 }, () => at.logIn()));
    await at.logIn();
    expect(at.provider.hitsOf('jwks')).toHaveLength(1);
  });

  test('200 logins with random kids, at once and one by one: one look a minute, and none gets in', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    await at.logIn();
    let n = 0;
    at.provider.set({ sign: (claims, { keys }) => signWith(keys.rs256, claims, { kid: `random-${n++}` }) });
    for (let round = 0; round < 4; round += 1) {
      const failures = await Promise.all(Array.from({ length: 40 }, () => failureOf(at.logIn())));
      expect(new Set(failures.map(({ failure }) => failure))).toEqual(new Set(['invalid']));
      for (let one = 0; one < 10; one += 1) await failureOf(at.logIn());
      vi.setSystemTime(Date.now() + 61_000);
    }
    expect(at.provider.hitsOf('jwks').length).toBeLessThanOrEqual(4);
  });

  test('rotated keys are found after a minute, and the old key is refused within the cache time', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    await at.logIn();
    const { rs256 } = await capturedKeys();
    const old: Mode['sign'] = (claims) => signWith(rs256, claims);
    await at.provider.rotateKeys();
    at.provider.set();
    expect((await failureOf(at.logIn())).reason).toBe('token_answer_invalid');
    vi.setSystemTime(Date.now() + 61_000);
    expect((await at.logIn()).claims?.sub).toBe('user-1');
    vi.setSystemTime(Date.now() + 301_000);
    at.provider.set({ sign: old });
    expect((await failureOf(at.logIn())).reason).toBe('token_answer_invalid');
  });

  test('F13: while keys cannot be read a known key still counts, for an hour and no longer', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    await at.logIn();
    at.provider.set('jwks-status-500');
    for (const seconds of [61, 240, 301, 2_900]) {
      vi.setSystemTime(Date.now() + seconds * 1_000);
      expect((await at.logIn()).claims?.sub).toBe('user-1');
    }
    expect(at.provider.hitsOf('jwks').length).toBeGreaterThan(1);
    vi.setSystemTime(Date.now() + 900_000);
    expect(await failureOf(at.logIn())).toEqual({ failure: 'unavailable', reason: 'keys_unavailable' });
  });

  test('F13: an unknown kid while keys cannot be read does not throw the known ones away', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    await at.logIn();
    vi.setSystemTime(Date.now() + 61_000);
    at.provider.set('jwks-reset', 'id-token-unknown-kid');
    expect((await failureOf(at.logIn())).failure).toBe('invalid');
    at.provider.set('jwks-reset');
    expect((await at.logIn()).claims?.sub).toBe('user-1');
  });

  async function capturedKeys() {
    let captured: Parameters<NonNullable<Mode['sign']>>[1]['keys'] | undefined;
    at.provider.set({
      sign: (claims, scene) => {
        captured = scene.keys;
        return signWith(scene.keys.rs256, claims);
      },
    });
    await at.logIn();
    if (!captured) throw new Error('No ID token was signed.');
    return captured;
  }
});

describe('R24: reading the keys', () => {
  const outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
  let now = 0;
  let keys: SigningKeys;
  beforeEach(() => {
    keys = createSigningKeys({ outbound, clock: () => now });
  });
  afterAll(() => outbound.close());

  const read = () => keys.fetch(`${at.provider.issuer}/jwks`).then((answer) => answer.text());
  const asked = () => at.provider.hitsOf('jwks').length;

  test('whoever asks, and however often: once a minute', async () => {
    const all = await Promise.all(Array.from({ length: 20 }, read));
    expect(new Set(all).size).toBe(1);
    now += 59_999;
    expect(await read()).toBe(all[0]);
    expect(asked()).toBe(1);
    now += 1;
    await read();
    expect(asked()).toBe(2);
  });

  test('while the provider is down it is asked every 5 seconds at most', async () => {
    at.provider.set('jwks-status-500');
    for (let n = 0; n < 20; n += 1) {
      await expect(read()).rejects.toMatchObject({ failure: 'unavailable', reason: 'keys_unavailable' });
      now += 1_000;
    }
    expect(asked()).toBe(4);
    at.provider.set();
    expect(await read()).toContain('"kid"');
  });

  test('a key set that lies where nothing may be called is the fault of the registration', async () => {
    const read = () => keys.fetch('https://10.0.0.1/jwks');
    await expect(read()).rejects.toMatchObject({ failure: 'misconfigured' });
    // Nobody looks again so soon; the answer is what was found.
    await expect(read()).rejects.toMatchObject({ failure: 'misconfigured', reason: 'address' });
  });
});
