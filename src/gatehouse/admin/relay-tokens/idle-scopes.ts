/** Finds the scopes of a relay token that no call can use, because an app, a user or a platform is missing, and a call that it can make. */
import { z } from 'zod';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import type { RelayPolicy } from '../../relay/policy.ts';
import type { RelayToken } from '../../relay/relay-token.ts';
import type { ServiceAccounts } from '../../relay/service-account.ts';
import type { UserStore } from '../../users/user-store.ts';
import type { ExampleCall } from '../policy/example-calls.ts';

export const idleScopesJson = z
  .array(z.object({ scope: z.string(), reason: z.string() }))
  .describe('scopes that no call can use now, and why');

export type IdleScopes = z.output<typeof idleScopesJson>;

/** Of a long list: one that is enabled among the first suffices, and as a rule the first read finds it. */
const MAX_USERS_READ = 100;
const USERS_AT_ONCE = 10;

export async function idleScopesOf(
  parts: {
    apps: Pick<CurrentApps, 'find'>;
    accounts: Pick<ServiceAccounts, 'page'>;
    users: Pick<UserStore, 'stateOf'>;
  },
  { scopes, apps: appIds, users }: Pick<RelayPolicy, 'scopes' | 'apps' | 'users'>,
): Promise<IdleScopes> {
  const ofApps = scopes.filter((scope) => scope !== 'bin:read');
  if (ofApps.length === 0) return [];
  const enabled = appIds.flatMap((id) => parts.apps.find(id) ?? []).filter((app) => !app.disabled);
  const threadApps = enabled.filter((app) => app.apiBaseUrl !== undefined).map(({ id }) => id);
  const noApp = appIds.length === 0 ? 'The token may use no connected app.' : 'None of its connected apps is enabled.';
  const noUser = await userFault(parts.users, users);

  const hasAccount = async () => {
    const filter = ({ app }: { app: string }) => threadApps.includes(app);
    return (await parts.accounts.page({ limit: 1, filter })).items.length > 0;
  };
  const threadsFault = async () => {
    if (threadApps.length === 0) return 'None of its connected apps serves threads.';
    return noUser === undefined || (await hasAccount()) ? undefined : `${noUser} Its apps have no service account.`;
  };

  const found = await Promise.all(
    ofApps.map(async (scope) => {
      if (enabled.length === 0) return { scope, reason: noApp };
      return { scope, reason: scope === 'threads:read' ? await threadsFault() : noUser };
    }),
  );
  return found.flatMap(({ scope, reason }) => (reason === undefined ? [] : [{ scope, reason }]));
}

async function userFault(store: Pick<UserStore, 'stateOf'>, users: RelayPolicy['users']): Promise<string | undefined> {
  if (users === 'all') return undefined;
  if (users === 'none') return 'The token may act for no user.';
  for (let at = 0; at < users.length; at += USERS_AT_ONCE) {
    if (at >= MAX_USERS_READ) return undefined;
    const states = await Promise.all(users.slice(at, at + USERS_AT_ONCE).map((id) => store.stateOf(id)));
    if (states.includes('active')) return undefined;
  }
  return 'None of its users has signed in and is enabled.';
}

/**
 * A call that a new token can make, for the page that shows its secret: with its first scope that is not idle, its first app and user; for a service account where it may act for no user.
 * Undefined if every scope is idle.
 */
export async function firstCallOf(
  accounts: Pick<ServiceAccounts, 'page'>,
  { scopes, apps, users, assertUser }: RelayToken,
  idleScopes: IdleScopes,
): Promise<ExampleCall | undefined> {
  const scope = scopes.find((candidate) => idleScopes.every((idle) => idle.scope !== candidate));
  if (scope === undefined) return undefined;
  const [app] = apps;
  const user = typeof users === 'string' ? undefined : users[0];
  const call = { scope, app, user, unnarrowed: false };
  // Only a named user needs no proof that would have to be fetched first.
  const proof = assertUser && user !== undefined ? 'none' : 'assertion';
  if (scope !== 'threads:read' || users !== 'none') return { ...call, proof, serviceAccount: undefined };
  const { items } = await accounts.page({ limit: 1, filter: (account) => account.app === app });
  return { ...call, proof, serviceAccount: items[0]?.id };
}
