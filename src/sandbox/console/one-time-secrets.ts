/** Holds a new secret until a page has shown it once, for ten minutes at most. */

export interface OneTimeSecrets {
  put(key: string, secret: string): void;
  /** Returns the secret, and forgets it. */
  take(key: string): string | undefined;
}

const LIFETIME_MS = 10 * 60 * 1000;

export function createOneTimeSecrets({ now }: { now: () => number }): OneTimeSecrets {
  const secrets = new Map<string, { secret: string; untilMs: number }>();
  return {
    put(key, secret) {
      for (const [storedKey, { untilMs }] of secrets) if (untilMs <= now()) secrets.delete(storedKey);
      secrets.set(key, { secret, untilMs: now() + LIFETIME_MS });
    },
    take(key) {
      const entry = secrets.get(key);
      secrets.delete(key);
      return entry !== undefined && entry.untilMs > now() ? entry.secret : undefined;
    },
  };
}
