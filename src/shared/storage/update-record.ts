/** Changes a record of JSON: read, changed and written over that version, again where another write came in between. */
import type { Store, Write } from './store.ts';
import { unavailable } from './unavailable.ts';

/** `after`: what is stored now. */
export interface Updated<T> {
  before: T | undefined;
  after: T;
}

export interface UpdateOptions<T> {
  /** Default: the record lasts. */
  lifetimeSeconds?: number;
  /** Key of another record of the slot, which must exist: where it does not, nothing is written. */
  owner?: string;
  /** Further steps of the same write. */
  steps?: (updated: Updated<T>) => readonly Write[];
}

/** One of several concurrent writers succeeds each time. More than any crowd: a write that never succeeds must end. */
const MAX_ATTEMPTS = 1_000;

type RecordStore = Pick<Store, 'get' | 'write'>;

/**
 * @param change called once for each attempt, with undefined where there is no record. Nothing is written if it returns
 *   undefined, or the very object that it was given
 * @returns undefined where `change` returned undefined, or the owner does not exist
 * @throws AppError `storage_unavailable`, also where another write came in between each time
 */
export function updateRecord<T extends object>(
  store: RecordStore,
  key: string,
  change: (stored: T | undefined) => T | Promise<T>,
  options?: Omit<UpdateOptions<T>, 'owner'>,
): Promise<Updated<T>>;
export function updateRecord<T extends object>(
  store: RecordStore,
  key: string,
  change: (stored: T | undefined) => T | undefined | Promise<T | undefined>,
  options?: UpdateOptions<T>,
): Promise<Updated<T> | undefined>;
export async function updateRecord<T extends object>(
  store: RecordStore,
  key: string,
  change: (stored: T | undefined) => T | undefined | Promise<T | undefined>,
  { lifetimeSeconds, owner, steps }: UpdateOptions<T> = {},
): Promise<Updated<T> | undefined> {
  const lifetime = lifetimeSeconds === undefined ? {} : { lifetimeSeconds };
  const condition = owner === undefined ? [] : [{ exists: owner }];
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const stored = await store.get(key);
    const before = stored && (JSON.parse(stored.value) as T);
    const after = await change(before);
    if (after === undefined) return undefined;
    const updated = { before, after };
    if (after === before) return updated;
    const put = { put: key, value: JSON.stringify(after), ifVersion: stored?.version ?? 0, ...lifetime };
    if (await store.write([...condition, put, ...(steps?.(updated) ?? [])])) return updated;
    if (owner !== undefined && !(await store.get(owner))) return undefined;
  }
  throw unavailable(`another write came before each of ${MAX_ATTEMPTS} attempts to change the record`);
}
