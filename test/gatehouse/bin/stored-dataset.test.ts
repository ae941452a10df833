/** Imported data sets in the store: complete, activated during lookups, and rolled back. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { decodeDataset, encodeDataset } from '../../../src/gatehouse/bin/dataset-codec.ts';
import { createLiveDataset, type LiveDataset } from '../../../src/gatehouse/bin/live-dataset.ts';
import { BUILT_IN_ID, createStoredDatasets } from '../../../src/gatehouse/bin/stored-dataset.ts';
import { type Dataset, openDataset, type PackedDataset } from '../../../src/shared/bin/dataset.ts';
import type { DatasetFile } from '../../../src/shared/bin/dataset-file.ts';
import type { PackedFacts } from '../../../src/shared/bin/facts.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store, Write } from '../../../src/shared/storage/store.ts';
import { bin, datasetOf } from '../../support/bins.ts';
import { until } from '../../support/until.ts';

const REPORT = {
  shape: 'bin-list-data',
  taken: 1,
  skipped: 1,
  faults: [{ line: 3, reason: 'country_missing' as const }],
  reasons: [{ count: 1, first: { line: 3, reason: 'country_missing' as const } }],
  conflicts: { count: 1, ranges: [{ lines: [1, 2] }] },
  notUnderstood: [{ column: 'Type', rows: 2, values: [{ value: 'LOCAL', rows: 2 }] }],
};
const CHANGE = { before: 1, after: 2, added: 1, removed: 0, changed: 0 };
const NUMBER = bin('400000');

/** Knows one BIN, by this bank; big enough for several parts. */
function datasetNamed(bank: string, rows = 1): Dataset {
  const others = Array.from({ length: rows - 1 }, (_, index) => String(10_000_000 + index * 7));
  return datasetOf(
    { start: '400000', end: '400009', country: 'DK', bank: { name: bank } },
    ...others.map((start, index) => ({
      start,
      end: start,
      country: 'SE',
      bank: { name: `Bank ${index}`, phone: start },
    })),
  );
}

const recoded = async (packed: PackedDataset) => decodeDataset((await encodeDataset(packed)).bytes);

async function uploadOf(dataset: Dataset, replaces = BUILT_IN_ID) {
  const { source, asOf, size, packed } = dataset;
  const encoded = await encodeDataset(packed);
  return { dataset: encoded, report: REPORT, change: CHANGE, replaces: { id: replaces, source, asOf, size } };
}

const bankIn = (dataset: Dataset | undefined) => dataset?.find(NUMBER)?.record.bank?.name;

test('the stored form is complete, and refused if its format is unknown or it is truncated', async () => {
  const dataset = datasetOf(
    {
      start: '45717360',
      end: '45717369',
      country: 'DK',
      scheme: 'visa',
      prepaid: false,
      bank: { name: 'Hjørring "A", B' },
    },
    {
      start: '340000',
      end: '349999',
      country: 'US',
      type: 'credit',
      brand: 'Gold',
      number: { length: 15, luhn: true },
    },
    { start: '51206800', end: '51206899', country: 'SE' },
  );
  const { bytes: packed } = await encodeDataset(dataset.packed);
  expect(await decodeDataset(packed)).toEqual(dataset.packed);
  await expect(decodeDataset(packed.subarray(0, packed.length / 2))).rejects.toThrow();
  await expect(decodeDataset(Buffer.from('no data set'))).rejects.toThrow();
  const withUnknownFormat = gunzipSync(packed).toString('latin1').replace('"format":2', '"format":3');
  await expect(decodeDataset(gzipSync(Buffer.from(withUnknownFormat, 'latin1')))).rejects.toThrow(
    'the unknown format 3',
  );
});

test('a data set of a newer program has further columns, which are ignored; one of an older program lacks some', async () => {
  const entry = { start: '400000', end: '400009', country: 'DK', scheme: 'visa', number: { length: 16 } };
  const { packed } = datasetOf({ ...entry, prepaid: true, bank: { name: 'B' } });
  const { columns, cells, texts } = packed.facts;
  const findRecord = ({ facts }: { facts: PackedFacts }) => openDataset({ ...packed, facts }).find(NUMBER)?.record;
  const factsOfNewerProgram = { columns: columns + 2, cells: Uint32Array.of(...cells, 1, 2), texts };
  const wholeRecord = findRecord(packed);
  expect(findRecord(await recoded({ ...packed, facts: factsOfNewerProgram }))).toEqual(wholeRecord);
  const { number: _number, prepaid: _prepaid, ...withoutNewColumns } = wholeRecord ?? {};
  expect(findRecord({ facts: { columns: 8, cells: cells.slice(0, 8), texts } })).toEqual(withoutNewColumns);
});

