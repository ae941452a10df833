/** What tokens were issued for: the client of an app at its provider, and the origins that its tokens may be sent to. Pure. */
import type { ConnectedAppRegistration } from '../../shared/provider/connected-app.ts';
import { calledUrls } from './registration-rules.ts';

export interface Registration {
  /** As registered: the template, for an app of several tenants. */
  issuer: string;
  clientId: string;
  /**
   * The origins of the issuer, `discoveryUrl` and `endpoints`: refresh tokens, codes and client credentials go there. What the
   * issuer's metadata names may move, so it is not among them. Sorted, like `apiOrigins`.
   */
  providerOrigins: readonly string[];
  /** Access tokens alone go there: the origins of `apiBaseUrl` and `account.url`, and the hosts of `apiBaseUrlFrom` as they are written. */
  apiOrigins: readonly string[];
}

type RegistrationFields = Pick<
  ConnectedAppRegistration,
  'issuer' | 'clientId' | 'discoveryUrl' | 'endpoints' | 'apiBaseUrl' | 'account' | 'apiBaseUrlFrom'
>;

/** Apps are frozen, and each use of a grant asks. */
const known = new WeakMap<RegistrationFields, Registration>();

export function registrationOf(app: RegistrationFields): Registration {
  const registration = known.get(app) ?? {
    issuer: app.issuer,
    clientId: app.clientId,
    providerOrigins: originsOf(app, false),
    apiOrigins: originsOf(app, true),
  };
  known.set(app, registration);
  return registration;
}

const originsOf = (app: RegistrationFields, isOfApi: boolean) => {
  const ofThese = destinationsOf(app).filter((destination) => destination.isOfApi === isOfApi);
  return [...new Set(ofThese.map(({ origin }) => origin))].sort();
};

interface Destination {
  path: (string | number)[];
  /** Or the pattern of `apiBaseUrlFrom`. */
  origin: string;
  /** Only access tokens go there. */
  isOfApi: boolean;
}

/** The fields that name a place to which tokens go. */
function destinationsOf(app: RegistrationFields): Destination[] {
  const called = calledUrls(app).map(([path, url]) => {
    const isOfApi = path[0] === 'apiBaseUrl' || path[0] === 'account';
    return { path, origin: new URL(url).origin, isOfApi };
  });
  const patterns = (app.apiBaseUrlFrom?.hosts ?? []).map((host, at) => ({
    path: ['apiBaseUrlFrom', 'hosts', at],
    origin: host,
    isOfApi: true,
  }));
  return [...called, ...patterns];
}

/** Paths of the fields of the app by which tokens of this registration would go to where they were not issued for. */
export function newDestinations(registration: Registration, app: RegistrationFields): (string | number)[][] {
  const { issuer, clientId, providerOrigins, apiOrigins } = registration;
  const fields = [...(issuer === app.issuer ? [] : ['issuer']), ...(clientId === app.clientId ? [] : ['clientId'])];
  if (fields.length > 0) return fields.map((field) => [field]);
  const isKnown = ({ origin, isOfApi }: Destination) =>
    providerOrigins.includes(origin) || (isOfApi && apiOrigins.includes(origin));
  return destinationsOf(app).flatMap((destination) => (isKnown(destination) ? [] : [destination.path]));
}

/** True where a token of this registration may be sent to the places that the app names. An origin that the app gave up does no harm. */
export function isIssuedFor(registration: Registration, app: RegistrationFields): boolean {
  return covers(registration, registrationOf(app));
}

/** As `isIssuedFor`, for the registration that an app has or had. */
export function covers(registration: Registration, current: Registration): boolean {
  if (registration.issuer !== current.issuer || registration.clientId !== current.clientId) return false;
  const { providerOrigins, apiOrigins } = registration;
  return (
    current.providerOrigins.every((origin) => providerOrigins.includes(origin)) &&
    current.apiOrigins.every((origin) => apiOrigins.includes(origin) || providerOrigins.includes(origin))
  );
}
