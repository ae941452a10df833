/** Times on pages relative to now. */
import { expect, test } from 'vitest';
import { relativeTime } from '../../../src/shared/pages/relative-time.ts';
import { createShow } from '../../../src/shared/pages/show.ts';

const NOW = Date.parse('2026-03-15T17:02:11Z');
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

test.each([
  [0, 'just now'],
  [-MINUTE + 1, 'just now'],
  [-MINUTE, '1 min ago'],
  [-1.4 * MINUTE, '1 min ago'],
  [-3.9 * HOUR, '4 hr ago'],
  [-DAY, '1 day ago'],
  [-47 * HOUR, '2 days ago'],
  [-99 * DAY, '99 days ago'],
  [-100 * DAY, '3 mo ago'],
  [-700 * DAY, '23 mo ago'],
  [-730 * DAY, '2 yr ago'],
  [1, 'in less than 1 min'],
  [5 * MINUTE, 'in 5 min'],
  [HOUR - 1, 'in 60 min'],
  [12.4 * DAY, 'in 12 days'],
  [30 * DAY - 1, 'in 30 days'],
  [90 * DAY - MINUTE, 'in 90 days'],
  [365 * DAY - 1, 'in 12 mo'],
])('a time %d ms from now is shown as "%s"', (distance, text) => {
  expect(relativeTime(NOW + distance, NOW)).toBe(text);
});

test('a page has the exact time as a tooltip', () => {
  const { ago } = createShow(() => NOW);
  expect(ago('2026-03-15T14:02:11.000Z')).toBe(
    '<time datetime="2026-03-15T14:02:11.000Z" title="15 March 2026 at 14:02 UTC">3 hr ago</time>',
  );
  expect([ago(null), ago(undefined, 'Never')]).toEqual(['–', 'Never']);
  expect(ago('"<script>')).toBe('&quot;&lt;script&gt;');
});
