import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { base64url, CompactEncrypt, type CompactJWEHeaderParameters, CompactSign, decodeProtectedHeader } from 'jose';
import { describe, expect, test } from 'vitest';
import { SealError } from '../../../src/shared/storage/sealed.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import { makeKey, makeSealer } from '../../support/encryption-keys.ts';
import { processorTimeOf } from '../../support/stopwatch.ts';

const SECRET = 'canary-4f1c-refresh-token-ünï';
const key = makeKey('k1');
const sealer = makeSealer(key);
const HEADER = decodeProtectedHeader(await sealer.seal('', 'owner'));

function headerWith(changes: Record<string, unknown>): CompactJWEHeaderParameters {
  return { ...HEADER, alg: 'dir', enc: 'A256GCM', ...changes };
}

async function reasonOf(opening: Promise<string>): Promise<string> {
  const error: unknown = await opening.then(
    () => 'opened',
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof SealError)) return String(error);
  expect(error.message).not.toContain('canary');
  return error.reason;
}

function flip(text: string, at: number): string {
  return `${text.slice(0, at)}${text[at] === 'A' ? 'B' : 'A'}${text.slice(at + 1)}`;
}

describe('sealing', () => {
  test('R44: the owner can open a sealed value, which reveals neither the secret nor the owner', async () => {
    const sealed = await sealer.seal(SECRET, 'grant:{anna}:platform');
    expect(await sealer.open(sealed, 'grant:{anna}:platform')).toBe(SECRET);
    expect(await sealer.open(await sealer.seal('', 'owner'), 'owner')).toBe('');

    const visible = sealed.split('.').map((part) => Buffer.from(part, 'base64url').toString('latin1'));
    expect(visible.join() + sealed).not.toMatch(/canary|anna/);
    expect(await sealer.seal(SECRET, 'owner')).not.toBe(await sealer.seal(SECRET, 'owner'));
  });

  test('R44: no file of the embedded store contains a sealed secret in plain text', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'gatehouse-'));
    const store = await createSqliteStore({ directory });
    await store.write([{ put: 'grant', value: await sealer.seal(SECRET, 'grant') }]);
    const whileOpen = await contentOf(directory);
    expect(whileOpen).toContain('grant');
    expect(whileOpen).not.toContain('canary');

    await store.close();
    expect(await contentOf(directory)).not.toContain('canary');

    await rm(directory, { recursive: true });
  });

  test('R46: another owner cannot open a value', async () => {
    const [first, second] = [await sealer.seal('1', 'grant 1'), await sealer.seal('2', 'grant 2')];
    expect(await reasonOf(sealer.open(first, 'grant 2'))).toBe('wrong_owner');
    expect(await reasonOf(sealer.open(second, 'grant 1'))).toBe('wrong_owner');
  });

  test('R48: the new key seals, the old key still opens, and a retired key is reported', async () => {
    const sealedByOldKey = await sealer.seal(SECRET, 'owner');
    const rotated = makeSealer(makeKey('k2'), key);
    expect(rotated.sealingKid).toBe('k2');
    expect(await rotated.open(sealedByOldKey, 'owner')).toBe(SECRET);
    expect(rotated.kidOf(sealedByOldKey)).toBe('k1');
    expect(rotated.kidOf(await rotated.seal(SECRET, 'owner'))).toBe('k2');
    expect(await reasonOf(makeSealer(makeKey('k2')).open(sealedByOldKey, 'owner'))).toBe('unknown_key');
  });

  test('R49: another key with the same id cannot open a value', async () => {
    expect(await reasonOf(makeSealer(makeKey('k1')).open(await sealer.seal(SECRET, 'o'), 'o'))).toBe('damaged');
  });

  test('a value that would be too long to open is not sealed', async () => {
    await expect(sealer.seal('x'.repeat(1_000_000), 'owner')).rejects.toBeInstanceOf(RangeError);
  });
});

