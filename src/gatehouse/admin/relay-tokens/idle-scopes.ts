/** Finds idle scopes of a relay token, which no call can use because an app, a user or a platform is missing. */
import { z } from 'zod';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import { routesOf } from '../../connected-apps/route-match.ts';
import { isAllowedRoute, type RelayPolicy, type RelayScope } from '../../relay/policy.ts';
import type { RelayToken } from '../../relay/relay-token.ts';
import type { ServiceAccounts } from '../../relay/service-account.ts';
import type { UserStore } from '../../users/user-store.ts';
import type { ExampleCall } from '../policy/example-calls.ts';

export const idleScopesJson = z
  .array(z.object({ scope: z.string(), reason: z.string() }))
  .describe('scopes that no call can use now, with the reason');

export type IdleScopes = z.output<typeof idleScopesJson>;

/** Limits the search for an enabled user in a long list. Usually the first read finds one. */
const MAX_USERS_READ = 100;
const USERS_AT_ONCE = 10;

export async function idleScopesOf(
  parts: {
    apps: Pick<CurrentApps, 'find'>;
    accounts: Pick<ServiceAccounts, 'page'>;
    users: Pick<UserStore, 'stateOf'>;
  },
  { scopes, apps: appIds, routes, users }: Pick<RelayPolicy, 'scopes' | 'apps' | 'routes' | 'users'>,
): Promise<IdleScopes> {
  const appScopes = scopes.filter((scope) => scope !== 'bin:read');
  if (appScopes.length === 0) return [];
  const enabledApps = appIds.flatMap((id) => parts.apps.find(id) ?? []).filter((app) => !app.disabled);
  const threadApps = enabledApps.filter((app) => app.apiBaseUrl !== undefined).map(({ id }) => id);
  const appReason =
    appIds.length === 0 ? 'The token may use no connected app.' : 'None of its connected apps is enabled.';
  const userReason = await userReasonOf(parts.users, users);

  const hasAccount = async () => {
    const filter = ({ app }: { app: string }) => threadApps.includes(app);
    return (await parts.accounts.page({ limit: 1, filter })).items.length > 0;
  };
  const threadsReason = async () => {
    if (threadApps.length === 0) return 'None of its connected apps serves threads.';
    return userReason === undefined || (await hasAccount())
      ? undefined
      : `${userReason} Its apps have no service account.`;
  };

  const results = await Promise.all(
    appScopes.map(async (scope) => {
      if (enabledApps.length === 0) return { scope, reason: appReason };
      if (scope === 'api:call' && routes.length === 0) return { scope, reason: 'The token may call no route.' };
      return { scope, reason: callsPlatform(scope) ? await threadsReason() : userReason };
    }),
  );
  return results.flatMap(({ scope, reason }) => (reason === undefined ? [] : [{ scope, reason }]));
}

/** Service accounts can make these calls, too. */
const callsPlatform = (scope: RelayScope) => scope === 'threads:read' || scope === 'api:call';

async function userReasonOf(
  store: Pick<UserStore, 'stateOf'>,
  users: RelayPolicy['users'],
): Promise<string | undefined> {
  if (users === 'all') return undefined;
  if (users === 'none') return 'The token may act for no user.';
  for (let start = 0; start < users.length; start += USERS_AT_ONCE) {
    if (start >= MAX_USERS_READ) return undefined;
    const states = await Promise.all(users.slice(start, start + USERS_AT_ONCE).map((id) => store.stateOf(id)));
    if (states.includes('active')) return undefined;
  }
  return 'None of its users is enabled and has signed in.';
}

/** Calls that change nothing, and cost little, come first. */
const TRIED_FIRST: readonly RelayScope[] = ['bin:read', 'connections:read', 'threads:read', 'api:call'];

/**
 * Returns an example call for each scope that is not idle, with the first app and user, or a service account if the
 * token may not act for users.
 */
export async function callsOf(
  { accounts, apps: currentApps }: { accounts: Pick<ServiceAccounts, 'page'>; apps: Pick<CurrentApps, 'find'> },
  { scopes, apps, routes, users, assertUser }: RelayToken,
  idleScopes: IdleScopes,
): Promise<ExampleCall[]> {
  const rest = scopes.filter((scope) => !TRIED_FIRST.includes(scope));
  const usable = [...TRIED_FIRST.filter((scope) => scopes.includes(scope)), ...rest].filter((scope) =>
    idleScopes.every((idle) => idle.scope !== scope),
  );
  const [app] = apps;
  const userId = typeof users === 'string' ? undefined : users[0];
  const registeredApp = app === undefined ? undefined : currentApps.find(app);
  const declaredRoutes = registeredApp ? routesOf(registeredApp) : [];
  const route = declaredRoutes.find(({ name, method }) => isAllowedRoute(routes, { name, method }));
  // A named user makes the simplest example, because a proof would have to be fetched first.
  const proof = assertUser && userId !== undefined ? 'none' : 'assertion';
  const { items } = await accounts.page({ limit: 1, filter: (account) => account.app === app });
  const callOf = (scope: RelayScope): ExampleCall => ({
    ...{ scope, app, route, proof, narrowingUnavailable: false },
    // Only a token that may name users can list the connections of all.
    userId: scope === 'connections:read' && !assertUser ? (userId ?? 'USER') : userId,
    serviceAccount: callsPlatform(scope) && users === 'none' ? items[0]?.id : undefined,
  });
  return usable.map(callOf);
}
