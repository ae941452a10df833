/** Owns admin tokens: made and shown once, kept as a hash, found by each call anew so that revoking one works at once. */
import { AppError } from '../errors.ts';
import { hashOf, keys } from '../storage/keys.ts';
import { createOpaqueToken, isOpaqueTokenId, matchesHash, parseOpaqueToken } from '../storage/opaque-token.ts';
import type { IndexPage, PageOptions, Store } from '../storage/store.ts';

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

export interface AdminTokens {
  /** `text` is what its holder keeps; nobody can have it again. @param wanted `id`: as `newOpaqueTokenId` draws them */
  create(wanted: Omit<AdminToken, 'createdAt'>): Promise<{ token: AdminToken; text: string }>;
  /** The token that is valid now; undefined alike for unknown, wrong, expired and revoked ones (R84). Notes the use. */
  verify(text: string): Promise<AdminToken | undefined>;
  find(id: string): Promise<AdminToken | undefined>;
  /** The newest first; expired ones included. */
  page(options: Pick<PageOptions, 'after' | 'limit'>): Promise<{ tokens: AdminToken[]; next: string | undefined }>;
  lastUse(id: string): Promise<number | undefined>;
  /** Answers false where there is no such token. */
  revoke(id: string): Promise<boolean>;
}

/** An id is written into the token, so what was made before the record is nobody's. */
export function createAdminTokens(parts: { store: Store; clock: () => number }): AdminTokens {
  const { store, clock } = parts;
  const index = keys.adminTokens;

  const load = async (id: string): Promise<KeptToken | undefined> => {
    if (!isOpaqueTokenId(id)) return undefined;
    const stored = await store.get(keys.adminToken(id));
    return stored && (JSON.parse(stored.value) as KeptToken);
  };

  const noteUse = createUseNotes(store, clock);

  return {
    async create({ id, name, scope, expiresAt }) {
      const { secret, text } = createOpaqueToken(ADMIN_TOKEN_PREFIX, undefined, { id });
      const token: AdminToken = { id, name, scope, createdAt: clock(), expiresAt };
      const kept: KeptToken = { ...token, hash: hashOf(secret) };
      const written = await store.write([
        { put: keys.adminToken(id), value: JSON.stringify(kept), ifVersion: 0 },
        { index, add: id, score: token.createdAt },
      ]);
      if (!written) throw new AppError('version_conflict', { detail: 'Try again: the id was taken.' });
      return { token, text };
    },

    async verify(text) {
      const given = parseOpaqueToken(ADMIN_TOKEN_PREFIX, text);
      const kept = given && (await load(given.id));
      if (!given || !kept || !matchesHash(given.secret, kept.hash) || kept.expiresAt <= clock()) return undefined;
      void noteUse(kept.id);
      return withoutHash(kept);
    },

    async find(id) {
      const kept = await load(id);
      return kept && withoutHash(kept);
    },

    async page(options) {
      const page: IndexPage = await store.page(index, { ...options, order: 'descending' });
      const found = await Promise.all(page.items.map(({ member }) => load(member)));
      return { tokens: found.flatMap((kept) => (kept ? [withoutHash(kept)] : [])), next: page.next };
    },

    async lastUse(id) {
      const stored = await store.get(keys.adminTokenUse(id));
      return stored && Number(stored.value);
    },

    async revoke(id) {
      if (!(await load(id))) return false;
      return store.write([{ delete: keys.adminToken(id) }, { delete: keys.adminTokenUse(id) }, { index, remove: id }]);
    },
  };
}

function withoutHash({ hash: _, ...token }: KeptToken): AdminToken {
  return token;
}

const USE_MILLISECONDS = 60_000;
const MOST_NOTES = 10_000;

/** Notes uses at most once a minute for each token and process. Never rejects: a note is worth no call. */
function createUseNotes(store: Store, clock: () => number): (id: string) => Promise<void> {
  const noted = new Map<string, number>();
  return async (id) => {
    const now = clock();
    const last = noted.get(id);
    if (last !== undefined && now >= last && now - last < USE_MILLISECONDS) return;
    if (noted.size >= MOST_NOTES) noted.clear();
    noted.set(id, now);
    try {
      // A call may end after its token was revoked: then nothing is left behind.
      await store.write([{ exists: keys.adminToken(id) }, { put: keys.adminTokenUse(id), value: String(now) }]);
    } catch {
      noted.delete(id);
    }
  };
}
