/** The profile of a provider for the simulator, and behaviour that many providers share. */

export type Json = Record<string, unknown>;
export type Reply = readonly [status: number, body: unknown];

/** The content of a token response. `refreshToken` and `idToken`: undefined if not issued. */
export interface Issued {
  kind: 'code' | 'refresh';
  accessToken: string;
  refreshToken: string | undefined;
  idToken: string | undefined;
  /** The granted scopes, as the provider names them. */
  scopes: readonly string[];
  /** The URL of the API on loopback that the response names. */
  apiUrl: string;
}

export interface Profile {
  /** The id of the preset. */
  preset: string;
  /** The URL of discovery, and the document with the provider's real URLs. */
  discovery?: { url: string; document: Json };
  /** Accepted methods of client authentication. Default: both with a secret. */
  clientAuthentication?: readonly ('client_secret_basic' | 'client_secret_post')[];
  /** Returns the error of a refused authorization request. */
  refusesAuthorization?: (request: URLSearchParams) => string | undefined;
  /** Returns the reply to a token request that it refuses. */
  refusesToken?: (form: URLSearchParams, method: string) => Reply | undefined;
  /** Sends the callback as a form that the browser posts (`form_post`). */
  postsCallback?: true;
  /** Parameters of the callback in addition to code and state. */
  callback?: Json;
  /** Sends `iss` in the callback (RFC 9207). */
  sendsIssuer?: true;
  /** False if PKCE is ignored. */
  checksPkce?: false;
  /** Additional claims of ID tokens; `iss` as the provider's real URL. */
  claims?: Json;
  /** Additional claims of userinfo. */
  userinfo?: Json;
  /** The granted scopes in its response. Default: those of the request. */
  grantedScopes?: (requested: readonly string[]) => readonly string[];
  /** Called with whether the user has consented before. */
  issuesRefreshToken: (request: URLSearchParams, hasConsented: boolean) => boolean;
  /** Lifetime of an access token in seconds; undefined: until it is revoked. */
  accessTokenSeconds: number | undefined;
  /** A used refresh token. `kept`: valid and returned; `silent`: valid, not returned; `spent`: replaced. */
  afterRefresh: 'kept' | 'silent' | 'spent';
  /** A refresh ends the previous access token. */
  endsOldAccess?: true;
  /** Using a spent refresh token ends the grant. */
  detectsReuse?: true;
  tokens: (issued: Issued) => Json;
  /** Sends forms to clients that do not accept JSON. */
  sendsForms?: true;
  refusedClient?: Reply;
  refusedCode?: Reply;
  refusedRefresh: Reply;
  /** Other refusals of an invalid refresh token. */
  otherRefusals?: readonly Reply[];
  /** The response body of each URL of the API. */
  api: Record<string, Json>;
  /** The URL of the API in token responses, if they contain it. */
  apiUrlInTokens?: string;
  refusedCall: Reply;
  /** The reply of the revocation endpoint. `takes`: the content type that it accepts. */
  revocation?: { reply: Reply; contentType?: string };
  /** Its access tokens are not for an API. */
  isForSignIn?: true;
}

/** RFC 6749 section 5.1, with `scope`. */
export const standardTokens =
  (lifetime: number, more: Json = {}) =>
  ({ accessToken, refreshToken, idToken, scopes }: Issued): Json => ({
    access_token: accessToken,
    token_type: 'Bearer',
    expires_in: lifetime,
    refresh_token: refreshToken,
    id_token: idToken,
    scope: scopes.join(' '),
    ...more,
  });

export const requestsScope = (scope: string) => (request: URLSearchParams) =>
  (request.get('scope') ?? '').split(' ').includes(scope);
export const always = () => true;

export const RS256 = { id_token_signing_alg_values_supported: ['RS256'], code_challenge_methods_supported: ['S256'] };

/** Discovery whose endpoints are all below the issuer. */
export function discoveryAt(issuer: string, endpoints: Record<string, string>, more: Json = {}) {
  const base = issuer.replace(/\/$/, '');
  const urls = Object.entries(endpoints).map(([name, path]) => [name, base + path]);
  return {
    url: `${base}/.well-known/openid-configuration`,
    document: { issuer, ...Object.fromEntries(urls), ...RS256, ...more },
  };
}
