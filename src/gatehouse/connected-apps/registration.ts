/** The registration that tokens are issued for: issuer, client ID, and the origins that tokens may be sent to. Pure. */
import type { ConnectedAppRegistration } from '../../shared/provider/connected-app.ts';
import { calledUrls } from './registration-rules.ts';

/** The lists of origins are sorted. They lack the origins in the issuer's metadata, which may change. */
export interface Registration {
  /** As registered: the template, for an app of several tenants. */
  issuer: string;
  clientId: string;
  /** May get refresh tokens, codes, PKCE verifiers, client credentials, and everything else. */
  refreshTokenOrigins: readonly string[];
  /** May get access tokens, but no other secret. Includes the hosts of `apiBaseUrlFrom`, as written. */
  accessTokenOrigins: readonly string[];
  /** May get neither: browsers, ID tokens as hints and requests for keys go there. */
  otherOrigins: readonly string[];
}

type RegistrationFields = Pick<
  ConnectedAppRegistration,
  'issuer' | 'clientId' | 'discoveryUrl' | 'endpoints' | 'apiBaseUrl' | 'account' | 'apiBaseUrlFrom'
>;

/** The list of a registration that an origin belongs to. */
type Role = 'refreshTokenOrigins' | 'accessTokenOrigins' | 'otherOrigins';

type EndpointName = keyof NonNullable<RegistrationFields['endpoints']>;

/**
 * Metadata names the token endpoint if the app lacks it. Userinfo is a protected resource (OpenID Connect Core 5.3).
 */
const ROLES: Record<'issuer' | 'discoveryUrl' | 'apiBaseUrl' | 'account.url' | `endpoints.${EndpointName}`, Role> = {
  issuer: 'refreshTokenOrigins',
  discoveryUrl: 'refreshTokenOrigins',
  'endpoints.token': 'refreshTokenOrigins',
  'endpoints.revocation': 'refreshTokenOrigins',
  'endpoints.introspection': 'refreshTokenOrigins',
  apiBaseUrl: 'accessTokenOrigins',
  'account.url': 'accessTokenOrigins',
  'endpoints.userinfo': 'accessTokenOrigins',
  'endpoints.authorization': 'otherOrigins',
  'endpoints.endSession': 'otherOrigins',
  'endpoints.jwks': 'otherOrigins',
};

interface Destination {
  path: (string | number)[];
  /** An origin, or a host pattern of `apiBaseUrlFrom`. */
  origin: string;
  role: Role;
}

/** The fields with a URL that is called, or that browsers are sent to. */
function destinationsOf(app: RegistrationFields): Destination[] {
  const urlDestinations = calledUrls(app).map(([path, url]): Destination => {
    // This version does not call an endpoint that only a newer one knows.
    const role = ROLES[path.join('.') as keyof typeof ROLES] ?? 'otherOrigins';
    return { path, origin: new URL(url).origin, role };
  });
  const hostDestinations = (app.apiBaseUrlFrom?.hosts ?? []).map((host, index): Destination => {
    return { path: ['apiBaseUrlFrom', 'hosts', index], origin: host, role: 'accessTokenOrigins' };
  });
  return [...urlDestinations, ...hostDestinations];
}

/** Cached, since each use of a grant needs it; apps are frozen. */
const registrations = new WeakMap<RegistrationFields, Registration>();

export function registrationOf(app: RegistrationFields): Registration {
  const registration = registrations.get(app) ?? makeRegistration(app);
  registrations.set(app, registration);
  return registration;
}

function makeRegistration(app: RegistrationFields): Registration {
  const destinations = destinationsOf(app);
  const originsOf = (role: Role) => {
    const ofRole = destinations.filter((destination) => destination.role === role);
    return [...new Set(ofRole.map(({ origin }) => origin))].sort();
  };
  return {
    issuer: app.issuer,
    clientId: app.clientId,
    refreshTokenOrigins: originsOf('refreshTokenOrigins'),
    accessTokenOrigins: originsOf('accessTokenOrigins'),
    otherOrigins: originsOf('otherOrigins'),
  };
}

/** An origin that may get refresh tokens may get everything. @param origins the registration's list for the role */
function isNamed({ refreshTokenOrigins }: Registration, origins: readonly string[], origin: string): boolean {
  return refreshTokenOrigins.includes(origin) || origins.includes(origin);
}

/** Returns paths of the app's fields that would send tokens to a place for which this registration issued none. */
export function newDestinations(registration: Registration, app: RegistrationFields): (string | number)[][] {
  const { issuer, clientId } = registration;
  const fields = [...(issuer === app.issuer ? [] : ['issuer']), ...(clientId === app.clientId ? [] : ['clientId'])];
  if (fields.length > 0) return fields.map((field) => [field]);
  return destinationsOf(app)
    .filter(({ origin, role }) => !isNamed(registration, registration[role], origin))
    .map(({ path }) => path);
}

/** Returns true if a token of this registration may go to every origin of the app, which may name fewer than before. */
export function isIssuedFor(registration: Registration, app: RegistrationFields): boolean {
  return covers(registration, registrationOf(app));
}

/** Like `isIssuedFor`, for the registration of an app. */
export function covers(registration: Registration, current: Registration): boolean {
  if (registration.issuer !== current.issuer || registration.clientId !== current.clientId) return false;
  // Runs at each use of a grant: a loop with `registration[role]` takes twice as long.
  const { refreshTokenOrigins, accessTokenOrigins, otherOrigins } = registration;
  return (
    current.refreshTokenOrigins.every((origin) => refreshTokenOrigins.includes(origin)) &&
    current.accessTokenOrigins.every((origin) => isNamed(registration, accessTokenOrigins, origin)) &&
    current.otherOrigins.every((origin) => isNamed(registration, otherOrigins, origin))
  );
}
