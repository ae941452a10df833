/** Updates the lists of connections after each write of a grant. If the storage fails, updates them later. */
import { createWriteQueue } from '../../shared/storage/write-queue.ts';
import type { ConnectionIndex, ListedConnection } from './connection-index.ts';
import type { StoredGrant } from './grant.ts';

/** Like the index, but `update` and `drop` never reject. */
export interface Listing extends Pick<ConnectionIndex, 'update' | 'drop'> {
  /** Writes the remaining changes, in at most a few seconds. */
  close(): Promise<void>;
}

/** @param parts `onLost`: called with the number of connections whose lists could not be updated */
export function createListing(parts: {
  index: Pick<ConnectionIndex, 'update' | 'drop'>;
  load: (userId: string, appId: string) => Promise<StoredGrant | undefined>;
  onLost: (connections: number) => void;
}): Listing {
  const { index, load, onLost } = parts;
  const queue = createWriteQueue({ onLost });

  /** Updates the lists to the grant as it is stored now: it may have been rewritten or removed since. */
  const relist = async ({ userId, appId }: ListedConnection): Promise<void> => {
    let stored = await load(userId, appId);
    let listedVersion: number | undefined;
    do {
      if (!stored) await index.drop({ userId, appId });
      else if ('grant' in stored) await index.update(stored.grant);
      listedVersion = stored?.version;
      stored = await load(userId, appId);
    } while (stored?.version !== listedVersion);
  };
  const relistLater = (connection: ListedConnection) => void queue.add(() => relist(connection));

  return {
    update: (grant, saved) => index.update(grant, saved).catch(() => relistLater(grant)),
    drop: (connection) => index.drop(connection).catch(() => relistLater(connection)),
    close: queue.close,
  };
}
