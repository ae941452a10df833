/** Changes a JSON record by compare-and-set: reads it, changes it, and repeats both if another write came first. */
import type { Store, Write } from './store.ts';
import { unavailable } from './unavailable.ts';

export interface Updated<T> {
  before: T | undefined;
  /** The stored value after the update. */
  after: T;
}

export interface UpdateOptions<T> {
  /** By default the record never expires. */
  lifetimeSeconds?: number;
  /** Key of another record with the same tag. Nothing is written unless that record exists. */
  owner?: string;
  /** Further writes, made together with the record. */
  writes?: (updated: Updated<T>) => readonly Write[];
}

/** Of several concurrent writers, one succeeds each time, so this limit only ends a write that can never succeed. */
const MAX_ATTEMPTS = 1_000;

type RecordStore = Pick<Store, 'get' | 'write'>;

/**
 * @param change called once for each attempt, with undefined if there is no record. Nothing is written if it returns
 *   undefined or the same object
 * @returns undefined if `change` returned undefined or the owner does not exist
 * @throws AppError `storage_unavailable`, also if another write comes first at every attempt
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
  { lifetimeSeconds, owner, writes }: UpdateOptions<T> = {},
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
    if (await store.write([...condition, put, ...(writes?.(updated) ?? [])])) return updated;
    if (owner !== undefined && !(await store.get(owner))) return undefined;
  }
  throw unavailable(`Another write came first at each of ${MAX_ATTEMPTS} attempts to change the record`);
}
