/** The forms that create and change a relay token. */
import { z } from 'zod';
import { type FormValues, type FormView, ticked, wholeNumber, words } from '../../../shared/pages/form.ts';
import {
  MAX_LISTED_USERS,
  RELAY_FLAGS,
  type RelayFlag,
  type RelayPolicy,
  type RelayScope,
} from '../../relay/policy.ts';
import type { RelayTokenInput } from '../../relay/relay-token.ts';
import { baseField } from '../editing.ts';
import {
  changedExpiryFields,
  chosenExpiry,
  expiryFields,
  FIRST_EXPIRY,
  hasExpiry,
  KEPT_EXPIRY,
  NO_EXPIRY,
} from '../expiry.ts';
import { newRelayToken } from './view.ts';

const TOO_MANY_USERS = `Enter at most ${MAX_LISTED_USERS.toLocaleString('en-GB')} users, or choose “All users”.`;
const BIN_CALLS_ADVICE = 'Enter a whole number of calls from 0 to 999999999, or nothing.';

const { name, scopes, apps, routes, networks } = newRelayToken.shape;

/** Stands for every route with GET. */
export const ALL_READS = '*';
const fields = {
  name,
  scopes: scopes.unwrap(),
  apps: apps.unwrap().unwrap(),
  /** Names, or `ALL_READS`. */
  routes: z.array(z.string()).pipe(
    z
      .array(z.string())
      .transform((names): RelayPolicy['routes'] => (names.includes(ALL_READS) ? 'reads' : names))
      .pipe(routes.unwrap()),
  ),
  users: z.enum(['none', 'listed', 'all'], 'Choose for which users.'),
  /** The e-mail addresses and ids of users. */
  listed: words.pipe(z.array(z.string().max(320)).max(MAX_LISTED_USERS, TOO_MANY_USERS)),
  networks: words.pipe(networks.unwrap().unwrap()),
  ...forEachFlag(() => ticked),
  binCallsPerMonth: z.union(
    [z.literal('').transform(() => null), wholeNumber(0, 999_999_999, BIN_CALLS_ADVICE)],
    BIN_CALLS_ADVICE,
  ),
};

function forEachFlag<T>(value: (flag: RelayFlag) => T) {
  return Object.fromEntries(RELAY_FLAGS.map((flag) => [flag, value(flag)])) as Record<RelayFlag, T>;
}

const hasUsers = ({ users, listed }: { users: string; listed: string[] }) => users !== 'listed' || listed.length > 0;
const NO_USERS = { path: ['listed'], error: 'Enter the users, or choose “All users” or “No users”.' };

/** BIN lookups need neither an app nor a user, and a service account can call the platform without a user. */
const hasScopeOf = (candidates: readonly RelayScope[], scopes: readonly RelayScope[]) =>
  scopes.some((scope) => candidates.includes(scope));
const NO_APP = { path: ['apps'], error: 'Choose a connected app. Without one, these scopes allow nothing.' };
const NEEDED_USERS = { path: ['users'], error: 'Choose users. Without any, these scopes allow nothing.' };

export const newTokenForm = z
  .object({ ...fields, ...expiryFields })
  .refine(hasExpiry, NO_EXPIRY)
  .refine(({ scopes, apps }) => apps.length > 0 || hasScopeOf(['bin:read'], scopes), NO_APP)
  .refine(
    ({ scopes, users }) => users !== 'none' || hasScopeOf(['bin:read', 'threads:read', 'api:call'], scopes),
    NEEDED_USERS,
  )
  .refine(hasUsers, NO_USERS)
  // Without this rule, the entered users would be ignored.
  .refine(({ users, listed }) => users === 'listed' || listed.length === 0, {
    path: ['listed'],
    error: 'Choose “Chosen users”, or empty this list.',
  });
/** The form that changes a token. */
export const tokenForm = z
  .object({ ...fields, ...changedExpiryFields, base: baseField })
  .refine(hasExpiry, NO_EXPIRY)
  .refine(hasUsers, NO_USERS);

/** Maps the fields of a token to form fields with another name. */
export const TOKEN_FIELDS = { expiresAt: 'expiresOn' } as const;

export const EMPTY_FORM: FormView<typeof newTokenForm> = {
  values: {
    name: '',
    scopes: ['threads:read'],
    apps: [],
    routes: [],
    users: 'none',
    listed: '',
    networks: '',
    ...FIRST_EXPIRY,
    ...forEachFlag(() => ''),
    binCallsPerMonth: '',
  },
  faults: [],
};

/** Returns the values of a token for the form. @param listed the users of the token, as the form shows them */
export function valuesOfToken(
  token: RelayTokenInput,
  listed: readonly string[],
): Omit<FormValues<typeof tokenForm>, 'base'> {
  const { users, routes: routeNames, networks: cidrs, binCallsPerMonth } = token;
  return {
    name: token.name,
    scopes: token.scopes,
    apps: token.apps,
    routes: routeNames === 'reads' ? [ALL_READS] : routeNames,
    users: typeof users === 'string' ? users : 'listed',
    listed: listed.join('\n'),
    networks: cidrs.join('\n'),
    ...KEPT_EXPIRY,
    ...forEachFlag((flag) => (token[flag] ? 'yes' : '')),
    binCallsPerMonth: binCallsPerMonth === null ? '' : String(binCallsPerMonth),
  };
}

type EnteredForm = Omit<z.output<typeof tokenForm>, 'base'>;

/** Converts the form to the input of a change. @param options as for `chosenExpiry` */
export function inputOf(
  { users, listed, expiry, expiresOn, confirmed, ...policy }: EnteredForm,
  options: Parameters<typeof chosenExpiry>[1],
): RelayTokenInput {
  return {
    ...policy,
    users: users === 'listed' ? listed : users,
    expiresAt: chosenExpiry({ expiry, expiresOn, confirmed }, options),
  };
}
