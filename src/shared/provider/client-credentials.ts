/** Client authentication with a secret (RFC 6749 section 2.3.1) or a signed assertion (RFC 7523). */
import type { JWTPayload } from 'jose';
import * as client from 'openid-client';
import { basicCredentials } from './basic-credentials.ts';
import type { ConnectedApp } from './connected-app.ts';
import { isIssuerTemplate } from './issuer.ts';
import { ProviderError } from './provider-error.ts';

/** Signs JWTs with our own keys. */
export interface AssertionSigner {
  sign(claims: JWTPayload, header: { typ: string; seconds: number }): Promise<string>;
}

const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
const ASSERTION_SECONDS = 60;

/**
 * Client authentication as registered (RFC 6749 section 2.3.1, OpenID Connect Core section 9).
 * @throws ProviderError if `private_key_jwt` is registered and there are no keys
 */
export function clientAuthentication(app: ConnectedApp, ownKeys: AssertionSigner | undefined): client.ClientAuth {
  const secret = app.clientSecret ?? '';
  if (app.tokenEndpointAuthMethod === 'none') return client.None();
  if (app.tokenEndpointAuthMethod === 'private_key_jwt') {
    if (!ownKeys) throw new ProviderError('misconfigured', 'own_keys_missing');
    return async (server, _client, body) => {
      body.set('client_assertion_type', ASSERTION_TYPE);
      const audience = isIssuerTemplate(app.issuer) ? server.token_endpoint : server.issuer;
      body.set('client_assertion', await clientAssertion(ownKeys, app.clientId, audience ?? server.issuer));
    };
  }
  if (app.tokenEndpointAuthMethod === 'client_secret_post') return client.ClientSecretPost(secret);
  return (_server, _client, _body, headers) => headers.set('authorization', basicCredentials(app.clientId, secret));
}

/** RFC 7523 sections 2.2 and 3. @param audience the issuer, or the token endpoint of an issuer template */
function clientAssertion(ownKeys: AssertionSigner, clientId: string, audience: string): Promise<string> {
  return ownKeys.sign({ iss: clientId, sub: clientId, aud: audience }, { typ: 'JWT', seconds: ASSERTION_SECONDS });
}
