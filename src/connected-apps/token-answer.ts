/** Owns what a token endpoint answers, and the first look at it: what must not be lost is kept, what must not be believed taken out. */
import type { DpopKey } from './dpop.ts';

/** What a token endpoint gave (RFC 6749 section 5.1), checked and with hostile numbers taken out. */
export interface TokenAnswer {
  accessToken: string;
  refreshToken: string | undefined;
  idToken: string | undefined;
  /** Undefined: the same as was asked for. */
  scopes: string[] | undefined;
  expiresInSeconds: number | undefined;
  /** How long the refresh token lasts, where the provider says so: no standard has a member for it. */
  refreshExpiresInSeconds?: number | undefined;
  /** Claims of the verified ID token; undefined where none came. */
  claims: Claims | undefined;
  /** What the access token is bound to (RFC 9449); undefined for a bearer token. */
  dpopKey?: DpopKey | undefined;
}

export type Claims = Record<string, unknown> & { sub: string };

/** Filled while the answer passes; `status` undefined means that none came. */
export interface RawTokenAnswer {
  status?: number;
  /** The `error` member of a JSON answer (RFC 6749 section 5.2). */
  error?: string;
  /** Kept before anything else is judged: once it is given, the old one may be spent (R32). */
  refreshToken?: string;
  /** False where a body came that is not JSON; an empty body counts as JSON without members. */
  json?: boolean;
  retryAfterSeconds?: number;
  /** Waited for before the answer is handed on. Must not reject. */
  keep?: ((refreshToken: string) => Promise<void>) | undefined;
}

/** No access token is believed for longer than this, whatever `expires_in` says. */
const MOST_SECONDS = 31_536_000;

/** Notes what the answer holds and hands it on with `expires_in` made harmless. */
export async function readTokenAnswer(answer: Response, holder: RawTokenAnswer): Promise<Response> {
  const text = await answer.text();
  const body = parseObject(text);
  // A provider may ask for the same once more with a nonce (RFC 9449 section 8): the later answer counts.
  delete holder.error;
  holder.status = answer.status;
  holder.json = body !== undefined || text.trim() === '';
  const retryAfter = Number(answer.headers.get('retry-after'));
  if (Number.isFinite(retryAfter) && retryAfter > 0) holder.retryAfterSeconds = Math.min(3600, Math.ceil(retryAfter));
  if (typeof body?.error === 'string') holder.error = body.error.slice(0, 100);
  if (answer.status === 200 && typeof body?.refresh_token === 'string' && body.refresh_token !== '') {
    holder.refreshToken = body.refresh_token;
    await holder.keep?.(body.refresh_token);
  }
  if (answer.status !== 200 || !body) return new Response(text, { status: answer.status, headers: answer.headers });
  const harmless = JSON.stringify({ ...body, expires_in: lifetimeSeconds(body.expires_in) });
  return new Response(harmless, { status: answer.status, headers: answer.headers });
}

/**
 * Seconds as a positive whole number of at most a year. Anything else (negative, zero, not a number, a list) says nothing
 * about the lifetime, so it is left out: the platform's 401 then tells when the token is spent (R27).
 */
export function lifetimeSeconds(given: unknown): number | undefined {
  const seconds = typeof given === 'string' && /^\d{1,15}$/.test(given.trim()) ? Number(given) : given;
  if (typeof seconds !== 'number' || !Number.isFinite(seconds) || seconds < 1) return undefined;
  return Math.min(MOST_SECONDS, Math.floor(seconds));
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
