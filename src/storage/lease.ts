/** The holding of leases: renewed while the work lasts, released by its owner alone. */
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
export function createLeases(parts: {
  store: Pick<Store, 'acquireLease' | 'renewLease' | 'releaseLease'>;
  milliseconds: number;
}): Leases {
  const { store, milliseconds } = parts;

  /** Retries in the background while the store is unavailable. If it stays so, the lease ends by itself. */
  const release = async (lease: string, owner: string) => {
    const attempt = () => store.releaseLease(lease, owner);
    await attempt().catch(
      () => void patiently(attempt, milliseconds, RELEASE_PAUSE_MILLISECONDS).catch(() => undefined),
    );
  };

  return {
    async hold(lease, work) {
      const owner = randomUUID();
      let number: number | undefined;
      // Counted from when the lease was asked for, since the store may have given it long before it says so. A renewal that
      // fails is tried again at the next; what the work writes is fenced in any case.
      const renewal = setInterval(
        () => void store.renewLease(lease, owner, milliseconds).catch(() => undefined),
        milliseconds / 3,
      );
      try {
        number = await store.acquireLease(lease, owner, milliseconds);
        return number === undefined ? undefined : { value: await work({ lease, number }) };
      } finally {
        clearInterval(renewal);
        if (number !== undefined) await release(lease, owner);
      }
    },
  };
}
