/** Owns the platform's question to the identity provider: is this token good, whose is it, and what may it do (RFC 7662). */

export interface ActiveToken {
  subject: string;
  scopes: ReadonlySet<string>;
  /** The thumbprint of the key whose proof has to come with the token (RFC 9449); undefined for a bearer token. */
  keyThumbprint?: string;
}

/** The token's facts, or undefined when the identity provider does not vouch for it. Throws when it gives no answer. */
export type Introspect = (token: string) => Promise<ActiveToken | undefined>;

const TIMEOUT_MS = 5_000;

export function createIntrospection(parts: { endpoint: string; clientId: string; clientSecret: string }): Introspect {
  const credentials = `${encodeURIComponent(parts.clientId)}:${encodeURIComponent(parts.clientSecret)}`;
  const authorization = `Basic ${Buffer.from(credentials).toString('base64')}`;

  return async (token) => {
    const answer = await fetch(parts.endpoint, {
      method: 'POST',
      headers: { authorization, accept: 'application/json' },
      body: new URLSearchParams({ token, token_type_hint: 'access_token' }),
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    // What looks like a JWT it does not even look up: it gives out no such access tokens.
    if (answer.status === 400) return undefined;
    if (!answer.ok) throw new Error(`Introspection answered ${answer.status}.`);
    return factsOf((await answer.json()) as Record<string, unknown>);
  };
}

function factsOf(body: Record<string, unknown>): ActiveToken | undefined {
  // A refresh token is active too, but it has no type and opens nothing here.
  const isAccessToken = body.token_type === 'Bearer' || body.token_type === 'DPoP';
  if (body.active !== true || !isAccessToken || typeof body.sub !== 'string') return undefined;
  const scopes = new Set(typeof body.scope === 'string' ? body.scope.split(' ') : []);
  const thumbprint = (body.cnf as { jkt?: unknown } | undefined)?.jkt;
  if (body.token_type === 'Bearer') return { subject: body.sub, scopes };
  return typeof thumbprint === 'string' ? { subject: body.sub, scopes, keyThumbprint: thumbprint } : undefined;
}
