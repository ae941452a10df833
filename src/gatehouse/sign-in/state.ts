/** The `state` of an authorization request: dated and signed, to distinguish an expired from a forged one (R10). */
import { createHmac, timingSafeEqual } from 'node:crypto';

const RANDOM_BYTES = 16;
const MAC_BYTES = 16;
const PATTERN = /^([A-Za-z0-9_-]{22})\.([0-9a-z]{1,9})\.([A-Za-z0-9_-]{22})$/;

export interface StateSigner {
  useSecrets(newSecrets: readonly string[]): void;

  /** @param now milliseconds since the epoch */
  create(now: number): string;

  /** @returns the creation time in ms since the epoch, to the second; undefined if the state was not created here */
  createdAt(state: string): number | undefined;
}

/** @param parts `secrets`: the first one signs, and each of them verifies */
export function createStateSigner(parts: {
  secrets: readonly string[];
  randomBytes: (size: number) => Buffer;
}): StateSigner {
  const { randomBytes } = parts;
  let { secrets } = parts;
  const macOf = (secret: string, text: string) =>
    createHmac('sha256', secret).update(`authorization-state:${text}`).digest().subarray(0, MAC_BYTES);

  return {
    useSecrets(newSecrets) {
      secrets = newSecrets;
    },

    create(now) {
      const text = `${randomBytes(RANDOM_BYTES).toString('base64url')}.${Math.floor(now / 1000).toString(36)}`;
      return `${text}.${macOf(secrets[0] ?? '', text).toString('base64url')}`;
    },

    createdAt(state) {
      const [, random = '', time = '', mac = ''] = PATTERN.exec(state) ?? [];
      const actual = Buffer.from(mac, 'base64url');
      const isGenuine = secrets.some((secret) => {
        const expected = macOf(secret, `${random}.${time}`);
        return actual.length === expected.length && timingSafeEqual(actual, expected);
      });
      return isGenuine ? Number.parseInt(time, 36) * 1000 : undefined;
    },
  };
}
