/** Signing keys that are rotated, unavailable or requested too often. */
import { afterAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound } from '../../../src/shared/outbound/outbound.ts';
import { createSigningKeys, type SigningKeys } from '../../../src/shared/provider/signing-keys.ts';
import { failureOf, useProtocol } from '../../gatehouse/connected-apps/protocol.ts';
import { type Mode, signWith } from '../../support/hostile-modes.ts';

const protocol = useProtocol();

describe('R24: signing keys', () => {
  test('R24 reads the keys once for twenty concurrent sign-ins and the next one', async () => {
    await Promise.all(Array.from({ length: 20 }, () => protocol.logIn()));
    await protocol.logIn();
    expect(protocol.provider.hitsOf('jwks')).toHaveLength(1);
  });

  test('R24 reads the keys once in 10 seconds for 200 sign-ins with random key IDs, and rejects all', async () => {
    await protocol.logIn();
    let keyNumber = 0;
    protocol.provider.setModes({
      sign: (claims, { keys }) => signWith(keys.rs256, claims, { kid: `random-${keyNumber++}` }),
    });
    for (let round = 0; round < 4; round += 1) {
      const failures = await Promise.all(Array.from({ length: 40 }, () => failureOf(protocol.logIn())));
      expect(new Set(failures.map(({ failure }) => failure))).toEqual(new Set(['invalid']));
      for (let n = 0; n < 10; n += 1) await failureOf(protocol.logIn());
      protocol.elapsed += 10_000;
    }
    expect(protocol.provider.hitsOf('jwks').length).toBeLessThanOrEqual(4);
  });

  test('F27 finds keys rotated without overlap after 10 seconds, and then rejects the old key', async () => {
    await protocol.logIn();
    const { rs256 } = await captureKeys();
    const signWithOldKey: Mode['sign'] = (claims) => signWith(rs256, claims);
    await protocol.provider.rotateKeys();
    protocol.provider.setModes();
    protocol.elapsed += 9_999;
    expect((await failureOf(protocol.logIn())).reason).toBe('token_response_invalid');

    protocol.elapsed += 1;
    expect((await protocol.logIn()).claims?.sub).toBe('user-1');

    protocol.provider.setModes({ sign: signWithOldKey });
    expect((await failureOf(protocol.logIn())).reason).toBe('token_response_invalid');
  });

  test('F13: uses the last keys for up to an hour while they cannot be read', async () => {
    await protocol.logIn();
    protocol.provider.setModes('jwks-status-500');
    for (const seconds of [11, 240, 301, 2_950]) {
      protocol.elapsed += seconds * 1_000;
      expect((await protocol.logIn()).claims?.sub).toBe('user-1');
    }
    expect(protocol.provider.hitsOf('jwks').length).toBeGreaterThan(1);

    protocol.elapsed += 900_000;
    expect(await failureOf(protocol.logIn())).toEqual({ failure: 'unavailable', reason: 'keys_unavailable' });
  });

  test('F13: keeps the last keys after an unknown key ID while they cannot be read', async () => {
    await protocol.logIn();
    protocol.elapsed += 11_000;
    protocol.provider.setModes('jwks-reset', 'id-token-unknown-kid');
    expect((await failureOf(protocol.logIn())).failure).toBe('invalid');

    protocol.provider.setModes('jwks-reset');
    expect((await protocol.logIn()).claims?.sub).toBe('user-1');
  });

  async function captureKeys() {
    let captured: Parameters<NonNullable<Mode['sign']>>[1]['keys'] | undefined;
    protocol.provider.setModes({
      sign: (claims, scene) => {
        captured = scene.keys;
        return signWith(scene.keys.rs256, claims);
      },
    });
    await protocol.logIn();
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

  const read = () => keys.load(`${protocol.provider.issuer}/jwks`);
  const readCount = () => protocol.provider.hitsOf('jwks').length;

  test('reads at most every 10 seconds, however many tokens are verified', async () => {
    const all = await Promise.all(Array.from({ length: 20 }, read));
    expect(new Set(all).size).toBe(1);

    now += 9_999;
    expect(await read()).toBe(all[0]);
    expect(readCount()).toBe(1);

    now += 1;
    await read();
    expect(readCount()).toBe(2);
  });

  test('F26 reads the keys after 5 seconds of back-off even if the clock is set back by an hour', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    protocol.provider.setModes('jwks-status-500');
    await expect(read()).rejects.toMatchObject({ reason: 'keys_unavailable' });

    vi.setSystemTime(Date.now() - 3_600_000);
    protocol.provider.setModes();
    await expect(read()).rejects.toMatchObject({ reason: 'keys_unavailable' });

    now += 5_000;
    expect((await read()).jwks().keys).not.toHaveLength(0);
  });

  test.each([
    ['null', null],
    ['a text', 'key'],
    ['a list', [[]]],
    ['a number', 7],
  ])('R98 ignores %s in a key set', async (_words, entry) => {
    const keyCount = (await read()).jwks().keys.length;
    now += 10_000;
    protocol.provider.setModes({ jwks: (keys) => [entry as never, ...keys] });
    expect((await read()).jwks().keys).toHaveLength(keyCount);
  });

  test('reads at most every 5 seconds while the provider is down', async () => {
    protocol.provider.setModes('jwks-status-500');
    for (let n = 0; n < 20; n += 1) {
      await expect(read()).rejects.toMatchObject({ failure: 'unavailable', reason: 'keys_unavailable' });
      now += 1_000;
    }
    expect(readCount()).toBe(4);

    protocol.provider.setModes();
    expect((await read()).jwks().keys).not.toHaveLength(0);
  });

  test('a key set at a private address is a misconfigured registration', async () => {
    const read = () => keys.load('https://10.0.0.1/jwks');
    await expect(read()).rejects.toMatchObject({ failure: 'misconfigured' });
    // The second call is during the pause and gets the same error.
    await expect(read()).rejects.toMatchObject({ failure: 'misconfigured', reason: 'address' });
  });
});
