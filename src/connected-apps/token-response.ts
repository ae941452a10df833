/** Token responses: captures the refresh token before the library checks the rest, and limits `expires_in`. */

import { parseObject } from '../json.ts';
import type { DpopKey } from './dpop.ts';

/** A verified token response (RFC 6749 section 5.1). */
export interface TokenResponse {
  accessToken: string;
  refreshToken: string | undefined;
  idToken: string | undefined;
  /** Undefined where the requested scopes were granted. */
  scopes: string[] | undefined;
  expiresInSeconds: number | undefined;
  /** The lifetime of the refresh token, where the provider states it; no standard defines a member for it. */
  refreshExpiresInSeconds?: number | undefined;
  /** Claims of the verified ID token; undefined where there was none. */
  claims: Claims | undefined;
  /** The key that the access token is bound to (RFC 9449); undefined for a bearer token. */
  dpopKey?: DpopKey | undefined;
}

export type Claims = Record<string, unknown> & { sub: string };

/** The raw response, filled before the library sees it; `status` is undefined where no response arrived. */
export interface CapturedResponse {
  status?: number;
  /** The `error` member of a JSON response (RFC 6749 section 5.2). */
  error?: string;
  /** Saved before anything else is checked: once it is issued, the old one may be spent (R32). */
  refreshToken?: string;
  /** False for a body that is not JSON; an empty body counts as JSON without members. */
  json?: boolean;
  retryAfterSeconds?: number;
  /** Saves a new refresh token; awaited before the library gets the response. Must not reject. */
  keep?: ((refreshToken: string) => Promise<void>) | undefined;
  /** As the library got it, for an issuer template alone. */
  response?: Response;
  /** The library gets it once more, and no request is sent. */
  isReadAgain?: boolean;
}

/** The longest lifetime that is accepted from `expires_in`. */
const MAX_LIFETIME_SECONDS = 31_536_000;

/** Captures the response, and returns it for the library with a safe `expires_in`. */
export async function captureTokenResponse(response: Response, captured: CapturedResponse): Promise<Response> {
  const text = await response.text();
  const body = parseObject(text);
  // The provider may require a second call with a DPoP nonce (RFC 9449 section 8): the later response counts.
  delete captured.error;
  captured.status = response.status;
  captured.json = body !== undefined || text.trim() === '';
  const retryAfter = Number(response.headers.get('retry-after'));
  if (Number.isFinite(retryAfter) && retryAfter > 0) captured.retryAfterSeconds = Math.min(3600, Math.ceil(retryAfter));
  if (typeof body?.error === 'string') captured.error = body.error.slice(0, 100);
  if (response.status === 200 && typeof body?.refresh_token === 'string' && body.refresh_token !== '') {
    captured.refreshToken = body.refresh_token;
    await captured.keep?.(body.refresh_token);
  }
  if (response.status !== 200 || !body)
    return new Response(text, { status: response.status, headers: response.headers });
  const limited = JSON.stringify({ ...body, expires_in: lifetimeSeconds(body.expires_in) });
  return new Response(limited, { status: response.status, headers: response.headers });
}

/**
 * Whole seconds from 1 to a year. Any other value is dropped, and the platform's 401 then shows that the token has
 * expired (R27).
 */
export function lifetimeSeconds(value: unknown): number | undefined {
  const seconds = typeof value === 'string' && /^\d{1,15}$/.test(value.trim()) ? Number(value) : value;
  if (typeof seconds !== 'number' || !Number.isFinite(seconds) || seconds < 1) return undefined;
  return Math.min(MAX_LIFETIME_SECONDS, Math.floor(seconds));
}