test('stores equal facts once, and thousands of different facts', async () => {
  const bankOf = (index: number) => ({ name: `Bank ${index % 5_000}`, city: `City ${index % 7}` });
  const starts = Array.from({ length: 10_000 }, (_, index) => String(10_000_000 + index * 3));
  const dataset = datasetOf(
    ...starts.map((start, index) => ({ start, end: start, country: 'SE', bank: bankOf(index) })),
  );
  const decoded = openDataset(await recoded(dataset.packed));
  for (const [index, start] of starts.entries()) expect(decoded.find(bin(start))?.record.bank).toEqual(bankOf(index));
  const datasetWithEqualFacts = datasetOf(
    ...[...starts, ...starts].map((start, index) => {
      return { start, end: start, country: 'SE', bank: bankOf(index % starts.length) };
    }),
  );
  expect(datasetWithEqualFacts.packed.facts.cells).toEqual(dataset.packed.facts.cells);
});

let directory: string;
let stores: Store[] = [];
let liveDatasets: LiveDataset[] = [];
let now = Date.parse('2026-11-21T12:00:00Z');
const clock = () => now;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'bin-stored-'));
});
afterEach(async () => {
  await Promise.all(liveDatasets.map((dataset) => dataset.close()));
  await Promise.all(stores.map((store) => store.close()));
  liveDatasets = [];
  stores = [];
  rmSync(directory, { recursive: true });
});

/** Opens the store with a separate connection, like another process. */
async function openStore(): Promise<Store> {
  const store = await createSqliteStore({ directory });
  stores.push(store);
  return store;
}
async function goLive(store: Store, parts: { pollMilliseconds?: number; file?: DatasetFile; failed?: unknown[] } = {}) {
  const { file, failed = [], ...rest } = parts;
  const events = {
    binDatasetLoaded: () => undefined,
    binDatasetFailed: ({ cause }: { cause: unknown }) => failed.push(cause),
  };
  const dataset = await createLiveDataset({ file, stored: createStoredDatasets({ store, clock }), events, ...rest });
  liveDatasets.push(dataset);
  return dataset;
}

test('every process uses an import within two seconds, and no lookup fails meanwhile', async () => {
  const [ownStore, otherStore] = [await openStore(), await openStore()];
  const stored = createStoredDatasets({ store: ownStore, clock });
  await stored.save(datasetNamed('first'), REPORT);
  const running = await goLive(otherStore, { pollMilliseconds: 3_600_000 });
  expect(bankIn(running.current())).toBe('first');
  const usedBanks = new Set<string | undefined>();
  const lookUps = setInterval(() => usedBanks.add(bankIn(running.current())), 1);
  const version = await stored.save(datasetNamed('second', 30_000), REPORT);
  expect(version.parts).toBeGreaterThan(1);
  expect(await until(() => bankIn(running.current()) === 'second')).toBeLessThan(2_000);
  clearInterval(lookUps);
  expect([...usedBanks].filter((bank) => bank !== 'first' && bank !== 'second')).toEqual([]);
  expect(running.version()).toEqual({ ...version, report: REPORT });
  expect(running.current()).toMatchObject({ source: 'test', asOf: '2026-01-02', licence: 'none', size: 30_000 });
});

test('finds an import by polling if its message is lost', async () => {
  const [ownStore, otherStore] = [await openStore(), await openStore()];
  const storeWithoutMessages: Store = { ...otherStore, subscribe: async () => async () => undefined };
  const running = await goLive(storeWithoutMessages, { pollMilliseconds: 50 });
  expect(running.current()).toBeUndefined();
  await createStoredDatasets({ store: ownStore, clock }).save(datasetNamed('first'), REPORT);
  await until(() => bankIn(running.current()) === 'first');
});

test('a rollback restores the previous data set, and a second one the later data set', async () => {
  const store = await openStore();
  const stored = createStoredDatasets({ store, clock });
  expect(await stored.rollback('unknown')).toBeUndefined();
  expect(await stored.rollback(BUILT_IN_ID)).toBeUndefined();
  const first = await stored.save(datasetNamed('first'), REPORT);
  expect(await stored.rollback(first.id)).toBeUndefined();
  const second = await stored.save(datasetNamed('second'), REPORT);
  const running = await goLive(await openStore());
  await stored.rollback(first.id);
  await until(() => bankIn(running.current()) === 'first');
  // The first data set is now the current one.
  expect(await stored.rollback(first.id)).toBeUndefined();
  await stored.rollback(second.id);
  await until(() => bankIn(running.current()) === 'second');
  expect(await stored.rollback(BUILT_IN_ID)).toBeUndefined();
});

