/** When a token expires, as forms ask for it: 30, 90 or 365 days from now, or the end of a day. */
import { z } from 'zod';
import { FormQuestion } from '../../shared/pages/form.ts';
import { dateText } from '../../shared/pages/show.ts';
import { DAY_MS, isoTime } from '../../shared/time.ts';

const LIFETIMES = ['30', '90', '365'] as const;
/** A later expiry is asked about. The end of the day a year from now is not. */
const MAX_UNASKED_MS = 366 * DAY_MS;

const choice = 'Choose when the token expires.';
/** `confirmed` is the expiry that the form has asked about. */
const others = { expiresOn: z.string().trim(), confirmed: z.string() };

export const expiryFields = { expiry: z.enum([...LIFETIMES, 'date'], choice), ...others };
/** For a token that exists, whose expiry can stay. */
export const changedExpiryFields = { expiry: z.enum(['keep', ...LIFETIMES, 'date'], choice), ...others };

export const FIRST_EXPIRY = { expiry: '90', expiresOn: '', confirmed: '' } as const;
export const KEPT_EXPIRY = { ...FIRST_EXPIRY, expiry: 'keep' } as const;

interface Entered {
  expiry: z.output<typeof changedExpiryFields.expiry>;
  expiresOn: string;
}

const isDay = (text: string): boolean => z.iso.date().safeParse(text).success;
const endOf = (day: string): number => Date.parse(`${day}T23:59:59Z`);

export const hasExpiry = ({ expiry, expiresOn }: Entered): boolean => expiry !== 'date' || isDay(expiresOn);

export const NO_EXPIRY = {
  path: ['expiresOn'],
  error: 'Enter a date such as 2027-01-31.',
  // Together with the faults of other fields, and not only after them.
  when: ({ value }: { value: unknown }) => typeof value === 'object' && value !== null,
};

/**
 * Returns the chosen expiry, in milliseconds since the epoch.
 * @param options.verb what the button does with a token that works for more than a year: "Create"
 * @param options.current the expiry of the token that is changed
 * @throws FormQuestion about a late expiry, unless the form has asked it
 */
export function chosenExpiry(
  { expiry, expiresOn, confirmed }: Entered & { confirmed: string },
  { now, verb, current = now }: { now: number; verb: string; current?: number },
): number {
  if (expiry === 'keep') return current;
  if (expiry !== 'date') return now + Number(expiry) * DAY_MS;
  const expiresAt = endOf(expiresOn);
  if (expiresAt - now <= MAX_UNASKED_MS || confirmed === isoTime(expiresAt)) return expiresAt;
  const years = Number(((expiresAt - now) / (365.25 * DAY_MS)).toFixed(1));
  const lifetime = years === 1 ? 'more than a year' : `${years} years`;
  throw new FormQuestion(isoTime(expiresAt), {
    text: `This token works for ${lifetime}, until ${dateText(isoTime(expiresAt))}. ${verb} it?`,
    field: 'expiresOn',
  });
}
