/**
 * The metadata of an app's provider, from discovery and from `endpoints`; the cache serves it while the provider is
 * down.
 */
import { isObject } from '../json.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { DAY_MS, HOUR_MS } from '../time.ts';
import { type ConnectedApp, PROTOCOL_PARAMETERS } from './connected-app.ts';
import { ProviderError, retryFacts } from './provider-error.ts';
import { cachedReads, fetchDocument, type ReadTimes } from './provider-read.ts';

/** Metadata members that name an endpoint, keyed by their names in `endpoints` of a connected app. */
export const ENDPOINT_MEMBERS = {
  authorization: 'authorization_endpoint',
  token: 'token_endpoint',
  userinfo: 'userinfo_endpoint',
  revocation: 'revocation_endpoint',
  endSession: 'end_session_endpoint',
  introspection: 'introspection_endpoint',
  jwks: 'jwks_uri',
} as const satisfies Record<keyof NonNullable<ConnectedApp['endpoints']>, string>;
const MEMBERS = Object.values(ENDPOINT_MEMBERS);
export type EndpointName = keyof typeof ENDPOINT_MEMBERS;

/** RFC 8414 section 2, OpenID Connect Discovery section 3; other members pass through. */
export type ProviderMetadata = { issuer: string; [member: string]: unknown } & {
  [Member in (typeof MEMBERS)[number]]?: string;
};

/** The fields of an app that locate its provider. */
export type ProviderLocation = Pick<ConnectedApp, 'issuer' | 'discoveryUrl' | 'endpoints' | 'parameters'> & {
  id?: string;
};

export interface ProviderMetadataSource {
  /**
   * The provider's metadata: at most an hour old, or a day while reading it fails. Returns the same object until there
   * is newer metadata.
   * @throws ProviderError `unavailable` (with `retryAfterSeconds`) or `misconfigured`
   */
  load(app: ProviderLocation): Promise<ProviderMetadata>;
  /** The metadata that was read last, if any. Makes no call. */
  peek(app: ProviderLocation): ProviderMetadata | undefined;
  /** Makes the next call read discovery again because an endpoint is gone, at most once in 10 seconds. */
  markStale(app: ProviderLocation): void;
  /** Makes the next call of every app read discovery again. */
  markAllStale(): void;
}

/** Called whenever metadata was read. Must not throw. */
export type OnMetadata = (app: ProviderLocation, metadata: ProviderMetadata) => void;

const MAX_PAUSE_MS = 15_000;

/**
 * The cache is keyed by app object: a changed registration is a new object, so its metadata is read again.
 * @param parts `monotonicClock` in milliseconds, independent of the system's time; `clock` since the epoch
 */
export function createProviderMetadata(parts: {
  outbound: Outbound;
  clock?: () => number;
  monotonicClock: () => number;
  random: () => number;
  onRead?: OnMetadata | undefined;
}): ProviderMetadataSource {
  const { outbound, clock = Date.now, monotonicClock, random, onRead } = parts;
  const times: ReadTimes = {
    freshMs: HOUR_MS,
    usableMs: DAY_MS,
    pauseMs: (failures) => Math.min(MAX_PAUSE_MS, 1_000 * 2 ** failures) * (0.75 + random() / 2),
  };
  const read = async (app: ProviderLocation) => {
    const metadata = await readMetadata(outbound, app, clock);
    onRead?.(app, metadata);
    return metadata;
  };
  return cachedReads(new WeakMap(), read, times, monotonicClock);
}

async function readMetadata(outbound: Outbound, app: ProviderLocation, clock: () => number): Promise<ProviderMetadata> {
  const configured = Object.entries(app.endpoints ?? {}).map(([name, url]) => [
    ENDPOINT_MEMBERS[name as EndpointName],
    url,
  ]);
  const discovered = hasDiscovery(app) ? await discover(outbound, app, clock) : {};
  const metadata: ProviderMetadata = { issuer: app.issuer, ...Object.fromEntries(configured), ...discovered };
  // An administrator who sets it beside discovery needs another address or query than the published one.
  if (app.endpoints?.endSession) metadata.end_session_endpoint = app.endpoints.endSession;
  checkEndpoints(outbound, metadata);
  if (metadata.authorization_endpoint) {
    metadata.authorization_endpoint = withoutOurParameters(metadata.authorization_endpoint, app);
  }
  return metadata;
}

