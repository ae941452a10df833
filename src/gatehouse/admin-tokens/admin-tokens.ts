/**
 * Creates and verifies admin tokens. A token is shown once, stored as a hash, and read from the store on each call, so
 * that a revocation takes effect at once.
 */
import { hashOf, keys } from '../../shared/storage/keys.ts';
import { createLastUses } from '../../shared/storage/last-uses.ts';
import { createOpaqueToken, matchesHash, parseOpaqueToken } from '../../shared/storage/opaque-token.ts';
import { createRecords, type Records, type Versioned } from '../../shared/storage/records.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store } from '../../shared/storage/store.ts';

export const ADMIN_TOKEN_PREFIX = 'gtha_';

/** `write` includes `read`. */
export type AdminTokenScope = 'read' | 'write';

/** Times in milliseconds since the epoch. */
export interface AdminToken {
  id: string;
  name: string;
  scope: AdminTokenScope;
  createdAt: number;
  expiresAt: number;
}

/** The stored record. */
interface StoredToken extends AdminToken {
  hash: string;
}

export interface AdminTokens extends Pick<Records<StoredToken, AdminToken>, 'find' | 'page' | 'count'> {
  /**
   * Creates a token. `text` is the token itself, which is shown only once.
   * @param details `id`: from `newOpaqueTokenId`
   */
  create(details: Omit<AdminToken, 'createdAt'>): Promise<{ token: AdminToken; text: string }>;
  /** Returns the token and records its use. Returns undefined for unknown, wrong, expired and revoked tokens (R84). */
  verify(text: string): Promise<AdminToken | undefined>;
  lastUse(id: string): Promise<number | undefined>;
  /** Revokes a token. @returns false if there is no such token */
  revoke(id: string): Promise<boolean>;
}

export function createAdminTokens(parts: { store: Store; sealedJson: SealedJson; clock: () => number }): AdminTokens {
  const { store, sealedJson, clock } = parts;
  const records = createRecords<StoredToken, AdminToken>({
    store,
    sealedJson,
    index: keys.adminTokens,
    keyOf: keys.adminToken,
    resource: 'admin token',
    toView: tokenOf,
    relatedKeys: (id) => [keys.adminTokenUse(id)],
  });
  const lastUses = createLastUses({ store, clock, keyOf: keys.adminToken, useKeyOf: keys.adminTokenUse });

  return {
    async create({ id, name, scope, expiresAt }) {
      const { secret, text } = createOpaqueToken(ADMIN_TOKEN_PREFIX, id);
      const stored = { id, name, scope, createdAt: clock(), expiresAt, hash: hashOf(secret) };
      return { token: await records.create(stored), text };
    },

    async verify(text) {
      const parsed = parseOpaqueToken(ADMIN_TOKEN_PREFIX, text);
      const record = parsed && (await records.read(parsed.id));
      if (!parsed || !record) return undefined;
      const { id, hash, expiresAt } = record.value;
      if (!matchesHash(parsed.secret, hash) || expiresAt <= clock()) return undefined;
      void lastUses.record(id, String(clock()));
      return tokenOf(record);
    },

    find: records.find,
    page: records.page,
    count: records.count,

    async lastUse(id) {
      const text = await lastUses.read(id);
      return text === undefined ? undefined : Number(text);
    },

    revoke: records.remove,
  };
}

function tokenOf({ value: { hash: _, ...token } }: Versioned<StoredToken>): AdminToken {
  return token;
}
