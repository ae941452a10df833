/** The record that takes a storage out of service: it is being filled or moved, or was moved to another place. */
import { keys } from './keys.ts';
import type { Store } from './store.ts';

/** `filling`: until everything is there. `moving`: while a copy is made. `moved`: for good. */
export interface OutOfService {
  state: 'filling' | 'moving' | 'moved';
  /** ISO 8601, UTC. */
  since: string;
}

/** The storage must not be served from; the message says what to do. */
export class OutOfServiceError extends Error {
  readonly state: OutOfService['state'];

  constructor({ state, since }: OutOfService) {
    super(explain({ state, since }));
    this.name = 'OutOfServiceError';
    this.state = state;
  }
}

/** A mover that was killed leaves its storage usable again after this. */
export const MOVING_SECONDS = 20;

export async function outOfService(store: Store): Promise<OutOfService | undefined> {
  const note = await store.get(keys.outOfService);
  return note && (JSON.parse(note.value) as OutOfService);
}

/** Rejects with `OutOfServiceError`. */
export async function assertInService(store: Store): Promise<void> {
  const note = await outOfService(store);
  if (note) throw new OutOfServiceError(note);
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

function explain({ state, since }: OutOfService): string {
  if (state === 'filling')
    return `A restore or migration into this storage was begun on ${since} and is not finished. Run it again: it begins anew.`;
  if (state === 'moving')
    return `This storage is being moved to another place. Start with that one once it is done; if it was stopped, wait ${MOVING_SECONDS} seconds.`;
  return `This storage was moved to another place on ${since}, and what it holds has been out of date since. Name the new place in the settings.`;
}
