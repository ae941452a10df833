/** Writes the lists of connections after each write of a grant, and later where the storage fails at that moment. */
import { createWriteQueue } from '../../shared/storage/write-queue.ts';
import type { ConnectionIndex, ListedConnection } from './connection-index.ts';
import type { StoredGrant } from './grant.ts';

/** @param parts `lost`: called with the number of connections whose lists stay as they were */
export function createListing(parts: {
  index: Pick<ConnectionIndex, 'update' | 'drop'>;
  load: (userId: string, appId: string) => Promise<StoredGrant | undefined>;
  lost: (connections: number) => void;
}) {
  const { index, load, lost } = parts;
  const queue = createWriteQueue({ lost });

  /** By the grant as it is then: it may have been written again, or removed. */
  const relist = async ({ userId, appId }: ListedConnection): Promise<void> => {
    for (let stored = await load(userId, appId); ; ) {
      if (!stored) await index.drop({ userId, appId });
      else if ('grant' in stored) await index.update(stored.grant);
      const current = await load(userId, appId);
      if (current?.version === stored?.version) return;
      stored = current;
    }
  };
  const later = (connection: ListedConnection) => void queue.add(() => relist(connection));

  return {
    /** As the index does it. Never rejects. */
    update: ((grant, saved) =>
      index.update(grant, saved).catch(() => later(grant))) satisfies ConnectionIndex['update'],
    drop: ((connection) => index.drop(connection).catch(() => later(connection))) satisfies ConnectionIndex['drop'],
    /** Writes what is left, in at most a few seconds. */
    close: queue.close,
  };
}
