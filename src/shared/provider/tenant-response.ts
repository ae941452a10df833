/**
 * Reads token responses for an issuer template. Only the ID token names the tenant, so the library first reads the
 * response for one tenant, and then again for the right one.
 */
import { parseObject } from '../json.ts';
import type { ConnectedApp } from './connected-app.ts';
import { isIssuerTemplate, issuerOf } from './issuer.ts';
import { type ProviderJwts, verifyIdToken } from './provider-jwt.ts';
import type { Capture } from './token-response.ts';

/**
 * Sends a token request as a client of one issuer, with which the library compares `iss`. If the response is for
 * another tenant that the app names, the library reads it again as a client of that tenant, so all of its checks apply.
 * @param send called again with the issuer of the response; must not send a second request if `isRereading` is set
 * @throws RefusedJwt if the app does not name the tenant
 */
export function readAsTenant<T>(
  { app, jwts, capture }: { app: ConnectedApp; jwts: ProviderJwts; capture: Capture },
  send: (issuer?: string) => Promise<T>,
): Promise<T> {
  const response = send();
  if (!isIssuerTemplate(app.issuer)) return response;
  return response.catch(async (error: unknown) => {
    const { id_token: idToken } = parseObject((await capture.response?.clone().text()) ?? '') ?? {};
    if (typeof idToken !== 'string') throw error;
    const issuer = issuerOf(app, await verifyIdToken(jwts, app, idToken));
    capture.isRereading = true;
    return send(issuer);
  });
}
