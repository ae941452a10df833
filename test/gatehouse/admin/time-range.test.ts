/** The time range of a list, from a period, dates and times. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { PERIODS, rangeOf } from '../../../src/gatehouse/admin/time-range.ts';
import { anyText } from '../../support/any-text.ts';

const NOW = Date.parse('2026-11-21T08:00:00Z');
const day = fc.date({ min: new Date('2020-01-01'), max: new Date('2030-01-01'), noInvalidDate: true });
const dateOf = (date: Date) => date.toISOString().slice(0, 10);
const period = fc.constantFrom('', ...Object.keys(PERIODS));

test.each([
  [{}, undefined, undefined],
  [{ period: 'hour' }, '2026-11-21T07:00:00.000Z', undefined],
  [{ period: 'week', from: '2026-11-20' }, '2026-11-20T00:00:00.000Z', undefined],
  [{ period: 'hour', from: '2026-11-20' }, '2026-11-21T07:00:00.000Z', undefined],
  [{ from: '2026-11-20', to: '2026-11-20' }, '2026-11-20T00:00:00.000Z', '2026-11-20T23:59:59.999Z'],
  [{ from: '2026-11-20T10:00+02:00' }, '2026-11-20T08:00:00.000Z', undefined],
  [{ period: 'year', from: 'yesterday', to: '2026-02-31' }, undefined, undefined],
])('%j is from %s to %s', (fields, from, to) => {
  const range = rangeOf(fields, NOW);
  const textOf = (time: number | undefined) => time && new Date(time).toISOString();
  expect([textOf(range.from), textOf(range.to)]).toEqual([from, to]);
});

test('a date covers its day, and a period only narrows the range', () => {
  fc.assert(
    fc.property(day, day, period, (from, to, chosen) => {
      const dates = { from: dateOf(from), to: dateOf(to) };
      const [range, narrowed] = [rangeOf(dates, NOW), rangeOf({ ...dates, period: chosen }, NOW)];
      expect(range.from).toBeLessThanOrEqual(from.getTime());
      expect(range.to).toBeGreaterThanOrEqual(to.getTime());
      expect(narrowed.from).toBeGreaterThanOrEqual(range.from ?? 0);
      expect(narrowed.to).toBe(range.to);
    }),
  );
});

test('any other text limits nothing', () => {
  fc.assert(
    fc.property(anyText(20), anyText(20), anyText(20), (chosen, from, to) => {
      const range = rangeOf({ period: chosen, from, to }, NOW);
      for (const time of [range.from, range.to]) expect(time === undefined || Number.isFinite(time)).toBe(true);
    }),
  );
});
