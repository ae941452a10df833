/** Slots: whoever entered is there until they leave, and nobody has the slot of somebody else. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createSlots } from '../src/slots.ts';

describe('slots', () => {
  test('hold whoever entered and has not left, each in a slot of its own, in any order of coming and going', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.constant('enter' as const), fc.nat(20))), (steps) => {
        const slots = createSlots<object>();
        const inside: { slot: number; one: object }[] = [];
        for (const step of steps) {
          if (step === 'enter') {
            const one = {};
            inside.push({ slot: slots.enter(one), one });
          } else {
            const [gone] = inside.splice(step % (inside.length || 1), 1);
            if (gone) slots.leave(gone.slot);
          }
          expect(new Set(slots.values())).toEqual(new Set(inside.map(({ one }) => one)));
          expect(new Set(inside.map(({ slot }) => slot)).size).toBe(inside.length);
          expect(slots.size()).toBe(inside.length);
        }
      }),
    );
  });

  test('are used again, so that many who come and go take no more room than those who are there together', () => {
    const slots = createSlots<object>();
    const taken = Array.from({ length: 1_000 }, () => {
      const pair = [slots.enter({}), slots.enter({})];
      for (const slot of pair) slots.leave(slot);
      return pair;
    });
    expect(Math.max(...taken.flat())).toBe(1);
  });

  test('of nobody cannot be left: it may be somebody else’s by then', () => {
    const slots = createSlots<object>();
    const slot = slots.enter({});
    slots.leave(slot);
    expect(() => slots.leave(slot)).toThrow(RangeError);
  });
});
