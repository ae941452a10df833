/** The format of API keys: a prefix that users and secret scanners recognise, 256 random bits, and a checksum. */
import { crc32 } from 'node:zlib';

const PREFIX = 'gthb_';
const FORMAT = /^gthb_[A-Za-z0-9_-]{43}[0-9a-z]{7}$/;
const CHECKSUM_LENGTH = 7;

/** @param random 32 bytes */
export function createApiKey(random: Buffer): string {
  const text = `${PREFIX}${random.toString('base64url')}`;
  return text + checksumOf(text);
}

/** Returns whether the checksum matches, so that typing errors and most guesses need no read of the store. */
export function isApiKey(text: string): boolean {
  return FORMAT.test(text) && checksumOf(text.slice(0, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH);
}

/** Returns the part of a key that pages show, so that its owner can recognise it. */
export function keyHint(key: string): string {
  return `${key.slice(0, PREFIX.length + 4)}…${key.slice(-4)}`;
}

function checksumOf(text: string): string {
  return crc32(text).toString(36).padStart(CHECKSUM_LENGTH, '0');
}
