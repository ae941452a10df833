/** Owns the packed form of BIN facts: nine numbers for each row, every text kept once. */
import { countryByAlpha2 } from './country.ts';
import type { DatasetEntry } from './dataset.ts';
import type { BankFacts, BinRecord } from './record.ts';

/** Numbers collected in a typed array that grows. */
export interface Numbers {
  push(value: number): void;
  finish(): Uint32Array;
}

const COLUMNS = 9;
const NO_TEXT = 0;
const FLAG = { yes: 1, no: 2 } as const;

export function createNumbers(): Numbers {
  let values = new Uint32Array(1024);
  let length = 0;
  return {
    push(value) {
      if (length === values.length) {
        const larger = new Uint32Array(length * 2);
        larger.set(values);
        values = larger;
      }
      values[length++] = value;
    },
    finish: () => values.slice(0, length),
  };
}

/** `add` answers the row that `finish()(row)` reads back as a record. */
export function createFactsWriter() {
  const texts = createTexts();
  const cells = createNumbers();
  let rows = 0;
  return {
    add(entry: DatasetEntry): number {
      const { bank = {} } = entry;
      const row = [entry.country, entry.scheme, entry.type, entry.brand, bank.name, bank.url, bank.phone, bank.city];
      for (const text of row) cells.push(texts.numberOf(text));
      cells.push(packFlags(entry));
      return rows++;
    },
    finish: () => createFactsReader(cells.finish(), texts.all),
  };
}

function createTexts() {
  const all: string[] = [''];
  const numbers = new Map<string, number>();
  return {
    all,
    numberOf(text: string | undefined): number {
      if (!text) return NO_TEXT;
      const known = numbers.get(text);
      if (known !== undefined) return known;
      numbers.set(text, all.length);
      return all.push(text) - 1;
    },
  };
}

function createFactsReader(cells: Uint32Array, texts: readonly string[]) {
  const textAt = (row: number, column: number) => texts[cells[row * COLUMNS + column] ?? NO_TEXT] ?? '';
  // Parts are set one by one because a look-up has two microseconds.
  return (row: number): BinRecord => {
    const record: BinRecord = {};
    const flags = cells[row * COLUMNS + 8] ?? 0;
    const number = unpackNumber(flags);
    if (number) record.number = number;
    const scheme = textAt(row, 1);
    if (scheme) record.scheme = scheme;
    const type = textAt(row, 2);
    if (type) record.type = type;
    const brand = textAt(row, 3);
    if (brand) record.brand = brand;
    const prepaid = flags & 3;
    if (prepaid) record.prepaid = prepaid === FLAG.yes;
    const country = countryByAlpha2(textAt(row, 0));
    if (country) record.country = country;
    const bank = bankOf(textAt(row, 4), textAt(row, 5), textAt(row, 6), textAt(row, 7));
    if (bank) record.bank = bank;
    return record;
  };
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

/** Bits 0 and 1: prepaid; 2 and 3: Luhn; from 4: length. */
function packFlags(entry: DatasetEntry): number {
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
