/** Figures of a range are compared with an equally long time before it. */
import { describe, expect, test } from 'vitest';
import { chartsOf } from '../../../../src/gatehouse/admin/overview/charts.ts';
import { figuresOf } from '../../../../src/gatehouse/admin/overview/figures.ts';
import { keyFigures } from '../../../../src/gatehouse/admin/overview/key-figures.ts';

const HOUR = 3_600_000;
const START = Date.parse('2026-03-01T00:00:00Z');
const iso = (time: number) => new Date(time).toISOString();

test('an hour that has just begun is compared with the same part of the earlier hour', () => {
  // There were 10 sign-ins in each of 47 hours, and 3 in the first quarter of the last hour.
  const intervals = Array.from({ length: 48 }, (_, hour) => ({
    at: iso(START + hour * HOUR),
    counts: { 'sign_in.succeeded': hour === 47 ? 3 : 10 },
  }));

  const figures = figuresOf(intervals, 'day', START + 47.25 * HOUR);

  expect(figures.intervals).toHaveLength(24);
  expect(figures.total).toEqual({ 'sign_in.succeeded': 233 });
  // 23 whole hours, and a quarter of the 10 of an hour, rounded.
  expect(figures.previousTotal).toEqual({ 'sign_in.succeeded': 233 });
});

test('missing counts are zero, and a clock that was set back causes no error', () => {
  const intervals = Array.from({ length: 24 }, (_, number) => ({ at: iso(START + number * 300_000), counts: {} }));
  expect(figuresOf(intervals, 'hour', START)).toMatchObject({ total: {}, previousTotal: {} });
  const figures = keyFigures({ from: iso(START), total: {}, previousTotal: {} });
  expect(figures.map(({ value, previous, parts }) => [value, previous, ...parts.map((part) => part.value)])).toEqual([
    [0, 0],
    [0, 0],
    [0, 0],
  ]);
});

describe('a chart', () => {
  const chartOf = (countsOfHours: Record<string, number>[]) =>
    chartsOf(countsOfHours.map((counts, hour) => ({ at: iso(START + hour * HOUR), counts })))[0];

  test('stacks visible bars below a round maximum', () => {
    const chart = chartOf([{ 'sign_in.succeeded': 1_150, 'sign_in.failed': 1 }, { 'sign_in.refused': 3 }]);
    expect(chart?.ticks).toEqual([2_000, 1_000, 0]);
    expect(chart?.totals).toEqual([1_150, 3, 1]);
    const [first, second] = chart?.bars ?? [];
    expect(first?.parts.map(({ y, height }) => [y, height])).toEqual([
      [51, 69],
      [51, 0],
      [49, 2],
    ]);
    expect(second?.parts.map(({ height }) => height)).toEqual([0, 2, 0]);
  });

  test('without counts has a table but no bars', () => {
    expect(chartOf([{}, {}])).toMatchObject({ bars: [], rows: [{ values: [0, 0, 0] }, { values: [0, 0, 0] }] });
  });

  test.each([
    [1, [1, 0]],
    [2, [2, 1, 0]],
    [3, [4, 2, 0]],
    [5, [6, 3, 0]],
    [450, [600, 300, 0]],
    [801, [1_000, 500, 0]],
  ])('with a largest bar of %i has the ticks %j', (largest, ticks) => {
    expect(chartOf([{ 'sign_in.succeeded': largest }])?.ticks).toEqual(ticks);
  });

  test.each([7, 12, 24, 30])('of %i bars has labels at equal distances', (count) => {
    const times = chartOf(Array.from({ length: count }, () => ({})))?.times.map((at) => Date.parse(at)) ?? [];
    const distance = (count * HOUR) / times.length;
    expect(times).toEqual(times.map((_time, index) => START + index * distance));
    expect(times.length).toBeGreaterThan(3);
  });
});
