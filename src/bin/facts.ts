/** Packs BIN facts: nine numbers for each distinct row, and each text only once. */
import { countryByAlpha2 } from './country.ts';
import type { EntryFacts } from './dataset.ts';
import type { BankFacts, BinRecord } from './record.ts';

/** A typed array that grows. */
export interface Numbers {
  push(value: number): void;
  finish(): Uint32Array;
}

/** Rows of nine numbers: the index of a text each for country, scheme, type, brand and four bank facts, then flags. */
export interface PackedFacts {
  cells: Uint32Array;
  /** The first one is empty and stands for an absent fact. */
  texts: readonly string[];
}

/** Stored data sets have rows of this length: a change of COLUMNS is a new format (`FORMATS` in `dataset-codec.ts`). */
const COLUMNS = 9;
const NO_TEXT = 0;
const NO_ROW = 0xffffffff;
const FLAG = { yes: 1, no: 2 } as const;

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

/** `add` returns the row of the facts, and an existing row if it has the same ones. */
export function createFactsWriter() {
  const texts = createTexts();
  const rows = createRows();
  // Reused, because a data set has hundreds of thousands of entries.
  const row = new Uint32Array(COLUMNS);
  return {
    add(entry: EntryFacts): number {
      const { bank } = entry;
      row[0] = texts.numberOf(entry.country);
      row[1] = texts.numberOf(entry.scheme);
      row[2] = texts.numberOf(entry.type);
      row[3] = texts.numberOf(entry.brand);
      row[4] = texts.numberOf(bank?.name);
      row[5] = texts.numberOf(bank?.url);
      row[6] = texts.numberOf(bank?.phone);
      row[7] = texts.numberOf(bank?.city);
      row[8] = packFlags(entry);
      return rows.rowOf(row);
    },
    finish: (): PackedFacts => ({ cells: rows.finish(), texts: texts.all }),
  };
}

function createTexts() {
  const all: string[] = [''];
  const numbers = new Map<string, number>();
  return {
    all,
    numberOf(text: string | undefined): number {
      if (!text) return NO_TEXT;
      const existing = numbers.get(text);
      if (existing !== undefined) return existing;
      numbers.set(text, all.length);
      return all.push(text) - 1;
    },
  };
}

/** Stores each distinct row once, by a hash table with open addressing. */
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

export function readFacts({ cells, texts }: PackedFacts, row: number): BinRecord {
  const start = row * COLUMNS;
  const textAt = (column: number) => texts[cells[start + column] ?? NO_TEXT] ?? '';
  const record: BinRecord = {};
  const flags = cells[start + 8] ?? 0;
  const number = unpackNumber(flags);
  // Assigned one by one for speed: a look-up takes two microseconds.
  if (number) record.number = number;
  const scheme = textAt(1);
  if (scheme) record.scheme = scheme;
  const type = textAt(2);
  if (type) record.type = type;
  const brand = textAt(3);
  if (brand) record.brand = brand;
  const prepaid = flags & 3;
  if (prepaid) record.prepaid = prepaid === FLAG.yes;
  const country = countryByAlpha2(textAt(0));
  if (country) record.country = country;
  const bank = bankOf(textAt(4), textAt(5), textAt(6), textAt(7));
  if (bank) record.bank = bank;
  return record;
}

function bankOf(name: string, url: string, phone: string, city: string): BankFacts | undefined {
  if (!name && !url && !phone && !city) return undefined;
  const bank: BankFacts = {};
  if (name) bank.name = name;
  if (url) bank.url = url;
  if (phone) bank.phone = phone;
  if (city) bank.city = city;
  return bank;
}

/** Bits 0 and 1: prepaid. Bits 2 and 3: Luhn check. From bit 4: length. */
function packFlags(entry: EntryFacts): number {
  return flag(entry.prepaid) | (flag(entry.number?.luhn) << 2) | ((entry.number?.length ?? 0) << 4);
}

function flag(value: boolean | undefined): number {
  if (value === undefined) return 0;
  return value ? FLAG.yes : FLAG.no;
}

function unpackNumber(flags: number): BinRecord['number'] {
  const length = flags >> 4;
  const luhn = (flags >> 2) & 3;
  if (!length && !luhn) return undefined;
  const number: NonNullable<BinRecord['number']> = {};
  if (length) number.length = length;
  if (luhn) number.luhn = luhn === FLAG.yes;
  return number;
}
