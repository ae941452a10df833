/** Time-based one-time codes (RFC 6238: SHA-1, 6 digits, 30 seconds, as in every authenticator app). */
import { createHmac, randomBytes } from 'node:crypto';

export const STEP_SECONDS = 30;
const DIGITS = 6;
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
const SECRET_BYTES = 20;

/** In base32, for authenticator apps. */
export function newTotpSecret(): string {
  return [...randomBytes((SECRET_BYTES * 8) / 5)].map((byte) => ALPHABET[byte % 32]).join('');
}

export function isTotpSecret(text: string): boolean {
  return /^[A-Z2-7]{16,64}$/.test(text);
}

export function stepAt(milliseconds: number): number {
  return Math.floor(milliseconds / 1000 / STEP_SECONDS);
}

/** The code of a time step, by RFC 4226 section 5.3. */
export function codeAt(secret: string, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const digest = createHmac('sha1', fromBase32(secret)).update(counter).digest();
  const offset = (digest.at(-1) ?? 0) & 0x0f;
  const number = digest.readUInt32BE(offset) & 0x7fffffff;
  return String(number % 10 ** DIGITS).padStart(DIGITS, '0');
}

/** The link or QR code for authenticator apps. */
export function otpauthUrl(secret: string, login: string): string {
  return `otpauth://totp/Sandbox:${encodeURIComponent(login)}?secret=${secret}&issuer=Sandbox`;
}

function fromBase32(text: string): Buffer {
  const bits = [...text].map((letter) => ALPHABET.indexOf(letter).toString(2).padStart(5, '0')).join('');
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
}
