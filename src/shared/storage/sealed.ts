/**
 * Seals secrets at rest as compact JWE (RFC 7516, only `dir` and `A256GCM`), each bound to the record that holds it.
 */
import { createHash, type KeyObject } from 'node:crypto';
import { CompactEncrypt, compactDecrypt } from 'jose';
import { parseObject } from '../json.ts';
import type { EncryptionKey } from './key-ring.ts';
import { kindOf } from './keys.ts';

export type SealReason = 'not_sealed' | 'unknown_key' | 'wrong_owner' | 'damaged';

/** The error for a value that cannot be opened. Its message contains no part of the value. */
export class SealError extends Error {
  readonly reason: SealReason;

  constructor(reason: SealReason, options: ErrorOptions = {}) {
    super(MESSAGES[reason], options);
    this.name = 'SealError';
    this.reason = reason;
  }
}

/** Seals texts. `owner`: the key of the record that holds the value; only the same owner can open it. */
export interface Sealer {
  /** The id of the key that seals. */
  readonly sealingKid: string;
  /** The ids of all keys that open. */
  readonly kids: readonly string[];
  seal(plaintext: string, owner: string): Promise<string>;
  /** @throws SealError */
  open(sealed: string, owner: string): Promise<string>;
  /**
   * Returns the id of the key that sealed the value, without authenticating it; undefined if the value is not sealed.
   */
  kidOf(sealed: string): string | undefined;
}

/** A sealer whose keys can be replaced while it is used. */
export interface ReplaceableSealer extends Sealer {
  /** Returns a sealer with the present keys, for work that must end with the keys with which it began. */
  current(): Sealer;
  replace(next: Sealer): void;
}

interface Header {
  alg: string;
  enc: string;
  kid: string;
  own: string;
}

const MESSAGES: Record<SealReason, string> = {
  not_sealed: 'The value is not sealed.',
  unknown_key: 'The value was sealed with a key that is not in ENCRYPTION_KEYS.',
  wrong_owner: 'The value was sealed for another owner.',
  damaged: 'The value was changed after it was sealed, or another key with the same id sealed it.',
};

const ALG = 'dir';
const ENC = 'A256GCM';
const MAX_SEALED = 1_048_576;
/** Header, no encrypted key, 12 bytes of IV, ciphertext, 16 bytes of tag: only `dir` with A256GCM has this form. */
const FORM = /^([A-Za-z0-9_-]{1,512})\.\.[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{22}$/;

/**
 * @param encryptionKeys the first seals, all open
 * @param kinds the kinds of records that may be sealed; default all. Any other kind fails at its first write
 */
export function createSealer(encryptionKeys: readonly EncryptionKey[], kinds?: readonly string[]): Sealer {
  const [firstKey] = encryptionKeys;
  if (firstKey === undefined) throw new TypeError('A sealer needs at least one key.');
  const keys = new Map(encryptionKeys.map(({ kid, key }) => [kid, toCryptoKey(key)]));
  const sealingKid = firstKey.kid;
  const sealingKey = toCryptoKey(firstKey.key);

  return {
    sealingKid,
    kids: [...keys.keys()],
    async seal(plaintext, owner) {
      if (kinds && !kinds.includes(kindOf(owner)))
        throw new TypeError(`Records of the kind "${kindOf(owner)}" may not be sealed. Add the kind to SEALED_KINDS.`);
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
      // Compared after decryption, which authenticates the header.
      if (header.own !== ownerMark(owner)) throw new SealError('wrong_owner');
      return plaintext;
    },
    kidOf: (sealed) => readHeader(sealed)?.kid,
  };
}

export function createReplaceableSealer(initial: Sealer): ReplaceableSealer {
  let current = initial;
  return {
    get sealingKid() {
      return current.sealingKid;
    },
    get kids() {
      return current.kids;
    },
    seal: (plaintext, owner) => current.seal(plaintext, owner),
    open: (sealed, owner) => current.open(sealed, owner),
    kidOf: (sealed) => current.kidOf(sealed),
    current: () => current,
    replace(next) {
      current = next;
    },
  };
}

/**
 * Accepts a header only if it has exactly our four members, so that no `zip`, `p2c` or `crit` reaches the JWE library.
 */
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

/** Returns a digest of the owner, so that the sealed value does not reveal the owner. */
function ownerMark(owner: string): string {
  return createHash('sha256').update(owner).digest('base64url');
}

function toCryptoKey(key: KeyObject): CryptoKey {
  return key.toCryptoKey({ name: 'AES-GCM' }, false, ['encrypt', 'decrypt']);
}
