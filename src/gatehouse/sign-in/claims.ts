/** The claims that decide a sign-in: those of the ID token, completed from userinfo. */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { ProviderClient } from '../../shared/provider/provider-client.ts';
import { ProviderError } from '../../shared/provider/provider-error.ts';
import type { Claims, TokenResponse } from '../../shared/provider/token-response.ts';
import { type AdminRule, decidingClaims, FRIENDLY_CLAIMS } from './identity.ts';

/** The claims of the ID token, and from userinfo those that it lacks. @throws ProviderError */
export async function completeClaims(
  { provider, admin }: { provider: Pick<ProviderClient, 'userinfo'>; admin: AdminRule },
  app: ConnectedApp,
  response: TokenResponse,
): Promise<Claims | undefined> {
  const { claims } = response;
  if (!claims) return undefined;
  const lacks = (names: string[]) => names.some((name) => claims[name] === undefined);
  const isDecisive = lacks(decidingClaims(app, admin));
  if (!isDecisive && !lacks(FRIENDLY_CLAIMS)) return claims;
  const more = await provider.userinfo(app, response, claims.sub).catch((error: unknown) => {
    // A sign-in succeeds without a name, but fails if userinfo is about another subject.
    if (isDecisive || !(error instanceof ProviderError) || error.failure === 'invalid') throw error;
    return undefined;
  });
  return { ...more, ...claims };
}
