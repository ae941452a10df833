/** Reads a token response (RFC 6749 section 5.1), including the variants that providers send. Pure. */
import { z } from 'zod';
import { isObject, parseObject } from '../json.ts';

type Members = Record<string, unknown>;

const FORM_TYPES: readonly string[] = ['application/x-www-form-urlencoded', 'text/plain', ''];

/** Reads JSON with any content type, and forms with their own content type, as plain text, or without one. */
export function responseMembers(text: string, contentType: string | null): Members | undefined {
  const json = parseObject(text);
  const [type = ''] = (contentType ?? '').split(';');
  if (json || !FORM_TYPES.includes(type.trim().toLowerCase())) return json;
  const form = Object.fromEntries(new URLSearchParams(text.trim()));
  return Object.hasOwn(form, 'access_token') || Object.hasOwn(form, 'error') ? form : undefined;
}

/** The longest lifetime that is accepted. */
const MAX_LIFETIME_SECONDS = 31_536_000;

/**
 * A whole number of seconds from 1 to a year. Any other value is dropped; the platform's 401 then shows that the token
 * has expired (R27).
 */
function lifetimeSeconds(value: unknown): number | undefined {
  const seconds = typeof value === 'string' && /^\d{1,15}$/.test(value.trim()) ? Number(value) : value;
  if (typeof seconds !== 'number' || !Number.isFinite(seconds) || seconds < 1) return undefined;
  return Math.min(MAX_LIFETIME_SECONDS, Math.floor(seconds));
}

/** No standard names the lifetime of a refresh token: these are the members of GitHub, Keycloak and Intuit. */
const REFRESH_LIFETIMES = ['refresh_token_expires_in', 'refresh_expires_in', 'x_refresh_token_expires_in'] as const;

/** The described type of tokens that are bound to a key, although none was sent (RFC 9449 section 5). */
export const UNREQUESTED_DPOP = '“DPoP”';

/** The longest part of a type without punctuation: tokens have longer ones. */
const MAX_TYPE_PART = 20;

/**
 * Describes a token type that is not accepted. Some providers confuse members, so what may be a token is not repeated.
 * @param secrets of the request, and the tokens of the response
 */
function describeTokenType(value: unknown, secrets: readonly unknown[]): string {
  if (typeof value !== 'string') return Array.isArray(value) ? 'a list' : `of the type ${typeof value}`;
  const isType =
    /^[\x20-\x7e]{1,60}$/.test(value) &&
    (value.match(/\d/g)?.length ?? 0) <= 2 &&
    value.split(/[^A-Za-z0-9]/).every(({ length }) => length <= MAX_TYPE_PART) &&
    !secrets.some(
      (secret) => typeof secret === 'string' && secret !== '' && (secret.includes(value) || value.includes(secret)),
    );
  return isType ? `“${value}”` : `a text of ${value.length} characters`;
}

/** Slack sends the kind of account in place of the token type. */
const BEARER_TYPES: readonly string[] = ['bearer', 'bot', 'user'];

const optionalText = z
  .string()
  .optional()
  .transform((text) => text || undefined);

const tokenMembers = z.object({
  /** RFC 6749 appendix A.12: `1*VSCHAR`. */
  access_token: z.string().regex(/^[\x20-\x7e]+$/),
  refresh_token: optionalText,
  id_token: optionalText,
  token_type: optionalText
    .transform((type = 'bearer') => (BEARER_TYPES.includes(type.toLowerCase()) ? 'bearer' : type.toLowerCase()))
    .pipe(z.enum(['bearer', 'dpop'])),
  scope: z
    .union([z.string(), z.array(z.string())])
    .transform((scope) =>
      [scope]
        .flat()
        .join(' ')
        .split(/[\s,]+/)
        .filter(Boolean)
        .join(' '),
    )
    .optional(),
  expires_in: z.unknown().transform(lifetimeSeconds).optional(),
});

/** Members that belong to one access token: next to nested tokens, they are those of another token. */
const TOKEN_MEMBERS: ReadonlySet<string> = new Set([...Object.keys(tokenMembers.shape), ...REFRESH_LIFETIMES]);

export interface TokenMembers {
  /** Named as in RFC 6749 section 5.1, with others of the provider; undefined for an invalid response. */
  members: Members | undefined;
  /** The invalid member. */
  fault: string | undefined;
  /** A description of the value of `token_type` that may be shown, if that is the invalid member. */
  faultyValue: string | undefined;
  /** Set for an invalid response, too. */
  refreshToken: string | undefined;
}

/**
 * @param options `tokenPath`: member names joined by dots; if there is no object at that path, the tokens are in the
 *   response itself. `isOpenId`: false if no ID token was requested, so any is dropped. `secrets` of the request
 */
export function readTokens(
  response: Members,
  {
    tokenPath,
    isOpenId,
    secrets = [],
  }: { tokenPath: string | undefined; isOpenId: boolean; secrets?: readonly unknown[] | undefined },
): TokenMembers {
  const entries = Object.entries(atPath(response, tokenPath)).filter(([, value]) => value !== null);
  const { id_token, ...withoutIdToken } = Object.fromEntries(entries);
  const tokens: Members = isOpenId ? { ...withoutIdToken, id_token } : withoutIdToken;
  const read = tokenMembers.safeParse(tokens);
  const refreshToken = optionalText.safeParse(tokens.refresh_token).data;
  if (!read.success) {
    const fault = String(read.error.issues[0]?.path[0]);
    const allSecrets = [...secrets, tokens.access_token, tokens.refresh_token, tokens.id_token];
    const faultyValue = fault === 'token_type' ? describeTokenType(tokens.token_type, allSecrets) : undefined;
    return { members: undefined, fault, faultyValue, refreshToken };
  }
  const refreshLifetimes = REFRESH_LIFETIMES.map((name) => lifetimeSeconds(tokens[name]));
  const refresh_token_expires_in = refreshLifetimes.find((seconds) => seconds !== undefined);
  const members = { ...tokens, ...read.data, refresh_token_expires_in };
  return { members, fault: undefined, faultyValue: undefined, refreshToken };
}

/** The response, with its tokens replaced by those at the path. */
function atPath(response: Members, path: string | undefined): Members {
  const names = path?.split('.') ?? [];
  const nested = names.reduce<unknown>(
    (value, name) => (isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined),
    response,
  );
  if (!isObject(nested) || nested === response) return response;
  return { ...Object.fromEntries(Object.entries(response).filter(([name]) => !TOKEN_MEMBERS.has(name))), ...nested };
}