test('a rollback after the first import restores the built-in data set, and a second one the import', async () => {
  const store = await openStore();
  const stored = createStoredDatasets({ store, clock });
  const first = await stored.save(datasetNamed('first'), REPORT);
  const running = await goLive(await openStore());
  expect(bankIn(running.current())).toBe('first');
  expect(await stored.rollback(BUILT_IN_ID)).toEqual({ previous: first });
  await until(() => running.current() === undefined);
  expect([running.version(), running.report()]).toEqual([undefined, undefined]);
  expect((await goLive(store)).current()).toBeUndefined();
  // The built-in data set is now the current one.
  expect(await stored.rollback(BUILT_IN_ID)).toBeUndefined();
  await stored.rollback(first.id);
  await until(() => bankIn(running.current()) === 'first');
  await stored.rollback(BUILT_IN_ID);
  const second = await stored.save(datasetNamed('second'), REPORT);
  expect(await stored.versions()).toEqual({ current: second });
  expect(await store.get(keys.binDatasetPart(first.id, 0))).toBeUndefined();
  await until(() => bankIn(running.current()) === 'second');
});

test('stores two imports, and removes the remains of a killed import with a later one', async () => {
  const store = await openStore();
  const stored = createStoredDatasets({ store, clock });
  /** A store that fails as if the process were killed before its last write. */
  const killedStore: Store = {
    ...store,
    write: (writes) =>
      writes.some((step) => 'put' in step && step.put === keys.binDataset)
        ? Promise.reject(new Error('killed'))
        : store.write(writes),
  };
  await expect(createStoredDatasets({ store: killedStore, clock }).save(datasetNamed('lost'), REPORT)).rejects.toThrow(
    'killed',
  );
  expect(await stored.versions()).toBeUndefined();
  const ids: string[] = [];
  for (const name of ['first', 'second', 'third']) ids.push((await stored.save(datasetNamed(name), REPORT)).id);
  // The killed import could still be running, so its parts are removed only after an hour.
  expect(await store.count(keys.binDatasetVersions)).toBe(3);
  now += 3_700_000;
  ids.push((await stored.save(datasetNamed('fourth'), REPORT)).id);
  const versions = await store.page(keys.binDatasetVersions, { limit: 10 });
  expect(versions.items.map(({ member }) => member).sort()).toEqual(ids.slice(2).sort());
  for (const id of ids.slice(0, 2)) expect(await store.get(keys.binDatasetPart(id, 0))).toBeUndefined();
  for (const id of ids.slice(2)) expect(await store.get(keys.binDatasetPart(id, 0))).toBeDefined();
});

test('every process sees an upload, which changes nothing until it is imported once', async () => {
  const ownStore = await openStore();
  const otherStore = await openStore();
  const here = createStoredDatasets({ store: ownStore, clock });
  const there = createStoredDatasets({ store: otherStore, clock });
  const first = await here.save(datasetNamed('first'), REPORT);
  const running = await goLive(otherStore);
  const { version } = await here.stage(await uploadOf(datasetNamed('second', 30_000), first.id));
  expect(await there.findStaged(version.id)).toMatchObject({ version: { id: version.id }, change: CHANGE });
  expect((await there.versions())?.current?.source).toBe('test');
  expect(bankIn(running.current())).toBe('first');
  const results = await Promise.all([here, there].map((stored) => stored.importStaged(version.id)));
  expect(results.some((result) => result?.id === version.id)).toBe(true);
  expect(await there.importStaged(version.id)).toBeUndefined();
  await until(() => bankIn(running.current()) === 'second');
  const { current, previous } = (await here.versions()) ?? {};
  expect([current?.id, previous && previous.id !== version.id]).toEqual([version.id, true]);
});

test('an upload that is discarded, replaced or incomplete leaves no parts and is not imported', async () => {
  const store = await openStore();
  const stored = createStoredDatasets({ store, clock });
  const first = (await stored.stage(await uploadOf(datasetNamed('first')))).version;
  const second = (await stored.stage(await uploadOf(datasetNamed('second')))).version;
  expect([await stored.findStaged(first.id), await stored.importStaged(first.id)]).toEqual([undefined, undefined]);
  expect(await store.get(keys.binDatasetPart(first.id, 0))).toBeUndefined();
  expect([await stored.discardStaged(first.id), await stored.discardStaged(second.id)]).toEqual([false, true]);
  expect(await store.get(keys.binDatasetPart(second.id, 0))).toBeUndefined();
  expect(await store.count(keys.binDatasetVersions)).toBe(0);
  const third = (await stored.stage(await uploadOf(datasetNamed('third')))).version;
  await store.write([{ delete: keys.binDatasetPart(third.id, 0) }]);
  expect(await stored.importStaged(third.id)).toBeUndefined();
  expect(await stored.versions()).toBeUndefined();
});

