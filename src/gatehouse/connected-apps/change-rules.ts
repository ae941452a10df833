/** Rules for a new or changed app: client secrets and users must stay with their provider. */
import { type InputFault, pointerTo } from '../../shared/config/input-faults.ts';
import type { AppRoute } from '../../shared/provider/app-routes.ts';
import {
  type ConnectedApp,
  type ConnectedAppRegistration,
  connectedAppSchema,
} from '../../shared/provider/connected-app.ts';
import { acceptedIssuers } from '../../shared/provider/issuer.ts';
import { discoveryUrlOf, hasDiscovery } from '../../shared/provider/provider-metadata.ts';
import type { AppRegistry, RegisteredApp } from './app-registry.ts';
import { isIssuedFor, newDestinations, registrationOf } from './registration.ts';

/** Requires the client secret again if a change would use the stored one for another client or send it elsewhere. */
export function secretFaults(
  app: ConnectedAppRegistration,
  enteredSecret: string | undefined,
  before: ConnectedApp,
): InputFault[] {
  if (!needsSecret(app) || enteredSecret !== undefined) return [];
  if (before.clientSecret === undefined) return [MISSING_SECRET];
  return secretScopeOf(before) === secretScopeOf(app) ? [] : [SECRET_FOR_OTHER_PROVIDER];
}

export const MISSING_SECRET: InputFault = {
  pointer: '#/clientSecret',
  rule: 'missing',
  detail: 'Enter the client secret.',
};

const SECRET_FOR_OTHER_PROVIDER: InputFault = {
  pointer: '#/clientSecret',
  rule: 'give_again',
  detail:
    'The provider has changed: enter the client secret again, since the stored one is sent only to the earlier provider.',
};

const secretScopeOf = ({ clientId, issuer, discoveryUrl, endpoints }: ConnectedAppRegistration) =>
  JSON.stringify([clientId, issuer, discoveryUrl, endpoints]);

export function needsSecret({
  tokenEndpointAuthMethod,
}: Pick<ConnectedAppRegistration, 'tokenEndpointAuthMethod'>): boolean {
  return tokenEndpointAuthMethod === 'client_secret_basic' || tokenEndpointAuthMethod === 'client_secret_post';
}

/** A secret that the method does not use is deleted. */
export function secretAfter(
  app: ConnectedAppRegistration,
  enteredSecret: string | undefined,
): string | undefined | 'kept' {
  if (!needsSecret(app)) return undefined;
  return enteredSecret ?? 'kept';
}

/** Returns the names of the fields that differ. @param secret the new one; undefined if it stays */
export function changedFields(
  before: ConnectedApp,
  after: ConnectedAppRegistration,
  secret: string | undefined,
): string[] {
  const oldFields: Readonly<Record<string, unknown>> = { ...before };
  const newFields: Readonly<Record<string, unknown>> = { ...after };
  // A change preserves fields that only a newer version knows.
  const changed = Object.keys(connectedAppSchema.shape).filter(
    (name) => JSON.stringify(oldFields[name]) !== JSON.stringify(newFields[name]),
  );
  return secret === undefined ? changed : [...changed, 'clientSecret'];
}

/**
 * Returns the facts of a change for the audit trail, with the names of the routes.
 * @param changed from `changedFields`
 */
export function changeFacts(
  before: Pick<ConnectedApp, 'routes'>,
  after: Pick<ConnectedAppRegistration, 'routes'>,
  changed: readonly string[],
) {
  const namesOf = (routes: readonly AppRoute[]) => routes.map(({ name }) => name);
  const notIn = (routes: readonly AppRoute[]) => (route: AppRoute) => !routes.some(({ name }) => name === route.name);
  const isChanged = (route: AppRoute) => {
    const earlier = before.routes.find(({ name }) => name === route.name);
    return earlier !== undefined && JSON.stringify(earlier) !== JSON.stringify(route);
  };
  const routes = {
    routesAdded: namesOf(after.routes.filter(notIn(before.routes))),
    routesChanged: namesOf(after.routes.filter(isChanged)),
    routesRemoved: namesOf(before.routes.filter(notIn(after.routes))),
  };
  return { changed, ...Object.fromEntries(Object.entries(routes).filter(([, names]) => names.length > 0)) };
}

/**
 * Returns the faults of a registration that would set connections aside: their tokens must not go elsewhere.
 * @param countSetAside see `grants/moved-apps.ts`
 */
export async function movedFaults(
  before: ConnectedApp | undefined,
  after: ConnectedAppRegistration,
  countSetAside: CountSetAside,
): Promise<InputFault[]> {
  if (before && isIssuedFor(registrationOf(before), after)) return [];
  const count = await countSetAside(after, before);
  if (count === 0) return [];
  const detail = before
    ? `${connectedUsers(count)} with the current registration: disconnect all users first, or register another app.`
    : `${connectedUsers(count)} with an earlier app of this id: end these connections first, or register the app with the same issuer, client ID and hosts as before.`;
  const paths = before ? newDestinations(registrationOf(before), after) : [['id']];
  return paths.map((path) => ({ pointer: pointerTo(path), rule: 'has_connections', detail }));
}

/**
 * Counts again after the write, since a callback may have stored a connection meanwhile; later ones see the change.
 * If the change would set connections aside, reverts it and all changes saved since.
 * @returns the faults; empty if the change stays
 */
export async function revertMove(
  registry: Pick<AppRegistry, 'find' | 'replace'>,
  before: RegisteredApp,
  after: ConnectedAppRegistration,
  countSetAside: CountSetAside,
): Promise<InputFault[]> {
  const faults = await movedFaults(before.app, after, countSetAside);
  while (faults.length > 0) {
    const current = await registry.find(before.app.id);
    // The app was removed, registered again, or already changed back.
    if (current?.createdAt !== before.createdAt || isIssuedFor(registrationOf(before.app), current.app)) break;
    if (await registry.replace({ ...before, version: current.version }, before.app, 'kept')) break;
  }
  return faults;
}

/** Counts the connections that a change would set aside. */
export type CountSetAside = (after: ConnectedAppRegistration, before: ConnectedApp | undefined) => Promise<number>;

export function connectedUsers(count: number): string {
  return count === 1 ? 'One user is connected' : `${count.toLocaleString('en-GB')} users are connected`;
}

/**
 * Users are identified by issuer and subject, so all apps of an issuer share them. An app with other signing keys for
 * the same issuer could impersonate each of them.
 */
export function sharedIssuerFaults(app: ConnectedAppRegistration, others: readonly ConnectedApp[]): InputFault[] {
  const keysFrom = ({ issuer, discoveryUrl, endpoints }: ConnectedAppRegistration) =>
    JSON.stringify([
      hasDiscovery({ discoveryUrl, endpoints }) ? discoveryUrlOf({ issuer, discoveryUrl }) : undefined,
      endpoints?.jwks,
    ]);
  const issuers = new Set(acceptedIssuers(app));
  const sharesUsers = (other: ConnectedApp) => acceptedIssuers(other).some((issuer) => issuers.has(issuer));
  const sharing = others.filter((other) => other.id !== app.id && other.signIn && sharesUsers(other));
  const conflicting = app.signIn && sharing.find((other) => keysFrom(other) !== keysFrom(app));
  if (!conflicting) return [];
  const detail = `Users already sign in with this issuer through "${conflicting.id}": set the same discoveryUrl and endpoints.jwks as there.`;
  return [{ pointer: '#/issuer', rule: 'issuer_taken', detail }];
}
