/** Owns the holding of leases: renewed while the work lasts, released by its owner alone. */
import { randomUUID } from 'node:crypto';
import { patiently } from './patience.ts';
import type { Store } from './store.ts';

export interface Fence {
  lease: string;
  number: number;
}

export interface Leases {
  /**
   * Does the work under the lease if it can be had at once; answers undefined, with nothing done, while another holds it.
   * A holder that stops living loses it after `milliseconds`; one that was merely stopped may go on, and its fence then
   * refuses its writes.
   */
  hold<T>(lease: string, work: (fence: Fence) => Promise<T>): Promise<{ value: T } | undefined>;
}

const RELEASE_PAUSE_MILLISECONDS = 200;

/** @param parts `milliseconds`: how long a lease outlives its holder; it is renewed three times in that time */
export function createLeases(parts: { store: Store; milliseconds: number }): Leases {
  const { store, milliseconds } = parts;
  return {
    async hold(lease, work) {
      const owner = randomUUID();
      const number = await store.acquireLease(lease, owner, milliseconds);
      if (number === undefined) return undefined;
      // A renewal that fails is tried again at the next; what the work writes is fenced in any case.
      const renewal = setInterval(
        () => void store.renewLease(lease, owner, milliseconds).catch(() => undefined),
        milliseconds / 3,
      );
      try {
        return { value: await work({ lease, number }) };
      } finally {
        clearInterval(renewal);
        const release = () => store.releaseLease(lease, owner);
        // A store that is away for a moment is told once it is back, and keeps nobody waiting; after that it ends by itself.
        await release().catch(
          () => void patiently(release, milliseconds, RELEASE_PAUSE_MILLISECONDS).catch(() => undefined),
        );
      }
    },
  };
}
