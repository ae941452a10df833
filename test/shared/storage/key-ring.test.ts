import { randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { generateEncryptionKey, parseEncryptionKeys } from '../../../src/shared/storage/key-ring.ts';
import { createSealer } from '../../../src/shared/storage/sealed.ts';

const KEY_BYTES = randomBytes(32).toString('base64url');
const OTHER_KEY_BYTES = randomBytes(32).toString('base64url');
const encode = (bytes: Buffer) => bytes.toString('base64url');

function faultsOf(text: string): string[] {
  const parsed = parseEncryptionKeys(text);
  return 'faults' in parsed ? parsed.faults : [];
}

describe('R48: ENCRYPTION_KEYS', () => {
  test('are read in order: the first seals, all open', () => {
    const parsed = parseEncryptionKeys(` new:${KEY_BYTES} , old:${OTHER_KEY_BYTES}`);
    if ('faults' in parsed) throw new Error(parsed.faults.join());
    expect(parsed.keys.map(({ kid, key }) => `${kid}:${key.export().toString('base64url')}`)).toEqual([
      `new:${KEY_BYTES}`,
      `old:${OTHER_KEY_BYTES}`,
    ]);
    expect(createSealer(parsed.keys)).toMatchObject({ sealingKid: 'new', kids: ['new', 'old'] });
  });

  test.each([',', '\n', '\r\n', ',\n', '\n\n'])('may be separated by %j', (separator) => {
    expect(parseEncryptionKeys(`new:${KEY_BYTES}${separator}old:${OTHER_KEY_BYTES}`)).toMatchObject({
      keys: [{ kid: 'new' }, { kid: 'old' }],
    });
  });

  test('reveal nothing when they are logged or serialised', () => {
    const parsed = parseEncryptionKeys(`k:${KEY_BYTES}`);
    if ('faults' in parsed) throw new Error(parsed.faults.join());
    const shown =
      inspect(createSealer(parsed.keys), { depth: 9 }) + inspect(parsed, { depth: 9 }) + JSON.stringify(parsed);
    expect(shown).not.toContain(KEY_BYTES);
    expect(shown).not.toContain(Buffer.from(KEY_BYTES, 'base64url').toString('hex').slice(0, 8));
  });
});

describe('R49: ENCRYPTION_KEYS are refused, with the remedy and without the key,', () => {
  test.each([
    ['missing', '', /is empty/],
    ['blank', ' , ', /is empty/],
    ['without a colon', KEY_BYTES, /: number 1 does not have the form/],
    ['with an empty entry', `k:${KEY_BYTES},`, /: number 2 does not have the form/],
    ['with an empty entry in the middle', `k:${KEY_BYTES}, ,x:${OTHER_KEY_BYTES}`, /: number 2 does not have the form/],
    ['with key and id swapped', `${KEY_BYTES}:k1`, /: number 1 has a key id/],
    ['with an id of 41 characters', `${'k'.repeat(41)}:${KEY_BYTES}`, /: number 1 has a key id/],
    ['with a foreign character in the id', `k.1:${KEY_BYTES}`, /: number 1 has a key id/],
    ['short', `k:${encode(randomBytes(31))}`, /31 bytes instead of 32/],
    ['long', `k:${encode(randomBytes(33))}`, /33 bytes instead of 32/],
    ['padded', `k:${KEY_BYTES}=`, /not base64url/],
    ['hexadecimal', `k:${randomBytes(32).toString('hex')}`, /48 bytes instead of 32/],
    ['standard base64', `k:${Buffer.alloc(32, 0xfb).toString('base64')}`, /not base64url/],
    ['not canonical', `k:${KEY_BYTES.slice(0, -1)}B`, /not base64url/],
    ['all zero', `k:${encode(Buffer.alloc(32))}`, /not random/],
    ['of seven distinct bytes', `k:${encode(Buffer.alloc(32, Buffer.of(1, 200, 3, 150, 5, 90, 250)))}`, /not random/],
    ['readable text', `k:${encode(Buffer.from('change-me-change-me-change-me-32'))}`, /not random/],
    ['a counted sequence', `k:${encode(Buffer.from(Array.from({ length: 32 }, (_, n) => n)))}`, /not random/],
    ['with one id twice', `k:${KEY_BYTES},k:${OTHER_KEY_BYTES}`, /: number 2 repeats the key id/],
    ['with one key twice', `a:${KEY_BYTES},b:${KEY_BYTES}`, /: number 2 repeats the key of/],
  ])('%s', (_, text, message) => {
    const faults = faultsOf(text);
    expect(faults).toHaveLength(1);
    expect(faults[0]).toMatch(message);
    for (const part of text.split(/[:,]/)) if (part.length > 20) expect(faults[0]).not.toContain(part);
  });

  test('with all faults at once', () => {
    expect(faultsOf(`x,k:${KEY_BYTES},k:AAAA`)).toHaveLength(2);
  });
});

test('a generated key is valid, names its date, and differs from every other one', () => {
  const now = new Date('2026-11-21T23:59:59Z');
  const entry = generateEncryptionKey(now);
  expect(entry).toMatch(/^k20261121-[0-9a-f]{4}:[A-Za-z0-9_-]{43}$/);
  expect(parseEncryptionKeys(entry)).toHaveProperty('keys');
  expect(generateEncryptionKey(now)).not.toBe(entry);
});
