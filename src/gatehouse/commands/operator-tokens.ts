/** Creates, lists and revokes admin tokens for an operator. */
import { AppError } from '../../shared/errors.ts';
import { newOpaqueTokenId } from '../../shared/storage/opaque-token.ts';
import { allPages } from '../../shared/storage/paging.ts';
import type { OpenedStorage } from '../../shared/storage/storage.ts';
import { DAY_MS, isoOrNull, isoTime } from '../../shared/time.ts';
import {
  type AdminToken,
  type AdminTokenScope,
  type AdminTokens,
  createAdminTokens,
} from '../admin-tokens/admin-tokens.ts';
import { withStorage } from './open-storage.ts';
import { auditedByOperator } from './operator-trail.ts';
import type { Terminal } from './terminal.ts';

const LIST_BATCH = 100;

export const create = ({ source }: Terminal, request: Parameters<typeof createAdminToken>[1]) =>
  withStorage(source, (storage) => createAdminToken(storage, request));

export const list = ({ source }: Terminal) => withStorage(source, (storage) => listAdminTokens(adminTokensOf(storage)));

export const revoke = ({ source }: Terminal, id: string) =>
  withStorage(source, (storage) => revokeAdminToken(storage, id));

const adminTokensOf = ({ store, sealedJson }: OpenedStorage) =>
  createAdminTokens({ store, sealedJson, clock: Date.now });

/** Times in ISO 8601. */
export interface ListedToken {
  id: string;
  name: string;
  scope: AdminTokenScope;
  createdAt: string;
  expiresAt: string;
  /** Null if it was never used. */
  lastUsedAt: string | null;
}

async function listAdminTokens(tokens: AdminTokens): Promise<ListedToken[]> {
  const pages = await Array.fromAsync(allPages((options) => tokens.page(options), LIST_BATCH));
  return Promise.all(
    pages.flat().map(async ({ id, name, scope, createdAt, expiresAt }) => ({
      id,
      name,
      scope,
      createdAt: isoTime(createdAt),
      expiresAt: isoTime(expiresAt),
      lastUsedAt: isoOrNull(await tokens.lastUse(id)),
    })),
  );
}

/** The error does not repeat `id`, which may be a token by mistake. */
async function revokeAdminToken(storage: OpenedStorage, id: string): Promise<AdminToken> {
  const tokens = adminTokensOf(storage);
  const token = await tokens.find(id);
  if (!token) {
    const detail = 'There is no admin token with this id. To see the ids, run: npm run gatehouse -- admin-tokens list';
    throw new AppError('not_found', { detail });
  }
  const target = { kind: 'admin_token', id, name: token.name };
  await auditedByOperator(storage.store, [{ event: 'admin_token.revoked', target }], () => tokens.revoke(id));
  return token;
}

/** Creates the token, with an audit entry. */
export async function createAdminToken(
  storage: OpenedStorage,
  { name, scope, days }: { name: string; scope: AdminTokenScope; days: number },
): Promise<{ token: AdminToken; text: string }> {
  const clock = Date.now;
  const expiresAt = clock() + days * DAY_MS;
  const id = newOpaqueTokenId();
  const target = { kind: 'admin_token', id, name };
  const facts = { scope, expiresAt: isoTime(expiresAt) };
  return auditedByOperator(storage.store, [{ event: 'admin_token.created', target, facts }], () =>
    adminTokensOf(storage).create({ id, name, scope, expiresAt }),
  );
}
