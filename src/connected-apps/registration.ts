/** What tokens were issued for: the client of an app at its provider, and the origins that its tokens may be sent to. Pure. */
import type { ConnectedAppRegistration } from './connected-app.ts';
import { calledUrls } from './registration-rules.ts';

export interface Registration {
  /** As registered: the template, for an app of several tenants. */
  issuer: string;
  clientId: string;
  /**
   * The origins of the issuer, `discoveryUrl`, `endpoints`, `apiBaseUrl` and `account.url`, and the host patterns of `apiBaseUrlFrom`
   * as they are written; sorted. What the issuer's metadata names may move, so it is not among them.
   */
  origins: readonly string[];
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
    origins: [...new Set(destinationsOf(app).map(({ origin }) => origin))].sort(),
  };
  known.set(app, registration);
  return registration;
}

/** The fields that name a place to which tokens go, with its origin or pattern. */
export function destinationsOf(app: RegistrationFields): { path: (string | number)[]; origin: string }[] {
  const called = calledUrls(app).map(([path, url]) => ({ path, origin: new URL(url).origin }));
  const patterns = (app.apiBaseUrlFrom?.hosts ?? []).map((host, at) => ({
    path: ['apiBaseUrlFrom', 'hosts', at],
    origin: host,
  }));
  return [...called, ...patterns];
}

/** True where a token of this registration may be sent to the places that the app names. An origin that the app gave up does no harm. */
export function isIssuedFor({ issuer, clientId, origins }: Registration, app: RegistrationFields): boolean {
  const current = registrationOf(app);
  if (issuer !== current.issuer || clientId !== current.clientId) return false;
  return current.origins.every((origin) => origins.includes(origin));
}
