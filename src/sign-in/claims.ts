/** Owns which claims a sign-in is judged by: the ID token's, completed where they lack something. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { ProviderClient } from '../connected-apps/provider-client.ts';
import { ProviderError } from '../connected-apps/provider-error.ts';
import type { Claims, TokenAnswer } from '../connected-apps/token-answer.ts';
import { type AdminRule, decidingClaims, FRIENDLY_CLAIMS } from './identity.ts';

/** The ID token's claims, and from userinfo those that it lacks; what the ID token says wins. @throws ProviderError */
export async function completeClaims(
  { provider, admin }: { provider: Pick<ProviderClient, 'userinfo'>; admin: AdminRule },
  app: ConnectedApp,
  answer: TokenAnswer,
): Promise<Claims | undefined> {
  const { claims } = answer;
  if (!claims) return undefined;
  const lacks = (names: string[]) => names.some((name) => claims[name] === undefined);
  const decides = lacks(decidingClaims(app, admin));
  if (!decides && !lacks(FRIENDLY_CLAIMS)) return claims;
  const more = await provider.userinfo(app, answer, claims.sub).catch((error: unknown) => {
    // A name is not worth a sign-in; another person's answer is no mere lack.
    if (decides || !(error instanceof ProviderError) || error.failure === 'invalid') throw error;
    return undefined;
  });
  return { ...more, ...claims };
}
