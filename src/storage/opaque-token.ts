/** Our own opaque credentials: prefix, id, secret of 256 bits and a checksum, so that secret scanners can tell one. */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { hashOf } from './keys.ts';

export interface OpaqueToken {
  /** What finds the token's record; not secret. */
  id: string;
  /** Shown once, kept as `hashOf(secret)` alone. */
  secret: string;
}

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const ID_BYTES = 8;
const SECRET_BYTES = 32;
/** What 8 and 32 bytes and a CRC32 take in base 62. */
const ID_LENGTH = 11;
const SECRET_LENGTH = 43;
const CHECKSUM_LENGTH = 6;
const BODY = /^[0-9A-Za-z]{60}$/;
const ID = /^[0-9A-Za-z]{11}$/;

/**
 * A new token: `text` is what its holder keeps, and nobody can make it again.
 * @param prefix with its underscore, such as `gthr_`
 * @param options `id`: one that was drawn before, or that of an earlier token of which this one is the next secret
 */
export function createOpaqueToken(
  prefix: string,
  random: (bytes: number) => Buffer = randomBytes,
  options: { id?: string } = {},
): OpaqueToken & { text: string } {
  const id = options.id ?? newOpaqueTokenId(random);
  const secret = base62(random(SECRET_BYTES), SECRET_LENGTH);
  return { id, secret, text: `${prefix}${id}${secret}${checksum(prefix + id + secret)}` };
}

/**
 * The id of a token that is about to be made, so that its audit entry can name it. In base 62, since one hexadecimal id in
 * some thousands holds enough digits to be refused as a card number (R85).
 */
export function newOpaqueTokenId(random: (bytes: number) => Buffer = randomBytes): string {
  return base62(random(ID_BYTES), ID_LENGTH);
}

/** The parts of a token of that prefix; undefined for anything that cannot be one. Whether it is known is another question. */
export function parseOpaqueToken(prefix: string, text: string): OpaqueToken | undefined {
  if (!text.startsWith(prefix)) return undefined;
  const body = text.slice(prefix.length);
  if (!BODY.test(body)) return undefined;
  const signed = body.slice(0, ID_LENGTH + SECRET_LENGTH);
  if (checksum(prefix + signed) !== body.slice(signed.length)) return undefined;
  return { id: signed.slice(0, ID_LENGTH), secret: signed.slice(ID_LENGTH) };
}

/** True for what may be the id of such a token, so that nothing else becomes a part of a stored key. */
export function isOpaqueTokenId(text: string): boolean {
  return ID.test(text);
}

/** Compares a secret with the kept hash in constant time (R50). */
export function matchesHash(secret: string, hash: string): boolean {
  return isSameHash(Buffer.from(hashOf(secret)), hash);
}

/** The same with the secret's hash, for whoever remembers that. */
export function isSameHash(given: Buffer, hash: string): boolean {
  const kept = Buffer.from(hash);
  return given.length === kept.length && timingSafeEqual(given, kept);
}

function checksum(text: string): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(crc32(text));
  return base62(bytes, CHECKSUM_LENGTH);
}

function base62(bytes: Buffer, length: number): string {
  let rest = BigInt(`0x${bytes.toString('hex')}`);
  let text = '';
  for (let place = 0; place < length; place += 1) {
    text = DIGITS.charAt(Number(rest % 62n)) + text;
    rest /= 62n;
  }
  return text;
}
