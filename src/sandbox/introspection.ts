/** Owns the platform's question to the identity provider: is this token good, whose is it, and what may it do (RFC 7662). */

export interface ActiveToken {
  subject: string;
  clientId: string;
  scopes: ReadonlySet<string>;
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
    if (!answer.ok) throw new Error(`Introspection answered ${answer.status}.`);
    const body = (await answer.json()) as Record<string, unknown>;
    // A refresh token is active too, but it has no type and opens nothing here.
    if (body.active !== true || body.token_type !== 'Bearer' || typeof body.sub !== 'string') return undefined;
    const scope = typeof body.scope === 'string' ? body.scope : '';
    return { subject: body.sub, clientId: String(body.client_id), scopes: new Set(scope.split(' ')) };
  };
}
