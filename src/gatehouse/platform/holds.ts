/** Holds back calls for a time, in all processes. */
import { remembered } from '../../shared/remembered.ts';
import type { Store } from '../../shared/storage/store.ts';

const CHANNEL = 'provider-budget';
const MAX_SECONDS = 3_600;
const MAX_HOLDS = 10_000;

export interface Holds {
  /** Holds back the calls with this name. */
  hold(name: string, seconds: number): void;

  /** Returns the whole seconds until no call with one of these names is held back. `names` is read only if any is. */
  secondsLeft(names: () => readonly string[]): number;

  /** Ends the subscription to the messages of other processes. */
  close(): Promise<void>;
}

export async function createHolds(parts: {
  store: Pick<Store, 'publish' | 'subscribe'>;
  clock: () => number;
}): Promise<Holds> {
  const { store, clock } = parts;
  /** When each hold ends, in milliseconds since the epoch. */
  const holds = remembered<number>(MAX_HOLDS);
  /** The latest of these times. */
  let lastEnd = 0;

  const extend = (name: string, until: number): boolean => {
    // Concurrent responses repeat each other.
    if ((holds.get(name) ?? 0) >= until - 1_000) return false;
    holds.set(name, until);
    lastEnd = Math.max(lastEnd, until);
    return true;
  };

  const unsubscribe = await store.subscribe(CHANNEL, (message) => {
    const { name, until } = JSON.parse(message) as { name: string; until: number };
    extend(name, until);
  });

  return {
    hold(name, seconds) {
      const until = clock() + Math.min(MAX_SECONDS, seconds) * 1000;
      if (!extend(name, until)) return;
      // A process that misses the message is refused by the provider itself.
      void store.publish(CHANNEL, JSON.stringify({ name, until })).catch(() => undefined);
    },

    secondsLeft(names) {
      const now = clock();
      if (now >= lastEnd) return 0;
      const seconds = names().map((name) => Math.ceil(((holds.get(name) ?? 0) - now) / 1000));
      // Caps the wait in case the clock was set back.
      return Math.min(MAX_SECONDS, Math.max(0, ...seconds));
    },

    close: unsubscribe,
  };
}
