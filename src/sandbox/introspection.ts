/** Introspects access tokens at the identity provider (RFC 7662). */

export interface ActiveToken {
  subject: string;
  /** Undefined for an API token. */
  clientId?: string;
  scopes: ReadonlySet<string>;
  /** The resource that the token is for (RFC 8707); undefined if the request named none. */
  audience?: string;
  /** How and when the user signed in (RFC 9470 section 6.2); undefined for an API token. */
  acr?: string;
  authTime?: number;
  /** Thumbprint of the DPoP key that the token is bound to (RFC 9449); undefined for a bearer token. */
  keyThumbprint?: string;
}

/** Resolves to undefined if the token is not active. Rejects if there is no response. */
export type Introspect = (token: string) => Promise<ActiveToken | undefined>;

const TIMEOUT_MS = 5_000;

export function createIntrospection(parts: { endpoint: string; clientId: string; clientSecret: string }): Introspect {
  const credentials = `${encodeURIComponent(parts.clientId)}:${encodeURIComponent(parts.clientSecret)}`;
  const authorization = `Basic ${Buffer.from(credentials).toString('base64')}`;

  return async (token) => {
    const response = await fetch(parts.endpoint, {
      method: 'POST',
      headers: { authorization, accept: 'application/json' },
      body: new URLSearchParams({ token, token_type_hint: 'access_token' }),
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    // oidc-provider refuses tokens that look like JWTs, because it issues none.
    if (response.status === 400) return undefined;
    if (!response.ok) throw new Error(`Introspection returned ${response.status}.`);
    return factsOf((await response.json()) as Record<string, unknown>);
  };
}

function factsOf(body: Record<string, unknown>): ActiveToken | undefined {
  // A refresh token is active too, but has no type. It must not be accepted as an access token.
  const isAccessToken = body.token_type === 'Bearer' || body.token_type === 'DPoP';
  if (body.active !== true || !isAccessToken || typeof body.sub !== 'string') return undefined;
  const scopes = new Set(typeof body.scope === 'string' ? body.scope.split(' ') : []);
  const audience = typeof body.aud === 'string' ? { audience: body.aud } : {};
  const signIn = {
    ...(typeof body.acr === 'string' ? { acr: body.acr } : {}),
    ...(typeof body.auth_time === 'number' ? { authTime: body.auth_time } : {}),
  };
  const token = { subject: body.sub, clientId: String(body.client_id), scopes, ...audience, ...signIn };
  const thumbprint = (body.cnf as { jkt?: unknown } | undefined)?.jkt;
  if (body.token_type === 'Bearer') return token;
  return typeof thumbprint === 'string' ? { ...token, keyThumbprint: thumbprint } : undefined;
}
