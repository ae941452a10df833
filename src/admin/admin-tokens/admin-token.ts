/** Admin tokens: made and shown once, kept as a hash in a sealed record, found by each call anew so that revoking one works at once. */

import { hashOf, keys } from '../../storage/keys.ts';
import { createOpaqueToken, matchesHash, parseOpaqueToken } from '../../storage/opaque-token.ts';
import { createRecords, type Records, type Versioned } from '../../storage/records.ts';
import type { SealedJson } from '../../storage/sealed-json.ts';
import type { Store } from '../../storage/store.ts';
import { createUseNotes } from '../../storage/use-notes.ts';

export const ADMIN_TOKEN_PREFIX = 'gtha_';

/** `write` includes reading. */
export type AdminTokenScope = 'read' | 'write';

/** Times in milliseconds since the epoch. */
export interface AdminToken {
  id: string;
  name: string;
  scope: AdminTokenScope;
  createdAt: number;
  expiresAt: number;
}

/** As in the store: the secret's hash beside it. */
interface KeptToken extends AdminToken {
  hash: string;
}

export interface AdminTokens extends Pick<Records<KeptToken, AdminToken>, 'find' | 'page'> {
  /** `text` is what its holder keeps; nobody can have it again. @param wanted `id`: as `newOpaqueTokenId` draws them */
  create(wanted: Omit<AdminToken, 'createdAt'>): Promise<{ token: AdminToken; text: string }>;
  /** The token that is valid now; undefined alike for unknown, wrong, expired and revoked ones (R84). Notes the use. */
  verify(text: string): Promise<AdminToken | undefined>;
  lastUse(id: string): Promise<number | undefined>;
  /** Answers false where there is no such token. */
  revoke(id: string): Promise<boolean>;
}

/** An id is written into the token, so what was made before the record is nobody's. */
export function createAdminTokens(parts: { store: Store; sealedJson: SealedJson; clock: () => number }): AdminTokens {
  const { store, sealedJson, clock } = parts;
  const records = createRecords<KeptToken, AdminToken>({
    store,
    sealedJson,
    index: keys.adminTokens,
    keyOf: keys.adminToken,
    noun: 'admin token',
    toView: tokenOf,
    beside: (id) => [keys.adminTokenUse(id)],
  });
  const uses = createUseNotes({ store, clock, keyOf: keys.adminToken, noteKeyOf: keys.adminTokenUse });

  return {
    async create({ id, name, scope, expiresAt }) {
      const { secret, text } = createOpaqueToken(ADMIN_TOKEN_PREFIX, undefined, { id });
      const kept = { id, name, scope, createdAt: clock(), expiresAt, hash: hashOf(secret) };
      return { token: await records.create(kept), text };
    },

    async verify(text) {
      const given = parseOpaqueToken(ADMIN_TOKEN_PREFIX, text);
      const record = given && (await records.read(given.id));
      if (!given || !record) return undefined;
      const { id, hash, expiresAt } = record.value;
      if (!matchesHash(given.secret, hash) || expiresAt <= clock()) return undefined;
      void uses.note(id, String(clock()));
      return tokenOf(record);
    },

    find: records.find,
    page: records.page,

    async lastUse(id) {
      const text = await uses.last(id);
      return text === undefined ? undefined : Number(text);
    },

    revoke: records.remove,
  };
}

function tokenOf({ value: { hash: _, ...token } }: Versioned<KeptToken>): AdminToken {
  return token;
}
