/** The time limits of the audit trail, which pages, the API and commands share. */
import { expect, test } from 'vitest';
import { endOf, startOf } from '../../../src/gatehouse/audit/time-limits.ts';

test.each([
  ['2026-11-21', '2026-11-21T00:00:00.000Z', '2026-11-21T23:59:59.999Z'],
  ['2028-02-29', '2028-02-29T00:00:00.000Z', '2028-02-29T23:59:59.999Z'],
  ['2026-11-21T08:00Z', '2026-11-21T08:00:00.000Z', '2026-11-21T08:00:00.000Z'],
  ['2026-11-21T08:00:00.5+02:00', '2026-11-21T06:00:00.500Z', '2026-11-21T06:00:00.500Z'],
])('parses %s as a time from %s to %s', (text, start, end) => {
  expect([startOf(text), endOf(text)]).toEqual([Date.parse(start), Date.parse(end)]);
});

test.each([
  '',
  'soon',
  '2026',
  '2026-13-01',
  '2026-02-31',
  '2020-99-99',
  '2026-02-31T08:00:00Z',
  '2026-11-21T25:00:00Z',
  '2026-11-21T08:00:00',
  '21 November 2026',
])('refuses %j', (text) => {
  expect([startOf(text), endOf(text)]).toEqual([undefined, undefined]);
});
