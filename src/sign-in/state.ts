/** Owns the `state` of an authorization request: random, dated and signed, so that a stale one can be told from an invented one (R10). */
import { createHmac, timingSafeEqual } from 'node:crypto';

const RANDOM_BYTES = 16;
const MAC_BYTES = 16;
const FORM = /^([A-Za-z0-9_-]{22})\.([0-9a-z]{1,9})\.([A-Za-z0-9_-]{22})$/;

export interface StateSigner {
  /** @param now milliseconds since the epoch */
  create(now: number): string;
  /** Answers when the state was made (milliseconds, to the second), or undefined where it is not one of ours. */
  madeAt(state: string): number | undefined;
}

/** @param secrets the first signs, all verify */
export function createStateSigner(parts: {
  secrets: readonly string[];
  randomBytes: (size: number) => Buffer;
}): StateSigner {
  const { secrets, randomBytes } = parts;
  const macOf = (secret: string, text: string) =>
    createHmac('sha256', secret).update(`authorization-state:${text}`).digest().subarray(0, MAC_BYTES);

  return {
    create(now) {
      const text = `${randomBytes(RANDOM_BYTES).toString('base64url')}.${Math.floor(now / 1000).toString(36)}`;
      return `${text}.${macOf(secrets[0] ?? '', text).toString('base64url')}`;
    },
    madeAt(state) {
      const [, random = '', time = '', mac = ''] = FORM.exec(state) ?? [];
      const given = Buffer.from(mac, 'base64url');
      const genuine = secrets.some((secret) => {
        const expected = macOf(secret, `${random}.${time}`);
        return given.length === expected.length && timingSafeEqual(given, expected);
      });
      return genuine ? Number.parseInt(time, 36) * 1000 : undefined;
    },
  };
}
