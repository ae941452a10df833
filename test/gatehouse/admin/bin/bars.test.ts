/** The bars of the BIN data page: lengths, shares, and one bar for the rest; and its advice about the data set. */
import { expect, test } from 'vitest';
import { adviceFor, barsOf } from '../../../../src/gatehouse/admin/bin/routes.ts';

const shares = (...rows: number[]) => rows.map((count, at) => ({ key: `k${at}`, name: `N${at}`, rows: count }));

test('the longest bar has the full width, and every other is proportional and visible', () => {
  expect(barsOf(shares(2_000, 500, 1), 2_501)).toEqual([
    { key: 'k0', name: 'N0', rows: 2_000, length: 100, percent: '80.0 %' },
    { key: 'k1', name: 'N1', rows: 500, length: 25, percent: '20.0 %' },
    { key: 'k2', name: 'N2', rows: 1, length: 1, percent: '< 0.1 %' },
  ]);
  expect(barsOf(shares(1), 1_000)).toMatchObject([{ length: 100, percent: '0.1 %' }]);
});

test('shows up to twelve bars; of more, eleven and one for the others', () => {
  expect(barsOf(shares(...Array(12).fill(1)), 12)).toHaveLength(12);
  const bars = barsOf(shares(...Array(11).fill(2), 30, 10), 62);
  expect(bars).toHaveLength(12);
  expect(bars.at(-1)).toEqual({ key: null, name: '2 others', rows: 40, length: 100, percent: '64.5 %' });
  expect(bars[0]).toMatchObject({ name: 'N0', length: 5 });
});

test('a data set without rows has no bars', () => {
  expect(barsOf([], 0)).toEqual([]);
  expect(barsOf(shares(0), 0)).toMatchObject([{ length: 1, percent: '0.0 %' }]);
});

test.each([
  ['built_in', '2017-07-16', '2026-11-30', 2, true],
  ['import', '2024-02-03', '2026-11-30', 1, true],
  ['import', '2026-10-01', '2026-11-30', 0, false],
  // Outdated, but newer than what the command imports.
  ['import', '2025-02-11', '2028-01-01', 1, false],
  ['import', '2026-10-01', '2029-01-01', 1, false],
  ['file', '2024-02-03', '2026-11-30', 1, false],
] as const)(
  '%s data of %s, on %s: the command is shown only if it imports newer data',
  (origin, asOf, now, sentences, hasCommand) => {
    const { advice, importCommand } = adviceFor({ origin, asOf }, Date.parse(now));
    expect([advice.length, importCommand !== undefined]).toEqual([sentences, hasCommand]);
  },
);
