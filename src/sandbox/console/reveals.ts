/** Holds each new secret until a page shows it, once. */

export interface Reveals {
  put(key: string, secret: string): void;
  /** Returns the secret only once. */
  take(key: string): string | undefined;
}

const LIFETIME_MS = 10 * 60 * 1000;

export function createReveals({ now }: { now: () => number }): Reveals {
  const secrets = new Map<string, { secret: string; untilMs: number }>();
  return {
    put(key, secret) {
      for (const [other, { untilMs }] of secrets) if (untilMs <= now()) secrets.delete(other);
      secrets.set(key, { secret, untilMs: now() + LIFETIME_MS });
    },
    take(key) {
      const entry = secrets.get(key);
      secrets.delete(key);
      return entry !== undefined && entry.untilMs > now() ? entry.secret : undefined;
    },
  };
}
