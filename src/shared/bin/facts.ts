/** Packs BIN facts: each distinct combination is stored once, as a row of numbers, and each text once. */
import { countryByAlpha2 } from './country.ts';
import type { Fact, Place } from './field.ts';
import { type BinRecord, type EntryFacts, FIELDS, factIn, recordOf } from './record.ts';

/** A typed array that grows. */
export interface Numbers {
  push(value: number): void;
  finish(): Uint32Array;
}

export interface PackedFacts {
  /** Rows of `columns` numbers each. */
  cells: Uint32Array;
  columns: number;
  /** The first text is empty, and stands for an absent fact. */
  texts: readonly string[];
}

/** The fields by column. Their texts are added to a stored data set in this order. */
const BY_COLUMN = FIELDS.toSorted((a, b) => a.place.column - b.place.column);
const COLUMNS = 1 + Math.max(...FIELDS.map(({ place }) => place.column));
const COUNTRY_COLUMN = 0;
const FLAG = { yes: 1, no: 2 } as const;
const NO_TEXT = 0;
const NO_ROW = 0xffffffff;

export function createNumbers(): Numbers {
  let values: Uint32Array = new Uint32Array(1024);
  let length = 0;
  return {
    push(value) {
      if (length === values.length) values = doubled(values);
      values[length++] = value;
    },
    finish: () => values.slice(0, length),
  };
}

function doubled(values: Uint32Array): Uint32Array {
  const larger = new Uint32Array(values.length * 2);
  larger.set(values);
  return larger;
}

/** Creates a writer. `add` returns the row of the facts, which may exist already. `written` returns them uncopied. */
export function createFactsWriter() {
  const texts = createTexts();
  const rows = createRows();
  // All entries use one array, because a data set has hundreds of thousands of them.
  const row = new Uint32Array(COLUMNS);
  return {
    add(entry: EntryFacts): number {
      row.fill(0);
      row[COUNTRY_COLUMN] = texts.numberOf(entry.country);
      for (const field of BY_COLUMN) {
        const fact = factIn(entry, field);
        const { column, shift } = field.place;
        if (fact === undefined) continue;
        const bits = typeof fact === 'string' ? texts.numberOf(fact) : bitsOf(fact);
        row[column] = (row[column] ?? 0) | (bits << shift);
      }
      return rows.rowOf(row);
    },
    /** The number of distinct texts. */
    get texts(): number {
      return texts.all.length;
    },
    written: (): PackedFacts => ({ cells: rows.written(), columns: COLUMNS, texts: texts.all }),
    finish: (): PackedFacts => ({ cells: rows.finish(), columns: COLUMNS, texts: texts.all }),
  };
}

function createTexts() {
  const all: string[] = [''];
  const numbers = new Map<string, number>();
  return {
    all,
    numberOf(text: string): number {
      if (!text) return NO_TEXT;
      const number = numbers.get(text);
      if (number !== undefined) return number;
      numbers.set(text, all.length);
      return all.push(text) - 1;
    },
  };
}

/** Creates a store that has each distinct row once, in a hash table with open addressing. */
function createRows() {
  let cells: Uint32Array = new Uint32Array(1024 * COLUMNS);
  let slots = new Uint32Array(2048).fill(NO_ROW);
  let count = 0;

  const slotOf = (row: Uint32Array, from: number): number => {
    let slot = hashOf(row, from) & (slots.length - 1);
    for (;;) {
      const stored = slots[slot] ?? NO_ROW;
      if (stored === NO_ROW || isSame(cells, stored * COLUMNS, row, from)) return slot;
      slot = (slot + 1) & (slots.length - 1);
    }
  };
  const grow = () => {
    cells = doubled(cells);
    slots = new Uint32Array(slots.length * 2).fill(NO_ROW);
    for (let row = 0; row < count; row++) slots[slotOf(cells, row * COLUMNS)] = row;
  };
  return {
    rowOf(row: Uint32Array): number {
      const slot = slotOf(row, 0);
      const existing = slots[slot] ?? NO_ROW;
      if (existing !== NO_ROW) return existing;
      cells.set(row, count * COLUMNS);
      slots[slot] = count++;
      if (count * COLUMNS === cells.length) grow();
      return count - 1;
    },
    written: () => cells,
    finish: () => cells.slice(0, count * COLUMNS),
  };
}

function hashOf(row: Uint32Array, from: number): number {
  let hash = 0;
  for (let column = 0; column < COLUMNS; column++) {
    hash = Math.imul(hash ^ (row[from + column] ?? 0), 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  return hash;
}

function isSame(cells: Uint32Array, start: number, row: Uint32Array, from: number): boolean {
  for (let column = 0; column < COLUMNS; column++) {
    if (cells[start + column] !== row[from + column]) return false;
  }
  return true;
}

function bitsOf(fact: number | boolean): number {
  if (typeof fact === 'number') return fact;
  return fact ? FLAG.yes : FLAG.no;
}

/** Reads a row of facts. A row that an older program wrote lacks the newest columns, which then count as absent. */
export function readFacts({ cells, columns, texts }: PackedFacts, row: number): BinRecord {
  const start = row * columns;
  const country = countryByAlpha2(texts[cells[start + COUNTRY_COLUMN] ?? NO_TEXT] ?? '');
  return recordOf(({ place }) => {
    return place.column < columns ? unpack(place, cells[start + place.column] ?? 0, texts) : undefined;
  }, country);
}

function unpack({ kind, shift }: Place, cell: number, texts: readonly string[]): Fact | undefined {
  const bits = cell >> shift;
  if (bits === 0) return undefined;
  if (kind === 'text') return texts[bits];
  if (kind === 'number') return bits;
  const flag = bits & 3;
  return flag === 0 ? undefined : flag === FLAG.yes;
}
