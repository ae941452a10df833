/** Writes grants, and reads whether a write was made if the storage failed during it. */
import { retryWhileUnavailable } from '../../shared/storage/retry.ts';
import type { Write } from '../../shared/storage/store.ts';
import type { Grant, StoredGrant } from './grant.ts';
import type { GrantStore, SaveOptions } from './grant-store.ts';

/** After a write with an unknown result, how long to try to read whether it was made. */
export const CONFIRM_TIMEOUT_MS = 5_000;

/**
 * Saves the grant like `GrantStore.save`. A write that rejects may still have been made, so the grant is read again. If
 * it is stored, it is written once more, so that the `beside` write is made as well.
 * @throws AppError `storage_unavailable` if the grant is not stored, or the storage does not respond within five more
 *   seconds
 */
export async function saveConfirmed(
  grants: Pick<GrantStore, 'loadStored' | 'save'>,
  grant: Grant,
  ifVersion: number,
  options: SaveOptions,
): Promise<number | undefined> {
  try {
    return await grants.save(grant, ifVersion, options);
  } catch (error) {
    const load = () => grants.loadStored(grant.userId, grant.appId);
    const stored = await retryWhileUnavailable(load, CONFIRM_TIMEOUT_MS);
    if (!stored || 'unreadable' in stored || !hasSameTokens(stored.grant, grant)) throw error;
    const { beside = [] } = options;
    const saveAgain = () => grants.save(stored.grant, stored.version, { beside });
    return (await retryWhileUnavailable(saveAgain, CONFIRM_TIMEOUT_MS)) ?? stored.version;
  }
}

/** Deletes the grant like `GrantStore.remove`. If that rejects, checks whether the grant was deleted all the same. */
export function removeConfirmed(
  grants: Pick<GrantStore, 'loadStored' | 'remove'>,
  userId: string,
  appId: string,
  version: number,
): Promise<boolean> {
  return grants.remove(userId, appId, version).catch(async (error: unknown) => {
    const stored = await retryWhileUnavailable(() => grants.loadStored(userId, appId), CONFIRM_TIMEOUT_MS);
    if (stored) throw error;
    return true;
  });
}

const hasSameTokens = (a: Grant, b: Grant): boolean =>
  a.id === b.id && a.accessToken === b.accessToken && a.refreshToken === b.refreshToken;

/**
 * Restores the grant that a write replaced. If there was none, deletes the written grant, even if it was rewritten
 * since.
 * @param replaced the grant before the write
 * @param version the version that the write returned
 * @param conditions the conditions under which a grant of the user may be stored; undefined if no grant may be stored
 */
export async function undoWrite(
  grants: Pick<GrantStore, 'loadStored' | 'save' | 'remove'>,
  { userId, appId }: Pick<Grant, 'userId' | 'appId'>,
  replaced: StoredGrant | undefined,
  version: number,
  conditions: readonly Write[] | undefined,
): Promise<void> {
  const canRestore = conditions && replaced && 'grant' in replaced;
  if (canRestore && (await grants.save(replaced.grant, version, { writes: conditions }))) return;
  let currentVersion: number | undefined = version;
  while (currentVersion !== undefined && !(await grants.remove(userId, appId, currentVersion))) {
    const stored = await grants.loadStored(userId, appId);
    // An earlier attempt to restore it, whose result was unknown, has succeeded.
    if (canRestore && stored && 'grant' in stored && hasSameTokens(stored.grant, replaced.grant)) return;
    currentVersion = stored?.version;
  }
}
