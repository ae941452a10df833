/** Owns the form of an API key: a prefix that people and scanners recognise, 256 random bits, and a checksum. Pure. */
import { crc32 } from 'node:zlib';

const PREFIX = 'gthb_';
const FORM = /^gthb_[A-Za-z0-9_-]{43}[0-9a-z]{7}$/;
const CHECKSUM_LENGTH = 7;

/** @param random 32 bytes */
export function makeApiKey(random: Buffer): string {
  const text = `${PREFIX}${random.toString('base64url')}`;
  return text + checksumOf(text);
}

/** False for what cannot be a key: typing errors and guesses are refused without asking the store. */
export function isApiKey(text: string): boolean {
  return FORM.test(text) && checksumOf(text.slice(0, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH);
}

/** What may be shown of a key later, so that its owner knows which one it is. */
export function keyHint(key: string): string {
  return `${key.slice(0, PREFIX.length + 4)}…${key.slice(-4)}`;
}

function checksumOf(text: string): string {
  return crc32(text).toString(36).padStart(CHECKSUM_LENGTH, '0');
}
