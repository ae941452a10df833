/** Reads `Retry-After` (RFC 9110 section 10.2.3), and other headers with the same content. */

const DEFAULT_MAX_SECONDS = 3_600;

/** The three forms of an HTTP date (RFC 9110 section 5.6.7). The day of the week is not compared with the date. */
const DATE_FORMS = [
  /^[a-z]{3}, (?<day>\d\d) (?<month>[a-z]{3}) (?<year>\d{4}) (?<time>\d\d:\d\d:\d\d) gmt$/i,
  /^[a-z]{6,9}, (?<day>\d\d)-(?<month>[a-z]{3})-(?<year>\d\d) (?<time>\d\d:\d\d:\d\d) gmt$/i,
  /^[a-z]{3} (?<month>[a-z]{3}) (?<day>[ \d]\d) (?<time>\d\d:\d\d:\d\d) (?<year>\d{4})$/i,
];

/**
 * Returns the whole seconds to wait, at most `maxSeconds`; 0 for a date in the past. Returns undefined without the
 * header, and for a value that is neither a number of seconds nor an HTTP date. Some servers send fractions of seconds.
 * @param now milliseconds since the epoch
 */
export function retryAfterSeconds(
  header: string | string[] | null | undefined,
  now: number,
  maxSeconds = DEFAULT_MAX_SECONDS,
): number | undefined {
  if (header === undefined || header === null) return undefined;
  const text = String(header).trim();
  const seconds = /^\d+(\.\d+)?$/.test(text) ? Number(text) : (timeOf(text, now) - now) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.ceil(Math.min(Math.max(seconds, 0), maxSeconds));
}

/** Returns the time of an HTTP date in milliseconds since the epoch; NaN if it is none. */
function timeOf(text: string, now: number): number {
  const groups = DATE_FORMS.map((form) => form.exec(text)?.groups).find(Boolean);
  if (!groups) return Number.NaN;
  const { day, month, year = '', time } = groups;
  return Date.parse(`${day} ${month} ${year.length === 2 ? fullYearOf(year, now) : year} ${time} GMT`);
}

/** Two digits are a year at most 50 years in the future (RFC 9110 section 5.6.7). */
function fullYearOf(digits: string, now: number): number {
  const thisYear = new Date(now).getUTCFullYear();
  const year = thisYear - (thisYear % 100) + Number(digits);
  return year > thisYear + 50 ? year - 100 : year;
}
