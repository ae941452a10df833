/** Sealing: secrets at rest as compact JWE (RFC 7516, `dir` and `A256GCM` alone), each bound to its owner. */

import { createHash } from 'node:crypto';
import { CompactEncrypt, compactDecrypt } from 'jose';
import { parseObject } from '../json.ts';
import type { EncryptionKey, KeyRing } from './key-ring.ts';
import { kindOf } from './keys.ts';

export type SealReason = 'not_sealed' | 'unknown_key' | 'wrong_owner' | 'damaged';

/** Why a sealed value cannot be opened; the message holds nothing of the value. */
export class SealError extends Error {
  readonly reason: SealReason;

  constructor(reason: SealReason, options: ErrorOptions = {}) {
    super(MESSAGES[reason], options);
    this.name = 'SealError';
    this.reason = reason;
  }
}

export interface Sealer {
  /** `owner` is the key of the record that holds the value: opening demands the same one, and so does a key rotation. */
  seal(plaintext: string, owner: string): Promise<string>;
  /** Rejects with `SealError`. */
  open(sealed: string, owner: string): Promise<string>;
  /** The id of the key that sealed the value; undefined when it is not a sealed value. Not authenticated. */
  kidOf(sealed: string): string | undefined;
  /** The id of the key that seals now. */
  sealingKid: string;
  /** The ids of all keys that open. */
  kids: readonly string[];
}

interface Header {
  alg: string;
  enc: string;
  kid: string;
  own: string;
}

const MESSAGES: Record<SealReason, string> = {
  not_sealed: 'The value is not a sealed one.',
  unknown_key: 'The value was sealed with a key that ENCRYPTION_KEYS does not hold.',
  wrong_owner: 'The value was sealed for another owner.',
  damaged: 'The value was changed after it was sealed, or its key is not the one that sealed it.',
};

const ALG = 'dir';
const ENC = 'A256GCM';
const MAX_SEALED = 1_048_576;
/** Header, no encrypted key, 12 bytes of IV, ciphertext, 16 bytes of tag: nothing but `dir` and A256GCM has this form. */
const FORM = /^([A-Za-z0-9_-]{1,512})\.\.[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{22}$/;

/** @param kinds of records that may be sealed, where they are to be known: a new one then cannot be forgotten in the list */
export function createSealer(keyRing: KeyRing, kinds?: readonly string[]): Sealer {
  const keys = new Map(keyRing.kids.map((kid) => [kid, toCryptoKey(keyRing.find(kid))]));
  const sealingKid = keyRing.sealing.kid;
  const sealingKey = toCryptoKey(keyRing.sealing);

  return {
    sealingKid,
    kids: keyRing.kids,
    async seal(plaintext, owner) {
      if (kinds && !kinds.includes(kindOf(owner)))
        throw new TypeError(
          `Records of the kind "${kindOf(owner)}" are not among the sealed ones: list it in SEALED_KINDS.`,
        );
      const header: Header = { alg: ALG, enc: ENC, kid: sealingKid, own: ownerMark(owner) };
      const sealed = await new CompactEncrypt(Buffer.from(plaintext))
        .setProtectedHeader({ ...header })
        .encrypt(sealingKey);
      if (sealed.length > MAX_SEALED) throw new RangeError('The value is too long to be sealed.');
      return sealed;
    },
    async open(sealed, owner) {
      const header = readHeader(sealed);
      if (header === undefined) throw new SealError('not_sealed');
      const key = keys.get(header.kid);
      if (key === undefined) throw new SealError('unknown_key');
      const plaintext = await decrypt(sealed, key);
      // Compared after decryption: only then is the header known to be the one that was sealed.
      if (header.own !== ownerMark(owner)) throw new SealError('wrong_owner');
      return plaintext;
    },
    kidOf: (sealed) => readHeader(sealed)?.kid,
  };
}

/** The header if it has our four members and no other: no `zip`, no `p2c`, no `crit` comes as far as the JWE library. */
function readHeader(sealed: unknown): Header | undefined {
  if (typeof sealed !== 'string' || sealed.length > MAX_SEALED) return undefined;
  const encoded = FORM.exec(sealed)?.[1];
  const header = encoded === undefined ? undefined : parseObject(Buffer.from(encoded, 'base64url').toString());
  if (header === undefined || Object.keys(header).sort().join() !== 'alg,enc,kid,own') return undefined;
  const { alg, enc, kid, own } = header;
  if (alg !== ALG || enc !== ENC || typeof kid !== 'string' || typeof own !== 'string') return undefined;
  return { alg, enc, kid, own };
}

async function decrypt(sealed: string, key: CryptoKey): Promise<string> {
  try {
    const { plaintext } = await compactDecrypt(sealed, key, {
      keyManagementAlgorithms: [ALG],
      contentEncryptionAlgorithms: [ENC],
    });
    return Buffer.from(plaintext).toString();
  } catch (error) {
    throw new SealError('damaged', { cause: error });
  }
}

/** A digest, so that the sealed value does not show its owner. */
function ownerMark(owner: string): string {
  return createHash('sha256').update(owner).digest('base64url');
}

function toCryptoKey(entry: EncryptionKey | undefined): CryptoKey {
  if (entry === undefined) throw new TypeError('The key ring lists a key that it does not hold.');
  return entry.key.toCryptoKey({ name: 'AES-GCM' }, false, ['encrypt', 'decrypt']);
}
