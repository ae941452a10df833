/** Holding a lease over a store that is slow: each command takes as long as it may. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { refreshTimes } from '../../../src/gatehouse/grants/refresh.ts';
import { createLeases } from '../../../src/shared/storage/lease.ts';
import type { Store } from '../../../src/shared/storage/store.ts';

const WORK_MILLISECONDS = 20_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Grants a lease at once and says so late, and takes a renewal late, as a disk that is slow now and then makes it. */
function slowStore(delayMilliseconds: number) {
  let until = 0;
  let wasLost = false;
  const late = () => new Promise((resolve) => setTimeout(resolve, delayMilliseconds));
  const store: Pick<Store, 'acquireLease' | 'renewLease' | 'releaseLease'> = {
    async acquireLease(_lease, _owner, milliseconds) {
      until = Date.now() + milliseconds;
      await late();
      return 1;
    },
    async renewLease(_lease, _owner, milliseconds) {
      await late();
      if (Date.now() >= until) wasLost = true;
      else until = Date.now() + milliseconds;
      return !wasLost;
    },
    releaseLease: async () => !wasLost,
  };
  return { store, wasLost: () => wasLost || Date.now() >= until };
}

test.each([300, 2_000, 3_000])(
  'F25: the lease of a refresh is kept where each command takes %i ms',
  async (deadline) => {
    const { store, wasLost } = slowStore(deadline);
    const leases = createLeases({ store, milliseconds: refreshTimes(deadline).leaseMilliseconds });
    const held = leases.hold('lease', async () => {
      await new Promise((resolve) => setTimeout(resolve, WORK_MILLISECONDS));
      return wasLost();
    });
    await vi.advanceTimersByTimeAsync(WORK_MILLISECONDS + 2 * deadline);
    expect(await held).toEqual({ value: false });
  },
);
