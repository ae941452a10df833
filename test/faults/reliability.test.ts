/** The table of faults: failed and missing tests do not count as held. */
import { expect, test } from 'vitest';
import { faultTable } from './reliability.ts';

const PROMISES =
  '| R1 | ✓ | a promise |\n| F2 | ✓ | two at once | 1 hit |\n| F3 | ✓ | stopped | holds |\n| F4 |   | killed | 503 |';

test('each fault has the number of its tests and their result', () => {
  const passed = ['suite > F2: two at once', 'suite > F3: stopped', 'F1 to F22 at random > 600 s'];
  expect(faultTable(PROMISES, passed, ['suite > R35, F3: resumed']).split('\n').slice(2)).toEqual([
    '| F2 | two at once | 1 | held |',
    '| F3 | stopped | 2 | 1 FAILED |',
    '| F4 | killed | 0 | not tried |',
  ]);
});
