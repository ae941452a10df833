/** The forms that create, change and rotate a relay token. */
import { z } from 'zod';
import { type FormValues, type FormView, recordVersion, ticked, wholeNumber, words } from '../../pages/form.ts';
import { listedUsers, RELAY_FLAGS, type RelayFlag } from '../../relay/policy.ts';
import type { RelayToken, WantedRelayToken } from '../../relay/relay-token.ts';
import { DAY_MS } from '../../time.ts';
import { MAX_OVERLAP_SECONDS, wantedRelayToken } from './view.ts';

const DAYS = 'Enter a number of days from 1 to 9999.';
const BIN_CALLS = 'Enter a whole number of calls from 0 to 999999999, or nothing.';

const { name, scopes, apps, networks } = wantedRelayToken.shape;
const days = wholeNumber(1, 9_999, DAYS);
const unchanged = z.literal('').transform(() => undefined);
/** In the order of the page: faults are listed in it. */
const fields = {
  name,
  scopes: scopes.unwrap(),
  apps: apps.unwrap().unwrap(),
  users: z.enum(['none', 'listed', 'all'], 'Choose for which users.'),
  listed: words.pipe(listedUsers),
  networks: words.pipe(networks.unwrap().unwrap()),
  days,
  ...forEachFlag(() => ticked),
  binCallsPerMonth: z.union([z.literal('').transform(() => null), wholeNumber(0, 999_999_999, BIN_CALLS)], BIN_CALLS),
};

function forEachFlag<T>(value: (flag: RelayFlag) => T) {
  return Object.fromEntries(RELAY_FLAGS.map((flag) => [flag, value(flag)])) as Record<RelayFlag, T>;
}

const hasUsers = ({ users, listed }: { users: string; listed: string[] }) => users !== 'listed' || listed.length > 0;
const NO_USERS = { path: ['listed'], error: 'Enter at least one user id, or choose other users.' };

export const newTokenForm = z.object(fields).refine(hasUsers, NO_USERS);
/** Without days the token keeps its end. */
export const tokenForm = z
  .object({ ...fields, days: z.union([unchanged, days], DAYS), version: recordVersion })
  .refine(hasUsers, NO_USERS);

const MAX_OVERLAP_HOURS = MAX_OVERLAP_SECONDS / 3_600;
const HOURS = `Enter a whole number of hours from 0 to ${MAX_OVERLAP_HOURS}.`;

export const rotationForm = z.object({ overlapHours: wholeNumber(0, MAX_OVERLAP_HOURS, HOURS) });

/** The forms' field for each field of a token that has another name. */
export const TOKEN_FIELDS = { expiresAt: 'days' } as const;

export const EMPTY_FORM: FormView<typeof newTokenForm> = {
  values: {
    name: '',
    scopes: ['threads:read'],
    apps: [],
    users: 'none',
    listed: '',
    networks: '',
    days: '90',
    ...forEachFlag(() => ''),
    binCallsPerMonth: '',
  },
  faults: [],
};

export const FIRST_ROTATION: FormView<typeof rotationForm> = { values: { overlapHours: '1' }, faults: [] };

export function valuesOfToken(token: RelayToken): FormValues<typeof tokenForm> {
  const { users, networks: cidrs, binCallsPerMonth } = token;
  const isListed = typeof users !== 'string';
  return {
    name: token.name,
    scopes: token.scopes,
    apps: token.apps,
    users: isListed ? 'listed' : users,
    listed: isListed ? users.join('\n') : '',
    networks: cidrs.join('\n'),
    days: '',
    ...forEachFlag((flag) => (token[flag] ? 'yes' : '')),
    binCallsPerMonth: binCallsPerMonth === null ? '' : String(binCallsPerMonth),
    version: String(token.version),
  };
}

type Typed = Omit<z.output<typeof tokenForm>, 'version'>;

/** @param now milliseconds since the epoch: days count from it. @param expiresAt the end of a token that keeps it */
export function inputOf(
  { days: count, users, listed, ...typed }: Typed,
  now: number,
  expiresAt = now,
): WantedRelayToken {
  return {
    ...typed,
    users: users === 'listed' ? listed : users,
    expiresAt: count === undefined ? expiresAt : now + count * DAY_MS,
  };
}