test('does not import an upload that was compared with a data set that is no longer current', async () => {
  const store = await openStore();
  const stored = createStoredDatasets({ store, clock });
  const { version } = await stored.stage(await uploadOf(datasetNamed('upload')));
  const first = await stored.save(datasetNamed('first'), REPORT);
  expect(await stored.importStaged(version.id)).toBeUndefined();
  expect(await stored.currentId()).toBe(first.id);
  // After a rollback to the data set that it was compared with, it can be imported.
  await stored.rollback(BUILT_IN_ID);
  expect(await stored.importStaged(version.id)).toMatchObject({ id: version.id });
  expect(await stored.currentId()).toBe(version.id);
});

test.for(['replaced', 'discarded'])('an upload that is imported while it is being %s stays complete', async (how) => {
  const store = await openStore();
  const stored = createStoredDatasets({ store, clock });
  const { version } = await stored.stage(await uploadOf(datasetNamed('first')));
  const replace = async () => stored.stage(await uploadOf(datasetNamed('second')));
  /** A store in which another process acts once, just before the first such write. */
  const withRace = (isRacedWrite: (steps: readonly Write[]) => boolean, race: () => Promise<unknown>): Store => {
    let hasRaced = false;
    return {
      ...store,
      async write(steps) {
        if (hasRaced || !isRacedWrite(steps)) return store.write(steps);
        hasRaced = true;
        await race();
        return store.write(steps);
      },
    };
  };
  const isOfUpload = (steps: readonly Write[]) =>
    steps.some((step) => {
      if ('put' in step) return step.put === keys.binDatasetUpload;
      return 'delete' in step && step.delete === keys.binDatasetUpload;
    });
  const importing = () => stored.importStaged(version.id);
  const late = createStoredDatasets({ store: withRace(isOfUpload, importing), clock });
  await (how === 'replaced' ? late.stage(await uploadOf(datasetNamed('second'))) : late.discardStaged(version.id));
  expect((await stored.versions())?.current?.id).toBe(version.id);
  expect(bankIn(await stored.load(version))).toBe('first');

  const next = await stored.stage(await uploadOf(datasetNamed('third'), version.id));
  const early = createStoredDatasets({
    store: withRace(isOfUpload, how === 'replaced' ? replace : () => stored.discardStaged(next.version.id)),
    clock,
  });
  expect(await early.importStaged(next.version.id)).toBeUndefined();
  expect((await stored.versions())?.current?.id).toBe(version.id);
  expect(bankIn(await stored.load(version))).toBe('first');
});

test('concurrent imports all succeed, and one of them is current', async () => {
  const firstStore = await openStore();
  const secondStore = await openStore();
  const versions = await Promise.all(
    [firstStore, secondStore, firstStore].map((store, index) =>
      createStoredDatasets({ store, clock }).save(datasetNamed(`bank ${index}`), REPORT),
    ),
  );
  const { current } = (await createStoredDatasets({ store: firstStore, clock }).versions()) ?? {};
  expect(versions.map(({ id }) => id)).toContain(current?.id);
  expect(bankIn((await goLive(firstStore)).current())).toMatch(/^bank [012]$/);
});

test('reports a damaged data set once, and keeps using the one before', async () => {
  const store = await openStore();
  const stored = createStoredDatasets({ store, clock });
  await stored.save(datasetNamed('good'), REPORT);
  const failed: unknown[] = [];
  const running = await goLive(store, { failed, pollMilliseconds: 20 });
  const damagingStore: Store = {
    ...store,
    write: (writes) =>
      store.write(
        writes.map((step) =>
          'put' in step && step.put.startsWith('bin-dataset:') ? { ...step, value: 'AAAA' } : step,
        ),
      ),
  };
  await createStoredDatasets({ store: damagingStore, clock }).save(datasetNamed('bad'), REPORT);
  await until(() => failed.length > 0);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(failed).toHaveLength(1);
  expect(String(failed[0])).toMatch(/damaged: import it again/);
  expect(bankIn(running.current())).toBe('good');
});

test('BIN_DATASET_FILE takes precedence over every import', async () => {
  const store = await openStore();
  await createStoredDatasets({ store, clock }).save(datasetNamed('imported'), REPORT);
  const running = await goLive(store, { file: { dataset: datasetNamed('file'), report: REPORT } });
  expect([bankIn(running.current()), running.version(), running.report()]).toEqual(['file', undefined, REPORT]);
});
