/** Compares data sets: counts the BINs of 8 digits that an import would add, remove or change. */
import { z } from 'zod';
import { type Dataset, type PackedDataset, rowOf, type Table } from '../../shared/bin/dataset.ts';
import { readFacts } from '../../shared/bin/facts.ts';
import { NO_OWNER } from '../../shared/bin/ranges.ts';
import { isEmptyRecord } from '../../shared/bin/record.ts';

/** A prefix of 6 digits counts as the hundred BINs of 8 digits that it stands for (ISO/IEC 7812-1). */
export const datasetChange = z.object({
  before: z.int().describe('BINs of 8 digits that are described now, by the data set in use or the built-in one'),
  after: z.int().describe('those that would be described after the import'),
  added: z.int(),
  removed: z.int(),
  changed: z.int(),
});

export type DatasetChange = z.output<typeof datasetChange>;

const DIGITS = 8;
const ALL_BINS = 10 ** DIGITS;

/** Each list has the data sets in the order in which lookups use them (`findLocalFacts`). */
export function compareDatasets(before: readonly Dataset[], after: readonly Dataset[]): DatasetChange {
  const change = { before: 0, after: 0, added: 0, removed: 0, changed: 0 };
  const [factsBefore, factsAfter] = [walkerOf(before), walkerOf(after)];
  const edges = edgesOf([...new Set([...before, ...after])].map(({ packed }) => packed));
  for (const [at, from] of edges.entries()) {
    const bins = (edges[at + 1] ?? ALL_BINS) - from;
    const [old, next] = [factsBefore(from), factsAfter(from)];
    if (old !== undefined) change.before += bins;
    if (next !== undefined) change.after += bins;
    if (old === undefined && next !== undefined) change.added += bins;
    else if (old !== undefined && next === undefined) change.removed += bins;
    else if (old !== next) change.changed += bins;
  }
  return change;
}

/** The tables that hold BINs of 8 digits, without those that only match shorter BINs. */
function tablesOf({ tables }: PackedDataset): readonly Table[] {
  return tables.filter(({ digits, exact }) => digits === DIGITS || (digits < DIGITS && !exact));
}

const scaleOf = ({ digits }: Table) => 10 ** (DIGITS - digits);

/** The BINs at which the facts of one of the data sets may change, in ascending order. */
function edgesOf(datasets: readonly PackedDataset[]): Uint32Array {
  const tables = datasets.flatMap(tablesOf);
  const edges = new Uint32Array(tables.reduce((sum, { starts }) => sum + starts.length, 0));
  let length = 0;
  for (const table of tables) for (const start of table.starts) edges[length++] = start * scaleOf(table);
  edges.sort();
  let count = 0;
  for (const edge of edges) if (edge < ALL_BINS && (count === 0 || edge !== edges[count - 1])) edges[count++] = edge;
  return edges.subarray(0, count);
}

interface Facts {
  text: string;
  hasCountry: boolean;
}

/** Returns the facts of a BIN as text, or undefined. Must be called with ascending BINs. */
function walkerOf(datasets: readonly Dataset[]): (bin: number) => string | undefined {
  const walkers = datasets.map(({ packed }) => walkerIn(packed));
  return (bin) => {
    const candidates = walkers.map((factsOf) => factsOf(bin)).filter((facts) => facts !== undefined);
    return (candidates.find(({ hasCountry }) => hasCountry) ?? candidates[0])?.text;
  };
}

function walkerIn(dataset: PackedDataset): (bin: number) => Facts | undefined {
  const tables = tablesOf(dataset).map((table) => ({ ...table, scale: scaleOf(table), next: 0 }));
  let last: { owner: number; facts: Facts | undefined } | undefined;
  const ownerOf = (bin: number): number => {
    let owner = NO_OWNER;
    for (const table of tables) {
      while ((table.starts[table.next] ?? ALL_BINS) * table.scale <= bin) table.next++;
      // The first table that has the BIN wins, but all of them must advance.
      if (owner === NO_OWNER) owner = table.owners[table.next - 1] ?? NO_OWNER;
    }
    return owner;
  };
  return (bin) => {
    const owner = ownerOf(bin);
    if (owner === NO_OWNER) return undefined;
    if (last?.owner !== owner) {
      const record = readFacts(dataset.facts, rowOf(owner));
      const facts = { text: JSON.stringify(record), hasCountry: record.country !== undefined };
      last = { owner, facts: isEmptyRecord(record) ? undefined : facts };
    }
    return last.facts;
  };
}
