/** Leases on a slow store, on which each command takes as long as the deadline allows. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { refreshTimes } from '../../../src/gatehouse/grants/refresh.ts';
import { createLeases } from '../../../src/shared/storage/lease.ts';
import type { Store } from '../../../src/shared/storage/store.ts';

const WORK_MILLISECONDS = 20_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Acquires a lease at once but responds late, and renews it late, like a store on a slow disk. */
function slowStore(delayMilliseconds: number) {
  let until = 0;
  let wasLost = false;
  const respondLate = () => new Promise((resolve) => setTimeout(resolve, delayMilliseconds));
  const store: Pick<Store, 'acquireLease' | 'renewLease' | 'releaseLease'> = {
    async acquireLease(_lease, _owner, milliseconds) {
      until = Date.now() + milliseconds;
      await respondLate();
      return 1;
    },
    async renewLease(_lease, _owner, milliseconds) {
      await respondLate();
      if (Date.now() >= until) wasLost = true;
      else until = Date.now() + milliseconds;
      return !wasLost;
    },
    releaseLease: async () => !wasLost,
  };
  return { store, wasLost: () => wasLost || Date.now() >= until };
}

test.each([300, 2_000, 3_000])('F25: a refresh keeps its lease if each command takes %i ms', async (deadline) => {
  const { store, wasLost } = slowStore(deadline);
  const leases = createLeases({ store, milliseconds: refreshTimes(deadline).leaseMilliseconds });
  const result = leases.hold('lease', async () => {
    await new Promise((resolve) => setTimeout(resolve, WORK_MILLISECONDS));
    return wasLost();
  });
  await vi.advanceTimersByTimeAsync(WORK_MILLISECONDS + 2 * deadline);
  expect(await result).toEqual({ value: false });
});
