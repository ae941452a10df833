/** The time limits of a search or an export of the audit trail. A date covers the whole day in UTC. */
import { DAY_MS, isoTime } from '../../shared/time.ts';

export const TIME_ADVICE = 'Use a date such as 2026-11-21, or a time such as 2026-11-21T08:00:00Z.';

export const RANGE_ADVICE = 'The range ends before it begins. Use a later time.';

const DATE = /^\d{4}-\d{2}-\d{2}$/;
/** The offset is required, because the server and the user may have different time zones. */
const TIME = /^(\d{4}-\d{2}-\d{2})T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/;

/** Returns milliseconds since the epoch; undefined for any other text. */
export function startOf(text: string): number | undefined {
  return DATE.test(text) ? dayOf(text) : timeOf(text);
}

/** Returns the last millisecond that counts; undefined for any other text. */
export function endOf(text: string): number | undefined {
  const day = DATE.test(text) ? dayOf(text) : undefined;
  return day === undefined ? timeOf(text) : day + DAY_MS - 1;
}

/** Returns false if the range has no instant. */
export const isRange = ({ from = '', to = '' }: { from?: string | undefined; to?: string | undefined }): boolean =>
  (startOf(from) ?? Number.NEGATIVE_INFINITY) <= (endOf(to) ?? Number.POSITIVE_INFINITY);

/** Returns undefined for a day that does not exist: `Date.parse` reads 2026-02-31 as 3 March. */
function dayOf(date: string): number | undefined {
  const day = Date.parse(`${date}T00:00:00Z`);
  return !Number.isNaN(day) && isoTime(day).startsWith(date) ? day : undefined;
}

function timeOf(text: string): number | undefined {
  const [, date] = TIME.exec(text) ?? [];
  if (date === undefined || dayOf(date) === undefined) return undefined;
  const time = Date.parse(text);
  return Number.isNaN(time) ? undefined : time;
}
