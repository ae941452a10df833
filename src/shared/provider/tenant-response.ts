/**
 * Token responses for an issuer template: of which tenant one is shows only in its ID token.
 * Why a response is given to the library twice: see `provider-client.ts`.
 */
import { parseObject } from '../json.ts';
import type { ConnectedApp } from './connected-app.ts';
import { isIssuerTemplate, issuerOf } from './issuer.ts';
import { type ProviderJwts, verifyIdToken } from './provider-jwt.ts';
import type { CapturedResponse } from './token-response.ts';

/**
 * Sends a token request as a client of one issuer, with which the library compares `iss`. A response for another tenant
 * that the app names is given to the library once more, as a client of that tenant: so each of its checks holds.
 * @param send called again with the issuer of the response; no second request must leave where `isReadAgain` is set
 * @throws RefusedJwt where the app does not name the tenant
 */
export function readAsTenant<T>(
  { app, jwts, captured }: { app: ConnectedApp; jwts: ProviderJwts; captured: CapturedResponse },
  send: (issuer?: string) => Promise<T>,
): Promise<T> {
  const response = send();
  if (!isIssuerTemplate(app.issuer)) return response;
  return response.catch(async (error: unknown) => {
    const { id_token: idToken } = parseObject((await captured.response?.clone().text()) ?? '') ?? {};
    if (typeof idToken !== 'string') throw error;
    const issuer = issuerOf(app, await verifyIdToken(jwts, app, idToken));
    captured.isReadAgain = true;
    return send(issuer);
  });
}
