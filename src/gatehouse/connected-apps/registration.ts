/** What tokens were issued for: the client of an app at its provider, and the origins that its tokens may be sent to. Pure. */
import type { ConnectedAppRegistration } from '../../shared/provider/connected-app.ts';
import { calledUrls } from './registration-rules.ts';

/** Its lists of origins are sorted. What the issuer's metadata names may move, so it is in none of them. */
export interface Registration {
  /** As registered: the template, for an app of several tenants. */
  issuer: string;
  clientId: string;
  /** Refresh tokens, codes, PKCE verifiers and client credentials may go there, and so may all else. */
  refreshTokenOrigins: readonly string[];
  /** Of what is secret, access tokens alone may go there. Among them are the hosts of `apiBaseUrlFrom`, as they are written. */
  accessTokenOrigins: readonly string[];
  /** Neither may go there: these get browsers, ID tokens as hints, and requests for keys. */
  otherOrigins: readonly string[];
}

type RegistrationFields = Pick<
  ConnectedAppRegistration,
  'issuer' | 'clientId' | 'discoveryUrl' | 'endpoints' | 'apiBaseUrl' | 'account' | 'apiBaseUrlFrom'
>;

/** The list of a registration that an origin belongs to. */
type Role = 'refreshTokenOrigins' | 'accessTokenOrigins' | 'otherOrigins';

type EndpointName = keyof NonNullable<RegistrationFields['endpoints']>;

/** Issuer and metadata name the token endpoint where the app does not. Userinfo is a protected resource (OpenID Connect Core 5.3). */
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
  /** Or the pattern of `apiBaseUrlFrom`. */
  origin: string;
  role: Role;
}

/** The fields that name a place which is called, or to which browsers are sent. */
function destinationsOf(app: RegistrationFields): Destination[] {
  const called = calledUrls(app).map(([path, url]): Destination => {
    // An endpoint that only a newer version knows is not called by this one.
    const role = ROLES[path.join('.') as keyof typeof ROLES] ?? 'otherOrigins';
    return { path, origin: new URL(url).origin, role };
  });
  const patterns = (app.apiBaseUrlFrom?.hosts ?? []).map((host, at): Destination => {
    return { path: ['apiBaseUrlFrom', 'hosts', at], origin: host, role: 'accessTokenOrigins' };
  });
  return [...called, ...patterns];
}

/** Apps are frozen, and each use of a grant asks. */
const known = new WeakMap<RegistrationFields, Registration>();

export function registrationOf(app: RegistrationFields): Registration {
  const registration = known.get(app) ?? makeRegistration(app);
  known.set(app, registration);
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

/** An origin that may get refresh tokens may have any role. @param ofRole the list of the registration for the role */
function isNamed({ refreshTokenOrigins }: Registration, ofRole: readonly string[], origin: string): boolean {
  return refreshTokenOrigins.includes(origin) || ofRole.includes(origin);
}

/** Paths of the fields of the app by which tokens of this registration would go to where they were not issued for. */
export function newDestinations(registration: Registration, app: RegistrationFields): (string | number)[][] {
  const { issuer, clientId } = registration;
  const fields = [...(issuer === app.issuer ? [] : ['issuer']), ...(clientId === app.clientId ? [] : ['clientId'])];
  if (fields.length > 0) return fields.map((field) => [field]);
  return destinationsOf(app)
    .filter(({ origin, role }) => !isNamed(registration, registration[role], origin))
    .map(({ path }) => path);
}

/** True where a token of this registration may be sent to the places that the app names. An origin that the app gave up does no harm. */
export function isIssuedFor(registration: Registration, app: RegistrationFields): boolean {
  return covers(registration, registrationOf(app));
}

/** As `isIssuedFor`, for the registration that an app has or had. */
export function covers(registration: Registration, current: Registration): boolean {
  if (registration.issuer !== current.issuer || registration.clientId !== current.clientId) return false;
  // Each use of a grant comes here: with `registration[role]` for each list it takes twice as long.
  const { refreshTokenOrigins, accessTokenOrigins, otherOrigins } = registration;
  return (
    current.refreshTokenOrigins.every((origin) => refreshTokenOrigins.includes(origin)) &&
    current.accessTokenOrigins.every((origin) => isNamed(registration, accessTokenOrigins, origin)) &&
    current.otherOrigins.every((origin) => isNamed(registration, otherOrigins, origin))
  );
}
