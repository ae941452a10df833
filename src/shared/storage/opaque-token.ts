/**
 * Opaque credentials of Gatehouse: a prefix, an id, a secret of 256 bits, and a checksum by which scanners recognise
 * them.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { hashOf } from './keys.ts';

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const ID_BYTES = 8;
const SECRET_BYTES = 32;
/** The lengths of 8 bytes, 32 bytes and a CRC32 in base 62. */
const ID_LENGTH = 11;
const SECRET_LENGTH = 43;
const CHECKSUM_LENGTH = 6;
const BODY = /^[0-9A-Za-z]{60}$/;
const ID = /^[0-9A-Za-z]{11}$/;

/**
 * Creates a token. `id` is not secret and identifies the token's record; `secret` is stored only as `hashOf(secret)`;
 * `text` is shown once, to the holder.
 * @param prefix prefix with its underscore, such as `gthr_`
 * @param id id of the record: pass that of an existing token to give the token a new secret
 */
export function createOpaqueToken(prefix: string, id = newOpaqueTokenId()) {
  const secret = base62(randomBytes(SECRET_BYTES), SECRET_LENGTH);
  return { id, secret, text: `${prefix}${id}${secret}${checksum(prefix + id + secret)}` };
}

/**
 * Creates the id of a token that is not created yet, so that its audit entry can name it. The id is in base 62, because
 * some hexadecimal ids look like card numbers and would be refused (R85).
 */
export function newOpaqueTokenId(): string {
  return base62(randomBytes(ID_BYTES), ID_LENGTH);
}

/**
 * Returns the parts of a token with that prefix and a correct checksum; undefined for any other text. Does not look the
 * token up.
 */
export function parseOpaqueToken(prefix: string, text: string): { id: string; secret: string } | undefined {
  if (!text.startsWith(prefix)) return undefined;
  const body = text.slice(prefix.length);
  if (!BODY.test(body)) return undefined;
  const checkedText = body.slice(0, ID_LENGTH + SECRET_LENGTH);
  if (checksum(prefix + checkedText) !== body.slice(checkedText.length)) return undefined;
  return { id: checkedText.slice(0, ID_LENGTH), secret: checkedText.slice(ID_LENGTH) };
}

/** Returns whether the text has the form of an id. No other text may become part of a stored key. */
export function isOpaqueTokenId(text: string): boolean {
  return ID.test(text);
}

/** Compares a secret with the stored hash in constant time (R50). */
export function matchesHash(secret: string, hash: string): boolean {
  return isSameHash(Buffer.from(hashOf(secret)), Buffer.from(hash));
}

/** Compares two hashes in constant time, for a caller that has both in memory. */
export function isSameHash(hash: Buffer, storedHash: Buffer): boolean {
  return hash.length === storedHash.length && timingSafeEqual(hash, storedHash);
}

function checksum(text: string): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(crc32(text));
  return base62(bytes, CHECKSUM_LENGTH);
}

function base62(bytes: Buffer, length: number): string {
  let remaining = BigInt(`0x${bytes.toString('hex')}`);
  let text = '';
  for (let digit = 0; digit < length; digit += 1) {
    text = DIGITS.charAt(Number(remaining % 62n)) + text;
    remaining /= 62n;
  }
  return text;
}
