/** Cuts long work into slices, between which requests are served. */
import { setImmediate as yieldToOthers } from 'node:timers/promises';

const SLICE_MS = 10;

/** To be asked often: once `isOver`, await `next`. */
export function createSlices() {
  let since = performance.now();
  return {
    isOver: (): boolean => performance.now() - since >= SLICE_MS,
    async next(): Promise<void> {
      await yieldToOthers();
      since = performance.now();
    },
  };
}
