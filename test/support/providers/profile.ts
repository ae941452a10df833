/** How a provider behaves, for the simulator, and what many of them have in common. */

export type Json = Record<string, unknown>;
export type Reply = readonly [status: number, body: unknown];

/** What a token response is made from. `refreshToken` and `idToken` only where one is issued. */
export interface Issued {
  kind: 'code' | 'refresh';
  accessToken: string;
  refreshToken: string | undefined;
  idToken: string | undefined;
  /** As the provider names those that it granted. */
  scopes: readonly string[];
  /** At loopback, the API's URL that the response names. */
  apiUrl: string;
}

export interface Profile {
  /** The id of the preset. */
  preset: string;
  /** Its discovery: the URL, and the document with URLs of the provider. */
  discovery?: { url: string; document: Json };
  /** The methods of client authentication that it takes. Default: both with a secret. */
  clientBy?: readonly ('client_secret_basic' | 'client_secret_post')[];
  /** The error of an authorization request that it refuses. */
  refusal?: (request: URLSearchParams) => string | undefined;
  /** Parameters of the callback beside code and state. */
  callback?: Json;
  /** RFC 9207. */
  sendsIssuer?: true;
  /** False where PKCE is ignored. */
  checksPkce?: false;
  /** Claims of ID tokens beside those of every one; `iss` as a URL of the provider. */
  claims?: Json;
  /** The scopes that it says were granted. Default: those of the request. */
  granted?: (requested: readonly string[]) => readonly string[];
  /** @param isKnown the user has consented before */
  issuesRefreshToken: (request: URLSearchParams, isKnown: boolean) => boolean;
  /** Seconds that an access token works; undefined: until it is revoked. */
  lifetime: number | undefined;
  /** A refresh token after use. `kept`: works on and comes again; `silent`: works on and does not come; `spent`: a new one. */
  afterRefresh: 'kept' | 'silent' | 'spent';
  /** A refresh ends the access token before it. */
  endsOldAccess?: true;
  /** The use of a spent refresh token ends the whole grant. */
  detectsReuse?: true;
  tokens: (issued: Issued) => Json;
  /** Sends forms to clients that do not ask for JSON. */
  sendsForms?: true;
  refusedClient?: Reply;
  refusedCode?: Reply;
  refusedRefresh: Reply;
  /** Other refusals of a dead refresh token, at other times or for other reasons. */
  otherRefusals?: readonly Reply[];
  /** The API: a body by URL. */
  api: Record<string, Json>;
  /** The URL of the API that token responses name, where they do. */
  namedApi?: string;
  refusedCall: Reply;
  /** Of the revocation endpoint. `takes`: the content type that it reads. */
  revoked?: { reply: Reply; takes?: string };
  /** Its access tokens are for no API. */
  isForSignIn?: true;
}

/** RFC 6749 section 5.1, with `scope`. */
export const standard =
  (lifetime: number, more: Json = {}) =>
  ({ accessToken, refreshToken, idToken, scopes }: Issued): Json => ({
    ...{ access_token: accessToken, token_type: 'Bearer', expires_in: lifetime },
    ...{ refresh_token: refreshToken, id_token: idToken, scope: scopes.join(' ') },
    ...more,
  });

export const asksFor = (scope: string) => (request: URLSearchParams) =>
  (request.get('scope') ?? '').split(' ').includes(scope);
export const always = () => true;

export const RS256 = { id_token_signing_alg_values_supported: ['RS256'], code_challenge_methods_supported: ['S256'] };

/** Discovery whose endpoints are all below the issuer. */
export function discovered(issuer: string, endpoints: Record<string, string>, more: Json = {}) {
  const base = issuer.replace(/\/$/, '');
  const urls = Object.entries(endpoints).map(([name, path]) => [name, base + path]);
  return {
    url: `${base}/.well-known/openid-configuration`,
    document: { issuer, ...Object.fromEntries(urls), ...RS256, ...more },
  };
}
