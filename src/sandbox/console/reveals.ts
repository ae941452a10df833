/** Owns secrets between the form that made them and the one page that shows them. */

export interface Reveals {
  keep(key: string, secret: string): void;
  /** The secret the first time, and never again. */
  take(key: string): string | undefined;
}

const KEPT_MS = 10 * 60 * 1000;

export function createReveals({ now }: { now: () => number }): Reveals {
  const kept = new Map<string, { secret: string; untilMs: number }>();
  return {
    keep(key, secret) {
      for (const [other, { untilMs }] of kept) if (untilMs <= now()) kept.delete(other);
      kept.set(key, { secret, untilMs: now() + KEPT_MS });
    },
    take(key) {
      const found = kept.get(key);
      kept.delete(key);
      return found !== undefined && found.untilMs > now() ? found.secret : undefined;
    },
  };
}