describe('R47: a value that is not sealed is refused, not passed through:', () => {
  test.each([
    ['plain text', SECRET],
    ['nothing', ''],
    ['JSON', '{"refresh_token":"canary"}'],
    ['a JWT', 'eyJhbGciOiJIUzI1NiJ9.e30.AAAA'],
    ['four parts', 'a.b.c.d'],
    ['six parts', `${'a.'.repeat(5)}b`],
    ['a header that is not JSON', `AAAA..${'A'.repeat(16)}.AAAA.${'A'.repeat(22)}`],
    ['a header that is null', `${base64url.encode('null')}..${'A'.repeat(16)}.AAAA.${'A'.repeat(22)}`],
  ])('%s', async (_, value) => {
    expect(await reasonOf(sealer.open(value, 'owner'))).toBe('not_sealed');
    expect(sealer.kidOf(value)).toBeUndefined();
  });
});

describe('R45: a hostile value is refused in less than 50 ms:', () => {
  async function refusal(value: string): Promise<string> {
    // The CPU time of all threads counts, because WebCrypto uses other threads and the machine may be busy.
    expect(await processorTimeOf(() => reasonOf(sealer.open(value, 'owner')))).toBeLessThan(50);
    return reasonOf(sealer.open(value, 'owner'));
  }

  async function withHeader(changes: Record<string, unknown>): Promise<string> {
    const [, ...rest] = (await sealer.seal(SECRET, 'owner')).split('.');
    return [base64url.encode(JSON.stringify(headerWith(changes))), ...rest].join('.');
  }

  test('any part changed', async () => {
    const sealed = await sealer.seal(SECRET, 'owner');
    for (const part of [2, 3, 4]) {
      const parts = sealed.split('.');
      parts[part] = flip(parts[part] ?? '', 3);
      expect(await refusal(parts.join('.'))).toBe('damaged');
    }
    expect(await refusal(sealed.slice(0, -2))).toBe('not_sealed');
    expect(await refusal(await withHeader({ own: 'x' }))).toBe('damaged');
  });

  test('alg none, as JWE and as JWS', async () => {
    expect(await refusal(await withHeader({ alg: 'none' }))).toBe('not_sealed');
    expect(await refusal(`${base64url.encode('{"alg":"none"}')}.${base64url.encode(SECRET)}.`)).toBe('not_sealed');
    const signed = await new CompactSign(Buffer.from(SECRET)).setProtectedHeader({ alg: 'HS256' }).sign(key.key);
    expect(await refusal(signed)).toBe('not_sealed');
  });

  test('PBES2 with 2^31 rounds', async () => {
    const header = { alg: 'PBES2-HS256+A128KW', p2c: 2 ** 31, p2s: 'AAAAAAAAAAAAAAAA' };
    expect(await refusal(await withHeader(header))).toBe('not_sealed');
    const [head, , ...rest] = (await withHeader(header)).split('.');
    expect(await refusal([head, 'A'.repeat(54), ...rest].join('.'))).toBe('not_sealed');
  });

  test('a compressed bomb, sealed with the right key', async () => {
    const bomb = new CompactEncrypt(Buffer.alloc(100_000_000)).setProtectedHeader(headerWith({ zip: 'DEF' }));
    expect(await refusal(await bomb.encrypt(key.key))).toBe('not_sealed');
  });

  test('another algorithm, an unknown critical header, a header of another form, an oversized value', async () => {
    for (const changes of [
      { enc: 'A128CBC-HS256' },
      { enc: 'A128GCM' },
      { crit: ['x'], x: 1 },
      { kid: 7 },
      { own: null },
    ]) {
      expect(await refusal(await withHeader(changes))).toBe('not_sealed');
    }
    expect(await refusal('A'.repeat(50_000_000))).toBe('not_sealed');

    const [header] = (await sealer.seal('', 'owner')).split('.');
    const valueWithLongText = `${header}..${'A'.repeat(16)}.${'A'.repeat(20_000_000)}.${'A'.repeat(22)}`;
    expect(await refusal(valueWithLongText)).toBe('not_sealed');
  });

  test('a value from another program with the same key, with an additional header member', async () => {
    const foreign = await new CompactEncrypt(Buffer.from(SECRET))
      .setProtectedHeader(headerWith({ cty: 'JWT' }))
      .encrypt(key.key);
    expect(await refusal(foreign)).toBe('not_sealed');
  });
});

async function contentOf(directory: string): Promise<string> {
  const names = await readdir(directory);
  return (await Promise.all(names.map((name) => readFile(join(directory, name), 'latin1')))).join();
}
