/** Rules that keep client secrets and users with their provider when an app is registered or changed. */
import { type InputFault, pointerTo } from '../../shared/config/input-faults.ts';
import {
  type ConnectedApp,
  type ConnectedAppRegistration,
  connectedAppSchema,
} from '../../shared/provider/connected-app.ts';
import { acceptedIssuers } from '../../shared/provider/issuer.ts';
import { discoveryUrlOf, hasDiscovery } from '../../shared/provider/provider-metadata.ts';
import type { AppRegistry, RegisteredApp } from './app-registry.ts';
import { isIssuedFor, newDestinations, registrationOf } from './registration.ts';

/**
 * A stored secret is sent only for the client and to the URLs that it was entered for: to change them, an administrator enters it again.
 */
export function secretFaults(
  app: ConnectedAppRegistration,
  entered: string | undefined,
  before: ConnectedApp | undefined,
): InputFault[] {
  if (!needsSecret(app) || entered !== undefined) return [];
  const fault = (rule: string, detail: string) => [{ pointer: '#/clientSecret', rule, detail }];
  if (before?.clientSecret === undefined)
    return fault('missing', `${app.tokenEndpointAuthMethod} needs the client secret.`);
  return sentTo(before) === sentTo(app)
    ? []
    : fault('give_again', 'The provider has changed: give the client secret again, so that it is sent to no stranger.');
}

const sentTo = ({ clientId, issuer, discoveryUrl, endpoints }: ConnectedAppRegistration) =>
  JSON.stringify([clientId, issuer, discoveryUrl, endpoints]);

export function needsSecret({ tokenEndpointAuthMethod }: ConnectedAppRegistration): boolean {
  return tokenEndpointAuthMethod === 'client_secret_basic' || tokenEndpointAuthMethod === 'client_secret_post';
}

/** A secret that the method does not use is deleted. */
export function secretAfter(app: ConnectedAppRegistration, entered: string | undefined): string | undefined | 'kept' {
  if (!needsSecret(app)) return undefined;
  return entered ?? 'kept';
}

/** Names of the fields that differ. @param secret the new one; undefined where it stays */
export function changedFields(
  before: ConnectedApp,
  after: ConnectedAppRegistration,
  secret: string | undefined,
): string[] {
  const old: Readonly<Record<string, unknown>> = { ...before };
  const now: Readonly<Record<string, unknown>> = { ...after };
  // A change preserves fields of a newer version, which this one does not know.
  const changed = Object.keys(connectedAppSchema.shape).filter(
    (name) => JSON.stringify(old[name]) !== JSON.stringify(now[name]),
  );
  return secret === undefined ? changed : [...changed, 'clientSecret'];
}

/**
 * Faults of a registration that would leave connected users behind: their tokens must not be sent to another provider or host.
 * @param countSetAside as in `grants/moved-apps.ts`
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
    ? `${connectedUsers(count)} by the present registration: disconnect everyone first, or register another app.`
    : `${connectedUsers(count)} by an earlier app with this id: end these connections first, or register the app as it was, with the same issuer, client ID and hosts.`;
  const paths = before ? newDestinations(registrationOf(before), after) : [['id']];
  return paths.map((path) => ({ pointer: pointerTo(path), rule: 'has_connections', detail }));
}

/**
 * Counts again after the write, since a callback may have stored a connection meanwhile; one that stores it later sees the
 * change. Takes the change back where it moves connected users, with what was saved on top of it since.
 * @returns the faults; empty where the change stays
 */
export async function takeBackMove(
  registry: Pick<AppRegistry, 'find' | 'replace'>,
  before: RegisteredApp,
  after: ConnectedAppRegistration,
  countSetAside: CountSetAside,
): Promise<InputFault[]> {
  const faults = await movedFaults(before.app, after, countSetAside);
  while (faults.length > 0) {
    const current = await registry.find(before.app.id);
    // Removed, perhaps registered anew, or back where it was.
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
 * Users are identified by issuer and subject, so all apps of an issuer share them. An app with other signing keys for the
 * same issuer could impersonate each of them.
 */
export function sharedIssuerFaults(app: ConnectedAppRegistration, others: readonly ConnectedApp[]): InputFault[] {
  const keysFrom = ({ issuer, discoveryUrl, endpoints }: ConnectedAppRegistration) =>
    JSON.stringify([
      hasDiscovery({ discoveryUrl, endpoints }) ? discoveryUrlOf({ issuer, discoveryUrl }) : undefined,
      endpoints?.jwks,
    ]);
  const own = new Set(acceptedIssuers(app));
  const sharesUsers = (one: ConnectedApp) => acceptedIssuers(one).some((issuer) => own.has(issuer));
  const sharing = others.filter((one) => one.id !== app.id && one.signIn && sharesUsers(one));
  const other = app.signIn && sharing.find((one) => keysFrom(one) !== keysFrom(app));
  if (!other) return [];
  const detail = `People sign in with this issuer by "${other.id}" already: give the same discoveryUrl and endpoints.jwks as there.`;
  return [{ pointer: '#/issuer', rule: 'issuer_taken', detail }];
}
