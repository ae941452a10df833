/** A call that a new relay token can make, for the page that shows its secret. */
import type { RelayToken } from '../../relay/relay-token.ts';
import type { ServiceAccounts } from '../../relay/service-account.ts';
import type { ExampleCall } from '../policy/example-calls.ts';
import type { IdleScopes } from './idle-scopes.ts';

/**
 * With its first scope that is not idle, its first app and user; for a service account where it may act for no user.
 * Undefined if every scope is idle.
 */
export async function firstCallOf(
  accounts: Pick<ServiceAccounts, 'page'>,
  { scopes, apps, users, assertUser }: RelayToken,
  idleScopes: IdleScopes,
): Promise<ExampleCall | undefined> {
  const route = scopes.find((scope) => idleScopes.every((idle) => idle.scope !== scope));
  if (route === undefined) return undefined;
  const [app] = apps;
  const user = typeof users === 'string' ? undefined : users[0];
  const call = { route, app, user, unnarrowed: false };
  // Only a named user needs no proof that would have to be fetched first.
  const proof = assertUser && user !== undefined ? 'none' : 'assertion';
  if (route !== 'threads:read' || users !== 'none') return { ...call, proof, serviceAccount: undefined };
  const { items } = await accounts.page({ limit: 1, filter: (account) => account.app === app });
  return { ...call, proof, serviceAccount: items[0]?.id };
}
