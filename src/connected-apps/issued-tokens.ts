/** Owns what is done with tokens that a provider has issued: taken over from its answer, refreshed (RFC 6749 section 6), revoked. */
import type { AsyncLocalStorage } from 'node:async_hooks';
import * as client from 'openid-client';
import { type ConnectedApp, isOpenIdApp } from './connected-app.ts';
import type { DpopKey } from './dpop.ts';
import { ProviderError } from './provider-error.ts';
import { callError, saidIn } from './provider-failures.ts';
import type { RevocationAnswer } from './provider-said.ts';
import { type RefreshOutcome, type RefreshRequest, refreshFailure } from './refresh-failure.ts';
import { lifetimeSeconds, type RawTokenAnswer, type TokenAnswer } from './token-answer.ts';
import { proofFor, serverOf } from './token-binding.ts';

export interface IssuedTokens {
  /** Never throws: a failure is a value. */
  refresh(app: ConnectedApp, request: RefreshRequest): Promise<RefreshOutcome>;
  /** RFC 7009. Never throws. */
  revoke(app: ConnectedApp, token: string, hint: 'refresh_token' | 'access_token'): Promise<RevocationAnswer>;
}

/** @param parts `raw`: filled with each token answer as it came, while a call runs in it */
export function createIssuedTokens(parts: {
  configurationOf: (app: ConnectedApp) => Promise<client.Configuration>;
  raw: AsyncLocalStorage<RawTokenAnswer>;
}): IssuedTokens {
  const { configurationOf, raw } = parts;

  return {
    async refresh(app, { refreshToken, dpopKey, scopes, keep }) {
      const holder: RawTokenAnswer = { keep };
      try {
        const configuration = await configurationOf(app);
        const proof = await proofFor(app, configuration, dpopKey);
        const parameters = scopes && { scope: scopes.join(' ') };
        const answer = await raw.run(holder, () =>
          client.refreshTokenGrant(configuration, refreshToken, parameters, proof.options),
        );
        return { kind: 'tokens', answer: tokenAnswer(answer, app, { configuration, dpopKey: proof.key }) };
      } catch (error) {
        return refreshFailure(holder, callError(error, 'no_answer'));
      }
    },

    async revoke(app, token, hint) {
      try {
        const configuration = await configurationOf(app);
        if (!serverOf(configuration).revocation_endpoint) return { outcome: 'unsupported' };
        await client.tokenRevocation(configuration, token, { token_type_hint: hint });
        return { outcome: 'revoked', said: { status: 200 } };
      } catch (error) {
        return { outcome: 'unconfirmed', said: saidIn(error) };
      }
    },
  };
}

export function tokenAnswer(
  answer: Awaited<ReturnType<typeof client.refreshTokenGrant>>,
  app: ConnectedApp,
  { configuration, dpopKey }: { configuration: client.Configuration; dpopKey: DpopKey | undefined },
): TokenAnswer {
  const isBound = answer.token_type === 'dpop';
  if (app.dpop === 'required' && !isBound) throw new ProviderError('invalid', 'token_not_bound');
  // Without keys nothing vouches for the ID token, so it is left alone; sign-in apps always have keys.
  const verified = isOpenIdApp(app) && serverOf(configuration).jwks_uri !== undefined;
  return {
    accessToken: answer.access_token,
    refreshToken: answer.refresh_token || undefined,
    idToken: verified ? answer.id_token : undefined,
    scopes: answer.scope === undefined ? undefined : answer.scope.split(' ').filter((scope) => scope !== ''),
    expiresInSeconds: answer.expires_in,
    refreshExpiresInSeconds: lifetimeSeconds(answer.refresh_token_expires_in ?? answer.refresh_expires_in),
    claims: verified ? answer.claims() : undefined,
    dpopKey: isBound ? dpopKey : undefined,
  };
}
