/** Creates sealers with new random keys. */

import { type EncryptionKey, generateEncryptionKey, parseEncryptionKeys } from '../../src/shared/storage/key-ring.ts';
import { createSealer, type Sealer } from '../../src/shared/storage/sealed.ts';

export function makeKey(kid: string): EncryptionKey {
  const [, material] = generateEncryptionKey(new Date()).split(':');
  const parsed = parseEncryptionKeys(`${kid}:${material}`);
  const [key] = 'keys' in parsed ? parsed.keys : [];
  if (key === undefined) throw new Error('The generated key was refused.');
  return key;
}

export function makeSealer(...keys: EncryptionKey[]): Sealer {
  return createSealer(keys.length > 0 ? keys : [makeKey('k1')]);
}

/** Returns a sealer with the keys of a site. */
export function sealerOf(env: { ENCRYPTION_KEYS?: string | undefined }): Sealer {
  const parsed = parseEncryptionKeys(env.ENCRYPTION_KEYS ?? '');
  if ('faults' in parsed) throw new Error(parsed.faults.join(' '));
  return makeSealer(...parsed.keys);
}
