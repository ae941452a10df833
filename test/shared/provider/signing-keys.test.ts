/** Keys that are rotated, lost or asked for too often. */
import { afterAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound } from '../../../src/shared/outbound/outbound.ts';
import { createSigningKeys, type SigningKeys } from '../../../src/shared/provider/signing-keys.ts';
import { failureOf, useProtocol } from '../../gatehouse/connected-apps/protocol.ts';
import { type Mode, signWith } from '../../support/hostile-modes.ts';

const at = useProtocol();

describe('R24: signing keys', () => {
  test('R24 twenty logins at once and the next one read the keys once', async () => {
    await Promise.all(Array.from({ length: 20 }, () => at.logIn()));
    await at.logIn();
    expect(at.provider.hitsOf('jwks')).toHaveLength(1);
  });

  test('R24 200 logins with random kids, at once and one by one, read the keys once in 10 seconds, and none succeeds', async () => {
    await at.logIn();
    let n = 0;
    at.provider.set({ sign: (claims, { keys }) => signWith(keys.rs256, claims, { kid: `random-${n++}` }) });
    for (let round = 0; round < 4; round += 1) {
      const failures = await Promise.all(Array.from({ length: 40 }, () => failureOf(at.logIn())));
      expect(new Set(failures.map(({ failure }) => failure))).toEqual(new Set(['invalid']));
      for (let one = 0; one < 10; one += 1) await failureOf(at.logIn());
      at.elapsed += 10_000;
    }
    expect(at.provider.hitsOf('jwks').length).toBeLessThanOrEqual(4);
  });

  test('F27 keys rotated without overlap are found after 10 seconds, and the old key is refused from then on', async () => {
    await at.logIn();
    const { rs256 } = await capturedKeys();
    const old: Mode['sign'] = (claims) => signWith(rs256, claims);
    await at.provider.rotateKeys();
    at.provider.set();
    at.elapsed += 9_999;
    expect((await failureOf(at.logIn())).reason).toBe('token_response_invalid');
    at.elapsed += 1;
    expect((await at.logIn()).claims?.sub).toBe('user-1');
    at.provider.set({ sign: old });
    expect((await failureOf(at.logIn())).reason).toBe('token_response_invalid');
  });

  test('F13: while keys cannot be read a known key still counts, for an hour and no longer', async () => {
    await at.logIn();
    at.provider.set('jwks-status-500');
    for (const seconds of [11, 240, 301, 2_950]) {
      at.elapsed += seconds * 1_000;
      expect((await at.logIn()).claims?.sub).toBe('user-1');
    }
    expect(at.provider.hitsOf('jwks').length).toBeGreaterThan(1);
    at.elapsed += 900_000;
    expect(await failureOf(at.logIn())).toEqual({ failure: 'unavailable', reason: 'keys_unavailable' });
  });

  test('F13: an unknown kid while keys cannot be read does not throw the known ones away', async () => {
    await at.logIn();
    at.elapsed += 11_000;
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
    keys = createSigningKeys({ outbound, monotonicClock: () => now });
  });
  afterAll(() => outbound.close());

  const read = () => keys.load(`${at.provider.issuer}/jwks`);
  const asked = () => at.provider.hitsOf('jwks').length;

  test('read at most every 10 seconds, however many tokens are verified', async () => {
    const all = await Promise.all(Array.from({ length: 20 }, read));
    expect(new Set(all).size).toBe(1);
    now += 9_999;
    expect(await read()).toBe(all[0]);
    expect(asked()).toBe(1);
    now += 1;
    await read();
    expect(asked()).toBe(2);
  });

  test('F26 the clock set back by an hour while reading backs off: the keys are read 5 seconds later', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    at.provider.set('jwks-status-500');
    await expect(read()).rejects.toMatchObject({ reason: 'keys_unavailable' });
    vi.setSystemTime(Date.now() - 3_600_000);
    at.provider.set();
    await expect(read()).rejects.toMatchObject({ reason: 'keys_unavailable' });
    now += 5_000;
    expect((await read()).jwks().keys).not.toHaveLength(0);
  });

  test.each([
    ['null', null],
    ['a text', 'key'],
    ['a list', [[]]],
    ['a number', 7],
  ])('R98 a key set with %s in it is read without that entry', async (_words, entry) => {
    const before = (await read()).jwks().keys.length;
    now += 10_000;
    at.provider.set({ jwks: (keys) => [entry as never, ...keys] });
    expect((await read()).jwks().keys).toHaveLength(before);
  });

  test('while the provider is down it is asked every 5 seconds at most', async () => {
    at.provider.set('jwks-status-500');
    for (let n = 0; n < 20; n += 1) {
      await expect(read()).rejects.toMatchObject({ failure: 'unavailable', reason: 'keys_unavailable' });
      now += 1_000;
    }
    expect(asked()).toBe(4);
    at.provider.set();
    expect((await read()).jwks().keys).not.toHaveLength(0);
  });

  test('a key set that lies where nothing may be called is the fault of the registration', async () => {
    const read = () => keys.load('https://10.0.0.1/jwks');
    await expect(read()).rejects.toMatchObject({ failure: 'misconfigured' });
    // Nobody looks again so soon; the answer is what was found.
    await expect(read()).rejects.toMatchObject({ failure: 'misconfigured', reason: 'address' });
  });
});
