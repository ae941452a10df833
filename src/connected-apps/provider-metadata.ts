/** The metadata of an app's provider: from discovery and from `endpoints`, cached while the provider is down. */
import type { Outbound } from '../outbound/outbound.ts';
import { type ConnectedApp, PROTOCOL_PARAMETERS } from './connected-app.ts';
import { ProviderError } from './provider-error.ts';

/** Authorization server metadata (RFC 8414 section 2, OpenID Connect Discovery section 3); other members pass through. */
export interface ProviderMetadata {
  issuer: string;
  authorization_endpoint?: string;
  token_endpoint?: string;
  revocation_endpoint?: string;
  introspection_endpoint?: string;
  userinfo_endpoint?: string;
  end_session_endpoint?: string;
  jwks_uri?: string;
  [member: string]: unknown;
}

export interface ProviderMetadataSource {
  /**
   * The provider's metadata, at most an hour old, or up to a day old while it cannot be read again.
   * Returns the same object until there is newer metadata.
   * @throws ProviderError `unavailable` (with `retryAfterSeconds`) or `misconfigured`
   */
  load(app: ConnectedApp): Promise<ProviderMetadata>;
}

const FRESH_MS = 3_600_000;
const USABLE_MS = 86_400_000;
const BACK_OFF = { minMs: 1_000, maxMs: 15_000 };
const LIMITS = { deadlineMilliseconds: 5_000, maxBytes: 512 * 1024 };

/** Times of the monotonic clock. */
interface Entry {
  metadata?: ProviderMetadata;
  loadedAt: number;
  failures: number;
  notBefore: number;
  lastError?: ProviderError;
  loading?: Promise<ProviderMetadata> | undefined;
}

/**
 * Cached by app object: a changed registration is a new object, for which the metadata is read again.
 * @param parts `monotonicClock`: milliseconds, independent of the system's time
 */
export function createProviderMetadata(parts: {
  outbound: Outbound;
  monotonicClock: () => number;
  random: () => number;
}): ProviderMetadataSource {
  const { outbound, monotonicClock, random } = parts;
  const entries = new WeakMap<ConnectedApp, Entry>();

  const reload = async (app: ConnectedApp, entry: Entry): Promise<ProviderMetadata> => {
    try {
      entry.metadata = await readMetadata(outbound, app);
      entry.loadedAt = monotonicClock();
      entry.failures = 0;
      return entry.metadata;
    } catch (error) {
      const failure = ProviderError.from(error);
      const { minMs, maxMs } = BACK_OFF;
      const wait = Math.min(maxMs, minMs * 2 ** entry.failures) * (0.75 + random() / 2);
      entry.failures += 1;
      entry.notBefore = monotonicClock() + wait;
      entry.lastError = failure;
      throw failure;
    } finally {
      entry.loading = undefined;
    }
  };

  return {
    async load(app) {
      const entry = entries.get(app) ?? { loadedAt: Number.NEGATIVE_INFINITY, failures: 0, notBefore: 0 };
      entries.set(app, entry);
      const age = monotonicClock() - entry.loadedAt;
      if (entry.metadata && age < FRESH_MS) return entry.metadata;
      if (!entry.loading && monotonicClock() >= entry.notBefore) entry.loading = reload(app, entry);
      const usable = age < USABLE_MS ? entry.metadata : undefined;
      if (entry.loading) return entry.loading.catch((error: unknown) => usable ?? Promise.reject(error));
      if (usable) return usable;
      throw (entry.lastError ?? new ProviderError('unavailable', 'discovery_failed')).retryIn(
        Math.ceil((entry.notBefore - monotonicClock()) / 1000),
      );
    },
  };
}

async function readMetadata(outbound: Outbound, app: ConnectedApp): Promise<ProviderMetadata> {
  const handSet = handSetMetadata(app);
  const discovered = hasDiscovery(app) ? await discover(outbound, app) : {};
  const metadata: ProviderMetadata = { issuer: app.issuer, ...withoutNull(handSet), ...discovered };
  checkEndpoints(outbound, metadata);
  if (metadata.authorization_endpoint) {
    metadata.authorization_endpoint = withoutOurParameters(metadata.authorization_endpoint, app);
  }
  return metadata;
}

/** False where `endpoints` replaces discovery. */
export function hasDiscovery(app: Pick<ConnectedApp, 'discoveryUrl' | 'endpoints'>): boolean {
  return app.endpoints?.authorization === undefined || app.discoveryUrl !== undefined;
}

function handSetMetadata(app: ConnectedApp) {
  const endpoints = app.endpoints ?? {};
  return {
    authorization_endpoint: endpoints.authorization,
    token_endpoint: endpoints.token,
    revocation_endpoint: endpoints.revocation,
    introspection_endpoint: endpoints.introspection,
    userinfo_endpoint: endpoints.userinfo,
    end_session_endpoint: endpoints.endSession,
    jwks_uri: endpoints.jwks,
  };
}

/** OpenID Connect Discovery section 4. */
export function discoveryUrlOf(app: Pick<ConnectedApp, 'issuer' | 'discoveryUrl'>): string {
  return app.discoveryUrl ?? `${app.issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
}

async function discover(outbound: Outbound, app: ConnectedApp): Promise<ProviderMetadata> {
  const response = await outbound.fetch(discoveryUrlOf(app), { headers: { accept: 'application/json' } }, LIMITS);
  if (response.status !== 200) throw new ProviderError('unavailable', 'discovery_failed', { status: response.status });
  const body: unknown = await response.json().catch(() => undefined);
  if (!isMetadata(body)) throw new ProviderError('unavailable', 'discovery_not_json');
  const metadata = withoutNull(body) as ProviderMetadata;
  // Exact comparison (OpenID Connect Discovery section 4.3): a trailing slash makes another issuer.
  const { issuer } = metadata;
  if (issuer !== app.issuer) throw new ProviderError('misconfigured', 'issuer_mismatch', { issuer });
  return metadata;
}

function isMetadata(value: unknown): value is ProviderMetadata {
  return typeof value === 'object' && value !== null && 'issuer' in value && typeof value.issuer === 'string';
}

const ENDPOINTS = [
  'authorization_endpoint',
  'token_endpoint',
  'revocation_endpoint',
  'introspection_endpoint',
  'userinfo_endpoint',
  'end_session_endpoint',
  'jwks_uri',
] as const;

/** Checks that the address policy allows every endpoint (https, no private address). */
function checkEndpoints(outbound: Outbound, metadata: ProviderMetadata): void {
  for (const name of ENDPOINTS) {
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

/** The endpoint may need its query (a tenant, a policy), but that must not add a second `scope` or `redirect_uri` (R3). */
function withoutOurParameters(endpoint: string, app: ConnectedApp): string {
  const url = new URL(endpoint);
  for (const name of [...url.searchParams.keys()]) {
    if (PROTOCOL_PARAMETERS.has(name.toLowerCase()) || Object.hasOwn(app.parameters ?? {}, name))
      url.searchParams.delete(name);
  }
  return url.href;
}

/** Some providers send `null` for members that they lack. */
function withoutNull<T extends object>(value: T): Partial<{ [K in keyof T]: Exclude<T[K], undefined> }> {
  return Object.fromEntries(
    Object.entries(value).filter(([, inner]) => inner !== undefined && inner !== null),
  ) as never;
}