/** The endpoints that are set by hand without effect, since discovery names others. @param metadata as it is used */
export function ineffectiveEndpoints(app: ProviderLocation, metadata: ProviderMetadata): EndpointName[] {
  const names = Object.keys(app.endpoints ?? {}) as EndpointName[];
  return names.filter((name) => {
    const configured = app.endpoints?.[name];
    if (configured === undefined) return false;
    const url = name === 'authorization' ? withoutOurParameters(configured, app) : new URL(configured).href;
    return url !== URL.parse(metadata[ENDPOINT_MEMBERS[name]] ?? '')?.href;
  });
}

/** Sentences for an administrator. */
export function ineffectiveWords(names: readonly EndpointName[]): { detail: string; advice: string } {
  const list = names.map((name) => `endpoints.${name}`).join(', ');
  return {
    detail: `Discovery names other addresses than ${list}, and those of discovery are used.`,
    advice: `Remove ${list}. To use no discovery, set the authorization and the token endpoint by hand, without discoveryUrl.`,
  };
}

/** False if `endpoints` replaces discovery. */
export function hasDiscovery(app: Pick<ProviderLocation, 'discoveryUrl' | 'endpoints'>): boolean {
  return app.endpoints?.authorization === undefined || app.discoveryUrl !== undefined;
}

/** OpenID Connect Discovery section 4. */
export function discoveryUrlOf(app: Pick<ProviderLocation, 'issuer' | 'discoveryUrl'>): string {
  return app.discoveryUrl ?? `${app.issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
}

async function discover(outbound: Outbound, app: ProviderLocation, clock: () => number): Promise<ProviderMetadata> {
  const response = await fetchDocument(outbound, discoveryUrlOf(app), app.id, { anonymous: 'discovery' });
  const { status } = response;
  if (status !== 200)
    throw new ProviderError('unavailable', 'discovery_failed', { status, ...retryFacts(response, clock()) });
  const body: unknown = await response.json().catch(() => undefined);
  if (!isMetadata(body)) throw new ProviderError('unavailable', 'discovery_not_json');
  // Exact comparison (OpenID Connect Discovery section 4.3): a trailing slash makes another issuer.
  const { issuer } = body;
  if (issuer !== app.issuer) throw new ProviderError('misconfigured', 'issuer_mismatch', { issuer });
  // Some providers send `null` for members that they lack.
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null)) as ProviderMetadata;
}

export function isMetadata(value: unknown): value is ProviderMetadata {
  return isObject(value) && typeof value.issuer === 'string';
}

/** Checks that the address policy allows every endpoint (https, no private address). */
function checkEndpoints(outbound: Outbound, metadata: ProviderMetadata): void {
  for (const name of MEMBERS) {
    const url: unknown = metadata[name];
    if (url === undefined) continue;
    if (typeof url !== 'string') throw new ProviderError('misconfigured', 'endpoint_refused', { endpoint: name });
    try {
      outbound.assertAllowed(url);
    } catch (cause) {
      throw new ProviderError('misconfigured', 'endpoint_refused', { endpoint: name, cause });
    }
  }
  if (!metadata.authorization_endpoint || !metadata.token_endpoint) {
    throw new ProviderError('misconfigured', 'endpoint_missing');
  }
}

/** The endpoint may need its query, such as a tenant, but must not add a second `scope` or `redirect_uri` (R3). */
function withoutOurParameters(endpoint: string, { parameters = {} }: ProviderLocation): string {
  const url = new URL(endpoint);
  for (const name of [...url.searchParams.keys()]) {
    const isOurs = PROTOCOL_PARAMETERS.has(name.toLowerCase()) || Object.hasOwn(parameters, name);
    if (isOurs) url.searchParams.delete(name);
  }
  return url.href;
}
