/** Creates connection ids, and stores for each id which user and app its connection belongs to. */
import { keys } from '../../shared/storage/keys.ts';
import { isOpaqueTokenId, newOpaqueTokenId } from '../../shared/storage/opaque-token.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { ListedConnection } from './connection-index.ts';
import type { Grant } from './grant.ts';

const PREFIX = 'cn';
export const newConnectionId = (): string => PREFIX + newOpaqueTokenId();

/** A record may outlive its connection: a caller must check that the grant still has the id. */
export interface ConnectionIds {
  /** Stores the user and app of the grant under its id. */
  save(grant: Grant): Promise<void>;

  drop(id: string): Promise<void>;
  find(id: string): Promise<ListedConnection | undefined>;
}

export function createConnectionIds(store: Pick<Store, 'get' | 'write'>): ConnectionIds {
  return {
    async save({ id, userId, appId }) {
      await store.write([{ put: keys.connectionId(id), value: JSON.stringify({ userId, appId }) }]);
    },

    async drop(id) {
      await store.write([{ delete: keys.connectionId(id) }]);
    },

    async find(id) {
      // Only a well-formed id becomes part of a key.
      if (!id.startsWith(PREFIX) || !isOpaqueTokenId(id.slice(PREFIX.length))) return undefined;
      const record = await store.get(keys.connectionId(id));
      return record && (JSON.parse(record.value) as ListedConnection);
    },
  };
}
