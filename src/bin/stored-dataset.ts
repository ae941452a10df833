/** Stores the imported data sets: the current one and the one before it, which a rollback restores. */
import { createHash, randomUUID } from 'node:crypto';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import { HOUR_MS, isoTime } from '../time.ts';
import { type Dataset, type DatasetAbout, openDataset } from './dataset.ts';
import { decodeDataset, encodeDataset } from './dataset-codec.ts';
import type { FileReport } from './dataset-file.ts';

/** An imported data set, described without loading it. */
export interface DatasetVersion extends DatasetAbout {
  id: string;
  /** Number of entries. */
  size: number;
  /** ISO 8601. */
  importedAt: string;
  report: FileReport;
  /** Of the packed form: number of parts and bytes, and the SHA-256 in base64url. */
  parts: number;
  bytes: number;
  digest: string;
}

export interface DatasetVersions {
  current: DatasetVersion;
  previous?: DatasetVersion;
}

export interface StoredDatasets {
  versions(): Promise<DatasetVersions | undefined>;
  /** Undefined if another import has removed it. Rejects if it is damaged, and with `storage_unavailable`. */
  load(version: DatasetVersion): Promise<Dataset | undefined>;
  /** Stores the data set completely before it becomes the current one. The current one becomes the previous. */
  save(dataset: Dataset, report: FileReport, onPart?: (bytes: number) => void): Promise<DatasetVersion>;
  /** Swaps the current and the previous data set; undefined if there is no previous one. */
  rollback(): Promise<DatasetVersions | undefined>;
  /** Calls the listener when another data set becomes current. Messages can be lost, so check from time to time too. */
  onChange(listener: () => void): Promise<() => Promise<void>>;
}

const PART_BYTES = 192 * 1024;
const CHANNEL = 'bin-dataset';
/** No import takes as long: older parts that are not in use belong to an interrupted one. */
const ABANDONED_MS = HOUR_MS;
const MAX_VERSIONS = 100;

export function createStoredDatasets(parts: { store: Store; clock: () => number }): StoredDatasets {
  const { store, clock } = parts;

  const read = async (): Promise<{ versions?: DatasetVersions; version: number }> => {
    const record = await store.get(keys.binDataset);
    return record ? { versions: JSON.parse(record.value), version: record.version } : { version: 0 };
  };

  /** Repeats the change if another import or rollback came in between. */
  const change = async (next: (now: DatasetVersions | undefined) => DatasetVersions | undefined) => {
    for (;;) {
      const { versions, version } = await read();
      const changed = next(versions);
      if (!changed) return undefined;
      const value = JSON.stringify(changed);
      if (!(await store.write([{ put: keys.binDataset, value, ifVersion: version }]))) continue;
      await store.publish(CHANNEL, changed.current.id);
      return changed;
    }
  };

  const saveParts = async (id: string, packed: Buffer, onPart?: (bytes: number) => void): Promise<number> => {
    await store.write([{ index: keys.binDatasetVersions, add: id, score: clock() }]);
    let part = 0;
    for (let start = 0; start < packed.length; start += PART_BYTES, part++) {
      const bytes = packed.subarray(start, start + PART_BYTES);
      await store.write([{ put: keys.binDatasetPart(id, part), value: bytes.toString('base64') }]);
      onPart?.(bytes.length);
    }
    return part;
  };

  const removeParts = async (id: string): Promise<void> => {
    let part = 0;
    while (await store.get(keys.binDatasetPart(id, part))) part++;
    // Last part first, so that an interrupted removal leaves parts that the next one finds.
    while (part-- > 0) await store.write([{ delete: keys.binDatasetPart(id, part) }]);
    await store.write([{ index: keys.binDatasetVersions, remove: id }]);
  };

  const removeUnused = async (dropped: string | undefined): Promise<void> => {
    const { versions } = await read();
    const used = [versions?.current.id, versions?.previous?.id];
    const { items } = await store.page(keys.binDatasetVersions, { limit: MAX_VERSIONS });
    for (const { member, score } of items) {
      const isAbandoned = member === dropped || score < clock() - ABANDONED_MS;
      if (isAbandoned && !used.includes(member)) await removeParts(member);
    }
  };

  return {
    versions: async () => (await read()).versions,
    load: (version) => loadParts(store, version),
    async save(dataset, report, onPart) {
      const id = randomUUID();
      const packed = await encodeDataset(dataset.packed);
      const { source, asOf, licence, size } = dataset;
      const current: DatasetVersion = {
        ...{ id, source, asOf, licence, size, report, digest: digestOf(packed), bytes: packed.length },
        importedAt: isoTime(clock()),
        parts: await saveParts(id, packed, onPart),
      };
      let dropped: string | undefined;
      await change((now) => {
        dropped = now?.previous?.id;
        return { ...now, current, ...(now && { previous: now.current }) };
      });
      await removeUnused(dropped);
      return current;
    },
    rollback: () => change((now) => now?.previous && { ...now, current: now.previous, previous: now.current }),
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

function digestOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('base64url');
}
