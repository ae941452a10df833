/** Records and their versions in the embedded database, and the atomic write of records and indexes. */
import { assertOneTag, keyOf } from '../key-tag.ts';
import { isRelaxed } from '../keys.ts';
import type { KeyedRecord, Store, StoredRecord, Write } from '../store.ts';
import { prepareIndexStep } from './indexes.ts';
import type { SqliteParts } from './parts.ts';
import { ALIVE, createSequence, LIMIT } from './schema.ts';

const WALKED_AT_ONCE = 500;

type RecordMethods = 'get' | 'getIfChanged' | 'walk' | 'write';

export function sqliteRecords(parts: SqliteParts): Pick<Store, RecordMethods> {
  const { database, clock, read, readTogether, write: runWrite } = parts;
  // `ALIVE` takes the time as its parameter, `LIMIT` the number of rows.
  const select = database.prepare(`SELECT value, version FROM records WHERE key = ? AND ${ALIVE}`);
  const selectIfChanged = database.prepare(
    `SELECT CASE WHEN version = ? THEN NULL ELSE value END AS value, version FROM records WHERE key = ? AND ${ALIVE}`,
  );
  // Every relayed call runs this statement, and arrays are cheaper than objects.
  selectIfChanged.setReturnArrays(true);
  const selectVersion = database.prepare(`SELECT version FROM records WHERE key = ? AND ${ALIVE}`);
  const selectBeyond = database.prepare(
    `SELECT key, value, version FROM records WHERE key > ? AND ${ALIVE} ORDER BY key ${LIMIT}`,
  );
  const isLatestHolder = database.prepare('SELECT 1 FROM leases WHERE lease = ? AND number = ?');
  const apply = prepareStep({ database, clock });
  const nextVersion = createSequence(database);

  const find = (key: string): StoredRecord | undefined => {
    const row = select.get(key, clock()) as StoredRecord | undefined;
    return row && { value: row.value, version: row.version };
  };
  const findIfChanged = (key: string, knownVersion: number | undefined): StoredRecord | 'unchanged' | undefined => {
    const row = selectIfChanged.get(knownVersion ?? null, key, clock()) as unknown as
      | [string | null, number]
      | undefined;
    if (row === undefined) return undefined;
    const [value, version] = row;
    return value === null ? 'unchanged' : { value, version };
  };
  const holds = (step: Write): boolean => {
    const isConditional = 'exists' in step || ('ifVersion' in step && step.ifVersion !== undefined);
    if (!isConditional) return true;
    const version = Number(selectVersion.get(keyOf(step), clock())?.version ?? 0);
    if ('exists' in step) return version !== 0 && (step.version === undefined || version === step.version);
    return version === step.ifVersion;
  };

  return {
    get: (key) => readTogether(() => find(key)),
    getIfChanged: (key, knownVersion) => readTogether(() => findIfChanged(key, knownVersion)),
    async *walk() {
      let last: string | undefined = '';
      while (last !== undefined) {
        const beyond: string = last;
        const rows = await read(() => selectBeyond.all(beyond, clock(), WALKED_AT_ONCE));
        const records = rows as unknown as KeyedRecord[];
        if (records.length > 0) yield records;
        last = records.at(-1)?.key;
      }
    },
    async write(steps, { fence } = {}) {
      // A Redis cluster refuses a write across tags, so this store does too.
      assertOneTag([...steps.map(keyOf), ...(fence ? [fence.lease] : [])]);
      const applyAll = () => {
        if (fence && isLatestHolder.get(fence.lease, fence.number) === undefined) return undefined;
        if (!steps.every(holds)) return undefined;
        // Without a put, any positive number means success.
        const version = steps.some((step) => 'put' in step) ? nextVersion() : 1;
        for (const step of steps) apply(step, version);
        return version;
      };
      return runWrite(applyAll, { relaxed: steps.every((step) => 'exists' in step || isRelaxed(keyOf(step))) });
    },
  };
}

/** Returns a function that applies one step of a write, inside a transaction. */
function prepareStep({ database, clock }: Pick<SqliteParts, 'database' | 'clock'>) {
  const upsert = database.prepare(`
    INSERT INTO records (key, value, version, expires_at) VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version, expires_at = excluded.expires_at`);
  const updateKeepingExpiry = database.prepare(`UPDATE records SET value = ?, version = ? WHERE key = ? AND ${ALIVE}`);
  const remove = database.prepare('DELETE FROM records WHERE key = ?');
  const changeIndex = prepareIndexStep(database);

  const put = ({ put: key, value, lifetimeSeconds }: Extract<Write, { put: string }>, version: number): void => {
    if (lifetimeSeconds === undefined) upsert.run(key, value, version, null);
    else if (lifetimeSeconds === 'unchanged') {
      const { changes } = updateKeepingExpiry.run(value, version, key, clock());
      if (changes === 0) upsert.run(key, value, version, null);
    } else if (lifetimeSeconds <= 0) remove.run(key);
    else upsert.run(key, value, version, Math.ceil(clock() + lifetimeSeconds * 1000));
  };
  return (step: Write, version: number): void => {
    if ('index' in step) changeIndex(step);
    else if ('delete' in step) remove.run(step.delete);
    else if ('put' in step) put(step, version);
  };
}
