/** Stores the imported data sets: the current one and the previous one, which a rollback restores. */
import { createHash, randomUUID } from 'node:crypto';
import { type Dataset, type DatasetAbout, openDataset } from '../../shared/bin/dataset.ts';
import type { FileReport } from '../../shared/bin/dataset-file.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Versioned } from '../../shared/storage/records.ts';
import type { Store, Write } from '../../shared/storage/store.ts';
import { type Updated, updateRecord } from '../../shared/storage/update-record.ts';
import { HOUR_MS, isoTime } from '../../shared/time.ts';
import type { DatasetChange } from './dataset-change.ts';
import { decodeDataset, type EncodedDataset, encodeDataset } from './dataset-codec.ts';

/** The id of the built-in data set, which is not imported. */
export const BUILT_IN_ID = 'built_in';

/** An imported data set, described without loading it. */
export interface DatasetVersion extends DatasetAbout {
  id: string;
  /** Number of entries. */
  size: number;
  /** ISO 8601. */
  importedAt: string;
  report: FileReport;
  /** The number of parts of the packed form. */
  parts: number;
  /** The length of the packed form. */
  bytes: number;
  /** SHA-256 of the packed form, in base64url. */
  digest: string;
}

/** Undefined stands for the built-in data set. */
export interface DatasetVersions {
  current?: DatasetVersion | undefined;
  previous?: DatasetVersion | undefined;
}

/** The data set that an upload was compared with. */
export interface Replaced extends Pick<Dataset, 'source' | 'asOf' | 'size'> {
  /** The id of the current import at that time, or `BUILT_IN_ID`. */
  id: string;
}

/** An uploaded data set that an administrator has not imported yet, with the changes that the import would make. */
export interface StagedDataset {
  version: DatasetVersion;
  change: DatasetChange;
  replaces: Replaced;
  /** ISO 8601. */
  expiresAt: string;
}

interface CheckedDataset extends Pick<StagedDataset, 'change' | 'replaces'> {
  dataset: EncodedDataset;
  report: FileReport;
}

export interface StoredDatasets {
  /** The id of the current import, or `BUILT_IN_ID`. */
  currentId(): Promise<string>;
  versions(): Promise<DatasetVersions | undefined>;
  /** Returns undefined if another import has removed it. Rejects if it is damaged, and with `storage_unavailable`. */
  load(version: DatasetVersion): Promise<Dataset | undefined>;
  /** Stores the data set completely before it becomes the current one. The current one becomes the previous. */
  save(dataset: Dataset, report: FileReport, onPart?: (bytes: number) => void): Promise<DatasetVersion>;
  /** Stores the data set for an hour, without using it. Replaces an earlier staged one. */
  stage(upload: CheckedDataset): Promise<StagedDataset>;
  /** Returns undefined if it was imported, discarded or replaced, or has expired. */
  findStaged(id: string): Promise<StagedDataset | undefined>;
  /** Makes a staged data set the current one. Undefined as for `findStaged`, or if `replaces` is not current. */
  importStaged(id: string): Promise<DatasetVersion | undefined>;
  /** Returns false if there is no such staged data set. */
  discardStaged(id: string): Promise<boolean>;
  /** Swaps the current and the previous data set; undefined if the previous one is not `to`, an id or `BUILT_IN_ID`. */
  rollback(to: string): Promise<DatasetVersions | undefined>;
  /** Calls the listener when another data set becomes current. Messages can be lost, so callers must also poll. */
  onChange(listener: () => void): Promise<() => Promise<void>>;
}

interface SaveOptions {
  lifetimeSeconds?: number;
  onPart?: ((bytes: number) => void) | undefined;
}

const PART_BYTES = 192 * 1024;
const CHANNEL = 'bin-dataset';
/** Longer than any import: older parts that are not in use belong to an interrupted one. */
const ABANDONED_MS = HOUR_MS;
const MAX_VERSIONS = 100;
/** An abandoned upload has expired by the time it is removed from the index. */
const STAGED_SECONDS = ABANDONED_MS / 1000;

