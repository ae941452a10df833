/** Time-based one-time codes (RFC 6238) with the defaults of authenticator apps: SHA-1, 6 digits, 30 seconds. */
import { HOTP, Secret, TOTP } from 'otpauth';

export const STEP_SECONDS = 30;
const SECRET_BYTES = 20;

/** Creates a secret in base32, for authenticator apps. */
export function newTotpSecret(): string {
  return new Secret({ size: SECRET_BYTES }).base32;
}

export function isTotpSecret(text: string): boolean {
  return /^[A-Z2-7]{16,64}$/.test(text);
}

export function stepAt(milliseconds: number): number {
  return TOTP.counter({ period: STEP_SECONDS, timestamp: milliseconds });
}

/** Returns the code of a time step. */
export function codeAt(secret: string, step: number): string {
  return HOTP.generate({ secret: Secret.fromBase32(secret), counter: step });
}

/** Returns the URL for the link or the QR code that sets up an authenticator app. */
export function otpauthUrl(secret: string, login: string): string {
  return `otpauth://totp/Sandbox:${encodeURIComponent(login)}?secret=${secret}&issuer=Sandbox`;
}
