/** Takes a storage out of service while it is filled or moved, and after it was moved. */
import { keys } from './keys.ts';
import { StorageRefused } from './refused.ts';
import type { Store } from './store.ts';

/** `filling`: until everything is written. `moving`: while it is being copied. `moved`: for ever. */
interface OutOfService {
  state: 'filling' | 'moving' | 'moved';
  /** ISO 8601, UTC. */
  since: string;
}

/** After a migration was killed, its source can be used again after this time. */
export const MOVING_SECONDS = 20;

export async function outOfService(store: Store): Promise<OutOfService | undefined> {
  const record = await store.get(keys.outOfService);
  return record && (JSON.parse(record.value) as OutOfService);
}

/** @throws StorageRefused */
export async function assertInService(store: Store): Promise<void> {
  const state = await outOfService(store);
  if (state) throw outOfServiceRefused(state);
}

export async function takeOutOfService(store: Store, state: OutOfService['state']): Promise<void> {
  const value = JSON.stringify({ state, since: new Date().toISOString() } satisfies OutOfService);
  await store.write([
    { put: keys.outOfService, value, ...(state === 'moving' ? { lifetimeSeconds: MOVING_SECONDS } : {}) },
  ]);
}

export async function putIntoService(store: Store): Promise<void> {
  await store.write([{ delete: keys.outOfService }]);
}

export function outOfServiceRefused({ state, since }: OutOfService): StorageRefused {
  return new StorageRefused(
    {
      filling: `A restore or migration into this storage started at ${since} and is not finished. Run it again; it starts over.`,
      moving: `This storage is being moved to another place. Start with that place when the move is done; if the move was stopped, wait ${MOVING_SECONDS} seconds.`,
      moved: `On ${since} this storage was moved to another place. It is out of date: name that place in the settings.`,
    }[state],
  );
}