export function createStoredDatasets(parts: { store: Store; clock: () => number }): StoredDatasets {
  const { store, clock } = parts;

  const read = async (): Promise<DatasetVersions | undefined> => {
    const record = await store.get(keys.binDataset);
    return record && (JSON.parse(record.value) as DatasetVersions);
  };

  /** @param claim returns an operation for the same write, or undefined if that is no longer possible */
  const change = async (
    next: (versions: DatasetVersions | undefined) => DatasetVersions | undefined,
    claim?: () => Promise<Write | undefined>,
  ): Promise<Updated<DatasetVersions> | undefined> => {
    let writes: Write[] = [];
    const claimAndChange = async (versions: DatasetVersions | undefined) => {
      const claimed = await claim?.();
      writes = claimed ? [claimed] : [];
      return claim && !claimed ? undefined : next(versions);
    };
    const changed = await updateRecord(store, keys.binDataset, claimAndChange, { writes: () => writes });
    if (changed) await store.publish(CHANNEL, idIn(changed.after));
    return changed;
  };

  const listVersion = (id: string) => store.write([{ index: keys.binDatasetVersions, add: id, score: clock() }]);

  const saveParts = async (
    { bytes: packed, ...about }: EncodedDataset,
    report: FileReport,
    options: SaveOptions = {},
  ): Promise<DatasetVersion> => {
    const id = randomUUID();
    const lifetime = options.lifetimeSeconds === undefined ? {} : { lifetimeSeconds: options.lifetimeSeconds };
    await listVersion(id);
    let part = 0;
    for (let start = 0; start < packed.length; start += PART_BYTES, part++) {
      const bytes = packed.subarray(start, start + PART_BYTES);
      const value = Buffer.from(bytes).toString('base64');
      await store.write([{ put: keys.binDatasetPart(id, part), value, ...lifetime }]);
      options.onPart?.(bytes.length);
    }
    return {
      ...about,
      id,
      report,
      digest: digestOf(packed),
      bytes: packed.length,
      importedAt: isoTime(clock()),
      parts: part,
    };
  };

  /** Removes the expiry of the parts of a staged data set. Returns false if one no longer exists. */
  const persistParts = async ({ id, parts: count }: DatasetVersion): Promise<boolean> => {
    await listVersion(id);
    for (let part = 0; part < count; part++) {
      const put = keys.binDatasetPart(id, part);
      const record = await store.get(put);
      if (!record || !(await store.write([{ put, value: record.value, ifVersion: record.version }]))) return false;
    }
    return true;
  };

  const makeCurrent = async (
    current: DatasetVersion,
    replaces?: string,
    claim?: () => Promise<Write | undefined>,
  ): Promise<DatasetVersion | undefined> => {
    const isExpected = (versions: DatasetVersions | undefined) => replaces === undefined || idIn(versions) === replaces;
    const changed = await change(
      (versions) =>
        isExpected(versions) ? { ...versions, current, ...(versions && { previous: versions.current }) } : undefined,
      claim,
    );
    if (!changed) return undefined;
    await removeUnused(changed.before?.previous?.id);
    return current;
  };

  const stagedOf = async (id: string): Promise<Versioned<StagedDataset> | undefined> => {
    const record = await store.get(keys.binDatasetUpload);
    if (!record) return undefined;
    const staged = JSON.parse(record.value) as StagedDataset;
    return staged.version.id === id ? { value: staged, version: record.version } : undefined;
  };

  const removeParts = async (id: string): Promise<void> => {
    let part = 0;
    while (await store.get(keys.binDatasetPart(id, part))) part++;
    // The last part goes first, so that the next removal finds the parts that an interrupted one has left.
    while (part-- > 0) await store.write([{ delete: keys.binDatasetPart(id, part) }]);
    await store.write([{ index: keys.binDatasetVersions, remove: id }]);
  };

  const removeUnused = async (replacedId: string | undefined): Promise<void> => {
    const versions = await read();
    const used = [versions?.current?.id, versions?.previous?.id];
    const { items } = await store.page(keys.binDatasetVersions, { limit: MAX_VERSIONS });
    for (const { member, score } of items) {
      const isAbandoned = member === replacedId || score < clock() - ABANDONED_MS;
      if (isAbandoned && !used.includes(member)) await removeParts(member);
    }
  };

  return {
    currentId: async () => idIn(await read()),
    versions: read,
    load: (version) => loadParts(store, version),
    async save(dataset, report, onPart) {
      const version = await saveParts(await encodeDataset(dataset.packed), report, { onPart });
      await makeCurrent(version);
      return version;
    },
    async stage({ dataset, report, change, replaces }) {
      const version = await saveParts(dataset, report, { lifetimeSeconds: STAGED_SECONDS });
      const staged: StagedDataset = { version, change, replaces, expiresAt: isoTime(clock() + STAGED_SECONDS * 1000) };
      const { before } = await updateRecord<StagedDataset>(store, keys.binDatasetUpload, () => staged, {
        lifetimeSeconds: STAGED_SECONDS,
      });
      if (before) await removeParts(before.version.id);
      return staged;
    },
    findStaged: async (id) => (await stagedOf(id))?.value,
    async importStaged(id) {
      const staged = await stagedOf(id);
      if (!staged || !(await persistParts(staged.value.version))) return undefined;
      const current = { ...staged.value.version, importedAt: isoTime(clock()) };
      // Claimed in the same write, because a process that replaces or discards the upload deletes its parts.
      return makeCurrent(current, staged.value.replaces.id, async () => {
        const upload = await stagedOf(id);
        return upload && { delete: keys.binDatasetUpload, ifVersion: upload.version };
      });
    },
    async discardStaged(id) {
      const staged = await stagedOf(id);
      if (!staged || !(await store.write([{ delete: keys.binDatasetUpload, ifVersion: staged.version }]))) return false;
      await removeParts(id);
      return true;
    },
    async rollback(to) {
      const changed = await change((versions) =>
        versions && (versions.previous?.id ?? BUILT_IN_ID) === to
          ? { ...versions, current: versions.previous, previous: versions.current }
          : undefined,
      );
      return changed?.after;
    },
    onChange: (listener) => store.subscribe(CHANNEL, listener),
  };
}

async function loadParts(store: Store, { id, parts, digest }: DatasetVersion): Promise<Dataset | undefined> {
  const packed: Buffer[] = [];
  for (let part = 0; part < parts; part++) {
    const record = await store.get(keys.binDatasetPart(id, part));
    if (!record) return undefined;
    packed.push(Buffer.from(record.value, 'base64'));
  }
  const whole = Buffer.concat(packed);
  if (digestOf(whole) !== digest) throw new TypeError('The stored BIN data set is damaged: import it again.');
  return openDataset(await decodeDataset(whole));
}

const idIn = (versions: DatasetVersions | undefined): string => versions?.current?.id ?? BUILT_IN_ID;

function digestOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('base64url');
}
