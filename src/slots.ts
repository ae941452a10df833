/**
 * Owns collections that every request enters and leaves. A Map or Set would do, were it not that it moves to a new table
 * after as many deletions as it has entries, and the old table, dead, holds the new one and whatever both held until the next
 * full garbage collection: half of all requests then outlive themselves (docs/performance.md).
 */

export interface Slots<T> {
  /** Answers the slot, which is nobody else's until `leave`. */
  enter(value: T): number;
  leave(slot: number): void;
  size(): number;
  /** In no order. */
  values(): T[];
}

export function createSlots<T extends object>(): Slots<T> {
  const slots: (T | undefined)[] = [];
  const free: number[] = [];
  return {
    enter(value) {
      const slot = free.pop() ?? slots.length;
      slots[slot] = value;
      return slot;
    },
    leave(slot) {
      if (slots[slot] === undefined) throw new RangeError(`Nothing is in slot ${slot}.`);
      slots[slot] = undefined;
      free.push(slot);
    },
    size: () => slots.length - free.length,
    values: () => slots.filter((value) => value !== undefined),
  };
}
