/** API tokens, which administrators create for users and service accounts. Only their hashes are stored. */
import { createHash, randomBytes, randomUUID } from 'node:crypto';

export const API_TOKEN_PREFIX = 'sbxt_';

export interface ApiToken {
  readonly id: string;
  readonly name: string;
  readonly accountId: string;
  readonly scopes: readonly string[];
  /** The first characters, to tell tokens apart. */
  readonly start: string;
  readonly createdBy: string;
  readonly createdAtMs: number;
  /** Undefined if the token does not expire. */
  readonly expiresAtMs?: number;
  readonly revokedAtMs?: number;
  readonly lastUsedAtMs?: number;
}

export interface NewApiToken {
  name: string;
  accountId: string;
  scopes: readonly string[];
  expiresAtMs?: number | undefined;
  createdBy: string;
  /** The token of a seed file, which is the same at every start. Default: a random token. */
  token?: string | undefined;
}

export interface ApiTokens {
  readonly all: readonly ApiToken[];
  byId(id: string): ApiToken | undefined;
  /** Creates a token. Only this result contains its text, `token`. */
  create(newToken: NewApiToken): { apiToken: ApiToken; token: string };
  /** Returns the token if it is valid, and records its use. */
  use(token: string): ApiToken | undefined;
  revoke(id: string): void;
}

export function isApiToken(text: string): boolean {
  return new RegExp(`^${API_TOKEN_PREFIX}[A-Za-z0-9_-]{32,128}$`).test(text);
}

export function createApiTokens({ now }: { now: () => number }): ApiTokens {
  const byHash = new Map<string, ApiToken>();
  const change = (hash: string, token: ApiToken, changes: Partial<ApiToken>) => {
    const changed = { ...token, ...changes };
    byHash.set(hash, changed);
    return changed;
  };

  return {
    get all() {
      return [...byHash.values()];
    },
    byId: (id) => [...byHash.values()].find((token) => token.id === id),
    create({ token = API_TOKEN_PREFIX + randomBytes(32).toString('base64url'), expiresAtMs, ...details }) {
      const start = token.slice(0, API_TOKEN_PREFIX.length + 4);
      const expiry = expiresAtMs === undefined ? {} : { expiresAtMs };
      const apiToken = { ...details, ...expiry, id: randomUUID(), start, createdAtMs: now() };
      byHash.set(hashOf(token), apiToken);
      return { apiToken, token };
    },
    use(token) {
      const hash = hashOf(token);
      const apiToken = byHash.get(hash);
      if (apiToken === undefined || apiToken.revokedAtMs !== undefined) return undefined;
      if (apiToken.expiresAtMs !== undefined && now() >= apiToken.expiresAtMs) return undefined;
      return change(hash, apiToken, { lastUsedAtMs: now() });
    },
    revoke(id) {
      for (const [hash, token] of byHash) {
        if (token.id === id && token.revokedAtMs === undefined) change(hash, token, { revokedAtMs: now() });
      }
    },
  };
}

/** The tokens are random enough not to need a salt or a slow hash. */
function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}
