/** Token responses: captures status, error code and refresh token before the library checks the rest. */
import { isWhole } from '../outbound/whole-response.ts';
import { type ConnectedApp, isOpenIdApp } from './connected-app.ts';
import type { DpopKey } from './dpop.ts';
import { oauthErrorOf } from './oauth-error.ts';
import { retryFacts } from './provider-error.ts';
import { readTokens, responseMembers } from './token-members.ts';

/** A verified token response (RFC 6749 section 5.1). */
export interface TokenResponse {
  accessToken: string;
  refreshToken: string | undefined;
  idToken: string | undefined;
  /** Undefined if the requested scopes were granted. */
  scopes: string[] | undefined;
  expiresInSeconds: number | undefined;
  /** The lifetime of the refresh token, if the provider states it. */
  refreshExpiresInSeconds?: number | undefined;
  /** The API base URL for this user, if the app allows the response to name it. */
  apiBaseUrl?: string | undefined;
  /** Claims of the verified ID token; undefined if there was none. */
  claims: Claims | undefined;
  /** The key that the access token is bound to (RFC 9449); undefined for a bearer token. */
  dpopKey?: DpopKey | undefined;
}

export type Claims = Record<string, unknown> & { sub: string };

/** Facts about the raw response, set before the library reads it; `status` is undefined if no response arrived. */
export interface Capture {
  /** Set for a token request only: the response of any other request is not read as tokens. */
  app?: ConnectedApp;
  /** The secrets in the request, which a response must not make us show. */
  secrets?: readonly (string | undefined)[];
  status?: number | undefined;
  /** A part of the request may have reached the provider. */
  isSent?: boolean;
  /** The `error` member (RFC 6749 section 5.2), if it is a valid code. */
  error?: string | undefined;
  /** The member because of which a token response is refused, and a description of its value that may be shown. */
  fault?: string | undefined;
  faultyValue?: string | undefined;
  /** Saved before anything else is checked, since the old refresh token may be spent (R32). */
  refreshToken?: string;
  /** False for a body that is neither JSON nor a form, or incomplete; an empty body counts as JSON without members. */
  isReadable?: boolean;
  retryAfterSeconds?: number | undefined;
  /** The provider refused the call because of its rate limit. */
  limited?: boolean;
  /** As `TokenRefresh.saveRefreshToken`: awaited before the library gets the response. Must not reject. */
  saveRefreshToken?: ((refreshToken: string) => Promise<void>) | undefined;
  /** The response that the library read; kept only for an issuer template. */
  response?: Response;
  /** True while the library reads `response` again for another tenant: no request is sent. */
  isRereading?: boolean;
}

/** Providers may respond with 201, although RFC 6749 section 5.1 requires 200. */
const hasTokens = (status: number): boolean => status === 200 || status === 201;

/**
 * Captures a response and returns it for the library, with tokens in the form of RFC 6749 section 5.1.
 * @param now milliseconds since the epoch
 */
export async function captureResponse(response: Response, capture: Capture, now: number): Promise<Response> {
  const text = await response.text();
  const { status, headers } = response;
  const members = responseMembers(text, headers.get('content-type'));
  capture.status = status;
  const { limited = false, retryAfterSeconds } = retryFacts(response, now);
  Object.assign(capture, { limited, retryAfterSeconds });
  capture.isReadable = isWhole(response) && (members !== undefined || text.trim() === '');
  // The provider may require a second call with a DPoP nonce (RFC 9449 section 8): the later response counts.
  capture.error = oauthErrorOf(members?.error, capture.secrets);
  const { app } = capture;
  if (!app || !hasTokens(status)) return new Response(text || null, { status, headers });
  const { tokenPath } = app;
  const tokens = readTokens(members ?? {}, { tokenPath, isOpenId: isOpenIdApp(app), secrets: capture.secrets });
  capture.fault = tokens.fault;
  capture.faultyValue = tokens.faultyValue;
  if (tokens.refreshToken !== undefined) {
    capture.refreshToken = tokens.refreshToken;
    await capture.saveRefreshToken?.(tokens.refreshToken);
  }
  // The library refuses an empty object.
  return new Response(JSON.stringify(tokens.members ?? {}), { status: 200, headers });
}
