/** Writes the lists of connections after each write of a grant, and later where the storage fails at that moment. */
import { createWriteQueue } from '../../shared/storage/write-queue.ts';
import type { ConnectionIndex, ListedConnection } from './connection-index.ts';
import type { StoredGrant } from './grant.ts';

/** As the index, but `update` and `drop` never reject. */
export interface Listing extends Pick<ConnectionIndex, 'update' | 'drop'> {
  /** Writes what is left, in at most a few seconds. */
  close(): Promise<void>;
}

/** @param parts `lost`: called with the number of connections whose lists stay as they were */
export function createListing(parts: {
  index: Pick<ConnectionIndex, 'update' | 'drop'>;
  load: (userId: string, appId: string) => Promise<StoredGrant | undefined>;
  lost: (connections: number) => void;
}): Listing {
  const { index, load, lost } = parts;
  const queue = createWriteQueue({ onLost: lost });

  /** By the grant as it is then: it may have been written again, or removed. */
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
  const later = (connection: ListedConnection) => void queue.add(() => relist(connection));

  return {
    update: (grant, saved) => index.update(grant, saved).catch(() => later(grant)),
    drop: (connection) => index.drop(connection).catch(() => later(connection)),
    close: queue.close,
  };
}
