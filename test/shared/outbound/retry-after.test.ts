import { afterEach, describe, expect, test } from 'vitest';
import { retryAfterSeconds } from '../../../src/shared/outbound/retry-after.ts';

const NOW = Date.parse('2026-11-30T02:00:00Z');
const zone = process.env.TZ;
afterEach(() => {
  if (zone === undefined) delete process.env.TZ;
  else process.env.TZ = zone;
});

describe('R41 Retry-After', () => {
  test.each<[string, string | string[] | null | undefined, number | undefined]>([
    ['no header', undefined, undefined],
    ['no header of a Response', null, undefined],
    ['nothing', '', undefined],
    ['seconds', '120', 120],
    ['seconds with spaces around', ' 120 ', 120],
    ['leading zeros', '007', 7],
    ['a fraction of a second', '1.2', 2],
    ['now', '0', 0],
    ['a date', 'Mon, 30 Nov 2026 02:02:00 GMT', 120],
    ['a date, rounded up', 'Mon, 30 Nov 2026 02:00:01 GMT', 1],
    ['a date in lower case', 'mon, 30 nov 2026 02:02:00 gmt', 120],
    ['a date of the wrong weekday', 'Fri, 30 Nov 2026 02:02:00 GMT', 120],
    ['a date of RFC 850', 'Monday, 30-Nov-26 02:02:00 GMT', 120],
    ['a date of asctime', 'Mon Nov 30 02:02:00 2026', 120],
    ['a date of asctime in the next month', 'Tue Dec  1 00:00:00 2026', 3_600],
    ['a date in the past', 'Sun, 29 Nov 2026 02:00:00 GMT', 0],
    ['a date of RFC 850 in the past', 'Sunday, 06-Nov-94 08:49:37 GMT', 0],
    ['a date of asctime in the past', 'Sun Nov  6 08:49:37 1994', 0],
    ['a year', '31536000', 3_600],
    ['more digits than a number has', '9'.repeat(400), 3_600],
    ['a date in 1,000 years', 'Mon, 30 Nov 3026 02:00:00 GMT', 3_600],
    ['a negative number', '-5', undefined],
    ['an exponent', '1e3', undefined],
    ['a hexadecimal number', '0x10', undefined],
    ['infinity', 'Infinity', undefined],
    ['a unit', '120s', undefined],
    ['a word', 'soon', undefined],
    ['a word that Date.parse takes for a date', 'soon 5', undefined],
    ['a year alone, with a word', 'year 2099', undefined],
    ['a date of ISO 8601', '2026-11-30T02:02:00Z', undefined],
    ['a date with another zone', 'Mon, 30 Nov 2026 02:02:00 PST', undefined],
    ['a date without a month of that name', 'Mon, 30 Nox 2026 02:02:00 GMT', undefined],
    ['a date with an hour too many', 'Mon, 30 Nov 2026 25:02:00 GMT', undefined],
    ['two headers', ['1', '2'], undefined],
    ['two headers in one', '1, 2', undefined],
  ])('%s', (_name, header, seconds) => {
    for (const timeZone of ['UTC', 'America/Los_Angeles']) {
      process.env.TZ = timeZone;
      expect(retryAfterSeconds(header, NOW)).toBe(seconds);
    }
  });

  test('the caller can allow a longer wait', () => {
    expect(retryAfterSeconds('99999999', NOW, 86_400)).toBe(86_400);
    expect(retryAfterSeconds('Tue, 01 Dec 2026 00:00:00 GMT', NOW, 86_400)).toBe(22 * 3_600);
  });

  test.each([
    ['26', 2026],
    ['76', 2076],
    ['77', 1977],
  ])('two digits of a year, %s, mean %i', (digits, year) => {
    const seconds = (Date.UTC(year, 10, 30, 2, 0, 9) - NOW) / 1000;
    expect(retryAfterSeconds(`Monday, 30-Nov-${digits} 02:00:09 GMT`, NOW, 1e10)).toBe(Math.max(0, seconds));
  });
});
