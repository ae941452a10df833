/** Calls to the token endpoint: refresh (RFC 6749 section 6), revocation (RFC 7009), and reading its responses. */
import type { AsyncLocalStorage } from 'node:async_hooks';
import * as client from 'openid-client';
import { type ConnectedApp, isOpenIdApp } from './connected-app.ts';
import type { DpopKey } from './dpop.ts';
import { verifyIdToken } from './id-token.ts';
import { ProviderError } from './provider-error.ts';
import { callError, replyOf } from './provider-failures.ts';
import type { ProviderJwts } from './provider-jwt.ts';
import type { RevocationResult } from './provider-reply.ts';
import { type RefreshOutcome, type RefreshRequest, refreshFailure } from './refresh-failure.ts';
import { proofFor, serverOf } from './token-binding.ts';
import { type CapturedResponse, lifetimeSeconds, type TokenResponse } from './token-response.ts';

export interface TokenEndpoint {
  /** Never throws; failures are returned. */
  refresh(app: ConnectedApp, request: RefreshRequest): Promise<RefreshOutcome>;
  /** RFC 7009. Never throws. */
  revoke(app: ConnectedApp, token: string, hint: 'refresh_token' | 'access_token'): Promise<RevocationResult>;
}

/** @param parts `raw`: holds the `CapturedResponse` of the current call */
export function createTokenEndpoint(parts: {
  configurationOf: (app: ConnectedApp) => Promise<client.Configuration>;
  jwts: ProviderJwts;
  raw: AsyncLocalStorage<CapturedResponse>;
}): TokenEndpoint {
  const { configurationOf, jwts, raw } = parts;

  return {
    async refresh(app, { refreshToken, dpopKey, scopes, keep }) {
      const captured: CapturedResponse = { keep };
      try {
        const configuration = await configurationOf(app);
        const proof = await proofFor(app, configuration, dpopKey);
        const parameters = scopes && { scope: scopes.join(' ') };
        const response = await raw.run(captured, () =>
          client.refreshTokenGrant(configuration, refreshToken, parameters, proof.options),
        );
        return {
          kind: 'tokens',
          response: await tokenResponse(response, app, { configuration, jwts, dpopKey: proof.key }),
        };
      } catch (error) {
        return refreshFailure(captured, callError(error, 'no_answer'));
      }
    },

    async revoke(app, token, hint) {
      try {
        const configuration = await configurationOf(app);
        if (!serverOf(configuration).revocation_endpoint) return { outcome: 'unsupported' };
        await client.tokenRevocation(configuration, token, { token_type_hint: hint });
        return { outcome: 'revoked', said: { status: 200 } };
      } catch (error) {
        return { outcome: 'unconfirmed', said: replyOf(error) };
      }
    },
  };
}

/** RFC 6749 appendix A.12: `1*VSCHAR`. */
const ACCESS_TOKEN = /^[\x20-\x7e]+$/;

export async function tokenResponse(
  response: Awaited<ReturnType<typeof client.refreshTokenGrant>>,
  app: ConnectedApp,
  parts: { configuration: client.Configuration; jwts: ProviderJwts; dpopKey: DpopKey | undefined },
): Promise<TokenResponse> {
  const { configuration, jwts, dpopKey } = parts;
  if (!ACCESS_TOKEN.test(response.access_token)) throw new ProviderError('invalid', 'token_answer_invalid');
  const isBound = response.token_type === 'dpop';
  if (app.dpop === 'required' && !isBound) throw new ProviderError('invalid', 'token_not_bound');
  // Without keys the ID token cannot be verified, so it is ignored; sign-in apps always have keys.
  const idToken = isOpenIdApp(app) && serverOf(configuration).jwks_uri ? response.id_token : undefined;
  return {
    accessToken: response.access_token,
    refreshToken: response.refresh_token || undefined,
    idToken,
    scopes: response.scope === undefined ? undefined : response.scope.split(' ').filter((scope) => scope !== ''),
    expiresInSeconds: response.expires_in,
    refreshExpiresInSeconds: lifetimeSeconds(response.refresh_token_expires_in ?? response.refresh_expires_in),
    claims: idToken === undefined ? undefined : await verifyIdToken(jwts, app, idToken),
    dpopKey: isBound ? dpopKey : undefined,
  };
}
