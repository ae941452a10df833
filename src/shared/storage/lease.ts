/** Does work under a lease, which is renewed during the work and released only by its owner. */
import { randomUUID } from 'node:crypto';
import { retryWhileUnavailable } from './retry.ts';
import type { Store } from './store.ts';

export interface Fence {
  lease: string;
  number: number;
}

interface HeldLease extends Fence {
  /** True once a renewal failed because the lease has expired: another owner may hold it. */
  isLost(): boolean;
}

export interface Leases {
  /**
   * Does the work if the lease is free; returns undefined and does nothing while another owner holds it. The lease of a
   * holder that dies expires after `milliseconds`. A holder that was only paused may continue, but the fence then
   * refuses its writes.
   */
  hold<T>(lease: string, work: (heldLease: HeldLease) => Promise<T>): Promise<{ value: T } | undefined>;
}

const RELEASE_PAUSE_MS = 200;

/**
 * @param parts `milliseconds`: the lifetime of a lease after its last renewal; it is renewed three times in that period
 */
export function createLeases(parts: {
  store: Pick<Store, 'acquireLease' | 'renewLease' | 'releaseLease'>;
  milliseconds: number;
}): Leases {
  const { store, milliseconds } = parts;

  /** Retries in the background while the store is unavailable. In the worst case the lease expires. */
  const release = async (lease: string, owner: string) => {
    const attempt = () => store.releaseLease(lease, owner);
    await attempt().catch(
      () => void retryWhileUnavailable(attempt, milliseconds, RELEASE_PAUSE_MS).catch(() => undefined),
    );
  };

  return {
    async hold(lease, work) {
      const owner = randomUUID();
      let number: number | undefined;
      let isLost = false;
      const renew = async () => {
        const isHeld = await store.renewLease(lease, owner, milliseconds);
        isLost ||= number !== undefined && !isHeld;
      };
      // Started before the lease is acquired, because the store's response may be late. A failed renewal is repeated at
      // the next interval, and the fence protects the writes of the work.
      const renewal = setInterval(() => void renew().catch(() => undefined), milliseconds / 3);
      try {
        number = await store.acquireLease(lease, owner, milliseconds);
        return number === undefined ? undefined : { value: await work({ lease, number, isLost: () => isLost }) };
      } finally {
        clearInterval(renewal);
        if (number !== undefined) await release(lease, owner);
      }
    },
  };
}
