/** Rules that keep client secrets and users with their provider when an app is registered or changed. Pure. */

import type { InputFault } from '../config/input-faults.ts';
import type { ConnectedApp, ConnectedAppRegistration } from './connected-app.ts';
import { acceptedIssuers } from './issuer.ts';
import { discoveryUrlOf, hasDiscovery } from './provider-metadata.ts';
import { calledUrls } from './registration-rules.ts';

/**
 * A stored secret is sent only to the endpoints that it was entered for: to change them, an administrator enters it again.
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
  return sentTo(app) === sentTo(before)
    ? []
    : fault('give_again', 'The provider has changed: give the client secret again, so that it is sent to no stranger.');
}

export function needsSecret({ tokenEndpointAuthMethod }: ConnectedAppRegistration): boolean {
  return tokenEndpointAuthMethod === 'client_secret_basic' || tokenEndpointAuthMethod === 'client_secret_post';
}

/** Paths of the fields that name a host of the provider which this app has not called before. */
export function newHosts(before: ConnectedApp, after: ConnectedAppRegistration): string[][] {
  const ofProvider = (app: ConnectedAppRegistration) =>
    calledUrls(app).filter(([[field]]) => field !== 'apiBaseUrl' && field !== 'account');
  const called = new Set(ofProvider(before).map(([, url]) => new URL(url).origin));
  return ofProvider(after).flatMap(([path, url]) => (called.has(new URL(url).origin) ? [] : [path]));
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

function sentTo({ issuer, discoveryUrl, endpoints }: ConnectedAppRegistration): string {
  return JSON.stringify([issuer, discoveryUrl, endpoints]);
}
