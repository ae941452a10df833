/** Takes a storage out of service: it is being filled, is being moved to another place, or was moved there. */
import { keys } from './keys.ts';
import { StorageRefused } from './refused.ts';
import type { Store } from './store.ts';

/** `filling`: until everything has been written. `moving`: while a copy is made. `moved`: for good. */
interface OutOfService {
  state: 'filling' | 'moving' | 'moved';
  /** ISO 8601, UTC. */
  since: string;
}

/** If a migration is killed, its source can be used again after this time. */
export const MOVING_SECONDS = 20;

export async function outOfService(store: Store): Promise<OutOfService | undefined> {
  const note = await store.get(keys.outOfService);
  return note && (JSON.parse(note.value) as OutOfService);
}

/** @throws StorageRefused */
export async function assertInService(store: Store): Promise<void> {
  const note = await outOfService(store);
  if (note) throw refusedAs(note);
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

export function refusedAs({ state, since }: OutOfService): StorageRefused {
  return new StorageRefused(
    {
      filling: `A restore or migration into this storage was begun on ${since} and is not finished. Run it again: it begins anew.`,
      moving: `This storage is being moved to another place. Start with that one once it is done; if it was stopped, wait ${MOVING_SECONDS} seconds.`,
      moved: `This storage was moved to another place on ${since}, and is out of date. Name the new place in the settings.`,
    }[state],
  );
}
