/** Token responses: captures status, error code and refresh token before the library checks the rest. */
import { parseObject } from '../json.ts';
import { isWhole } from '../outbound/whole-response.ts';
import { type ConnectedApp, isOpenIdApp } from './connected-app.ts';
import type { DpopKey } from './dpop.ts';
import { oauthErrorOf } from './oauth-error.ts';
import { isLimit } from './provider-error.ts';
import { readTokens, responseMembers } from './token-members.ts';

/** A verified token response (RFC 6749 section 5.1). */
export interface TokenResponse {
  accessToken: string;
  refreshToken: string | undefined;
  idToken: string | undefined;
  /** Undefined where the requested scopes were granted. */
  scopes: string[] | undefined;
  expiresInSeconds: number | undefined;
  /** The lifetime of the refresh token, where the provider states it. */
  refreshExpiresInSeconds?: number | undefined;
  /** The API's base URL for this user, where the app lets the response name it. */
  apiBaseUrl?: string | undefined;
  /** Claims of the verified ID token; undefined where there was none. */
  claims: Claims | undefined;
  /** The key that the access token is bound to (RFC 9449); undefined for a bearer token. */
  dpopKey?: DpopKey | undefined;
}

export type Claims = Record<string, unknown> & { sub: string };

/** The raw response to a request, filled before the library sees it; `status` is undefined where no response arrived. */
export interface CapturedResponse {
  /** Of a token request; absent for another one, whose response is not read as tokens. */
  app?: ConnectedApp;
  /** That the request holds: the provider must not make us show them. */
  secrets?: readonly (string | undefined)[];
  status?: number | undefined;
  /** Something of the request may have reached the provider. */
  isSent?: boolean;
  /** The `error` member (RFC 6749 section 5.2), where it looks like a code. */
  error?: string | undefined;
  /** The member for which a token response is refused. */
  fault?: string | undefined;
  /** Saved before anything else is checked: once it is issued, the old one may be spent (R32). */
  refreshToken?: string;
  /** False for a body that is not JSON, or not whole; an empty body counts as JSON without members. */
  json?: boolean;
  retryAfterSeconds?: number;
  /** The provider limits the rate of our calls. */
  limited?: boolean;
  /** As `TokenRefresh.saveRefreshToken`: awaited before the library gets the response. Must not reject. */
  saveRefreshToken?: ((refreshToken: string) => Promise<void>) | undefined;
  /** As the library got it, for an issuer template alone. */
  response?: Response;
  /** The library gets it once more, and no request is sent. */
  isReadAgain?: boolean;
}

/** Providers may respond with 201, although RFC 6749 section 5.1 requires 200. */
const hasTokens = (status: number): boolean => status === 200 || status === 201;

/** Captures the response, and returns it for the library: tokens in the form of RFC 6749 section 5.1. */
export async function captureResponse(response: Response, captured: CapturedResponse): Promise<Response> {
  const text = await response.text();
  const { status, headers } = response;
  const members = responseMembers(text, headers.get('content-type'));
  captured.status = status;
  captured.limited = isLimit(response);
  captured.json = isWhole(response) && (parseObject(text) !== undefined || text.trim() === '');
  // The provider may require a second call with a DPoP nonce (RFC 9449 section 8): the later response counts.
  captured.error = oauthErrorOf(members?.error, captured.secrets);
  const retryAfter = Number(headers.get('retry-after'));
  if (Number.isFinite(retryAfter) && retryAfter > 0) captured.retryAfterSeconds = Math.min(3600, Math.ceil(retryAfter));
  const { app } = captured;
  if (!app || !hasTokens(status)) return new Response(text || null, { status, headers });
  const tokens = readTokens(members ?? {}, { tokenPath: app.tokenPath, isOpenId: isOpenIdApp(app) });
  captured.fault = tokens.fault;
  if (tokens.refreshToken !== undefined) {
    captured.refreshToken = tokens.refreshToken;
    await captured.saveRefreshToken?.(tokens.refreshToken);
  }
  // The library refuses an empty object.
  return new Response(JSON.stringify(tokens.members ?? {}), { status: 200, headers });
}
