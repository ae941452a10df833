/** Sealed records of one kind that an index lists, such as webhooks. A change requires the version that was read. */
import { AppError } from '../errors.ts';
import { remembered } from '../remembered.ts';
import { type MatchingOptions, type MatchingPage, matchingPage } from './matching-page.ts';
import { isOpaqueTokenId } from './opaque-token.ts';
import { createOpenedRecords } from './opened-records.ts';
import type { SealedJson } from './sealed-json.ts';
import type { Store, Write } from './store.ts';

export interface Versioned<T> {
  value: T;
  version: number;
}

/** `T`: the stored content. `View`: the part of it that callers may see. */
export interface Records<T, View> {
  find(id: string): Promise<View | undefined>;
  /** Returns the stored content, including secrets. */
  read(id: string): Promise<Versioned<T> | undefined>;
  /** Lists records, the newest first. Omits records that cannot be opened. */
  page(options: MatchingOptions<View>): Promise<MatchingPage<View>>;
  /** Counts all records, including those that cannot be opened. */
  count(): Promise<number>;
  /**
   * @param alsoWrite writes of the same step, with the slot tag of the record
   * @throws AppError `version_conflict` if the id is taken
   */
  create(value: T, alsoWrite?: readonly Write[]): Promise<View>;
  /**
   * Changes a record; returns undefined if there is no such record. `next` must keep unknown members, which a newer
   * release may have written.
   * @param version the version that the caller has read; undefined to change any version
   * @throws AppError `version_conflict`
   */
  change(id: string, version: number | undefined, next: (value: T) => T): Promise<View | undefined>;
  /**
   * Removes a record; returns false if there is no such record.
   * @param alsoWrite writes of the same step, with the slot tag of the record
   */
  remove(id: string, alsoWrite?: readonly Write[]): Promise<boolean>;
}

interface RecordsParts<T, View> {
  store: Store;
  sealedJson: SealedJson;
  /** Lists the ids by `createdAt`. */
  index: string;
  keyOf: (id: string) => string;
  /** Precedes the result of `newOpaqueTokenId` in each id. An id of another form is not looked up. */
  prefix?: string;
  /** The name of such a record in messages, such as `webhook`. */
  resource: string;
  /** The lifetime after the last change. By default the record never expires. */
  lifetimeSeconds?: number;
  /** Keys of records that are removed together with this one. */
  relatedKeys?: (id: string) => readonly string[];
  toView: (record: Versioned<T>) => View;
  /**
   * With `error`, `find`, `read` and `change` throw AppError `internal` if the record cannot be opened. Default:
   * `absent`.
   */
  whenUnreadable?: 'absent' | 'error';
}

const MAX_CACHED = 1_000;

export function createRecords<T extends { id: string; createdAt: number }, View>(
  parts: RecordsParts<T, View>,
): Records<T, View> {
  const { store, sealedJson, index, keyOf, prefix = '', toView, relatedKeys = () => [] } = parts;
  const cache = remembered<Versioned<T>>(MAX_CACHED);
  const lifetime = parts.lifetimeSeconds === undefined ? {} : { lifetimeSeconds: parts.lifetimeSeconds };

  const isId = (id: string) => id.startsWith(prefix) && isOpaqueTokenId(id.slice(prefix.length));

  const openedRecords = createOpenedRecords<Versioned<T>, Versioned<T> | 'unreadable'>({
    store,
    cache,
    async open(key, stored) {
      const value = await sealedJson.open<T>(stored.value, key);
      if (value === undefined) return 'unreadable';
      const record = { value, version: stored.version };
      cache.set(key, record);
      return record;
    },
  });

  const load = (id: string) => (isId(id) ? openedRecords.find(keyOf(id)) : Promise.resolve(undefined));

  const read = async (id: string): Promise<Versioned<T> | undefined> => {
    const record = await load(id);
    if (record !== 'unreadable') return record;
    if (parts.whenUnreadable !== 'error') return undefined;
    throw new AppError('internal', { logDetail: `the record ${keyOf(id)} cannot be opened` });
  };

  const save = async (value: T, ifVersion: number, alsoWrite: readonly Write[] = []): Promise<View> => {
    const key = keyOf(value.id);
    const version = await store.write([
      { put: key, value: await sealedJson.seal(value, key), ifVersion, ...lifetime },
      { index, add: value.id, score: value.createdAt },
      ...alsoWrite,
    ]);
    if (version === undefined) throw conflict();
    const record = { value, version };
    cache.set(key, record);
    return toView(record);
  };

  const conflict = () =>
    new AppError('version_conflict', { detail: `Read the ${parts.resource} again and repeat the change.` });

  return {
    async find(id) {
      const record = await read(id);
      return record && toView(record);
    },
    read,
    page: (options) =>
      matchingPage(store, index, options, async (id) => {
        const record = await load(id);
        return record && record !== 'unreadable' ? toView(record) : undefined;
      }),
    count: () => store.count(index),
    create: (value, alsoWrite) => save(value, 0, alsoWrite),
    async change(id, version, next) {
      const record = await read(id);
      if (!record) return undefined;
      if (version !== undefined && version !== record.version) throw conflict();
      return save(next(record.value), record.version);
    },
    async remove(id, alsoWrite = []) {
      if (!isId(id)) return false;
      const version = await store.write([
        { exists: keyOf(id) },
        ...[keyOf(id), ...relatedKeys(id)].map((key) => ({ delete: key })),
        { index, remove: id },
        ...alsoWrite,
      ]);
      cache.delete(keyOf(id));
      return version !== undefined;
    },
  };
}

/** Returns a function that creates a view with every member except the secret one. */
export function viewWithout<T extends object, Secret extends keyof T>(secret: Secret) {
  return ({ value: { [secret]: _, ...view }, version }: Versioned<T>) => ({ ...view, version });
}
