/** Changes a record of JSON: read, changed and written again, repeated where another process was faster. */
import type { Store } from './store.ts';
import { unavailable } from './unavailable.ts';

/** Of concurrent processes, one succeeds in each attempt. */
const MAX_ATTEMPTS = 20;

/**
 * @param place `owner`: key of a record that must exist, so that this one does not outlive it
 * @param start what is changed if there is no record yet
 * @throws AppError `storage_unavailable`, also where other processes were faster each time
 */
export async function changeJson<T>(
  store: Pick<Store, 'get' | 'write'>,
  { key, owner, lifetimeSeconds }: { key: string; owner?: string; lifetimeSeconds: number },
  start: T,
  next: (stored: T) => T,
): Promise<void> {
  const condition = owner === undefined ? [] : [{ exists: owner }];
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const stored = await store.get(key);
    const value = JSON.stringify(next(stored ? (JSON.parse(stored.value) as T) : start));
    if (await store.write([...condition, { put: key, value, ifVersion: stored?.version ?? 0, lifetimeSeconds }]))
      return;
    if (owner !== undefined && !(await store.get(owner))) return;
  }
  throw unavailable(`another process changed the record before each of ${MAX_ATTEMPTS} attempts`);
}
