/** The CSV shapes of BIN data sets: recognises each by its header and turns a row into an entry. */
import { containsCardNumber } from '../observability/card-numbers.ts';
import { alpha2Of } from './country.ts';
import type { DatasetEntry } from './dataset.ts';
import type { DatasetField, FileColumns } from './file-columns.ts';
import { schemeFromName } from './network.ts';
import { bareUrl, cleanText, withoutEmpty } from './record.ts';

export type RowReader = (cells: readonly string[]) => DatasetEntry;

export interface RowShape {
  name: string;
  licence: string;
  read: RowReader;
}

type Cell = (column: string) => string;

/**
 * Recognises the shape by its column names, in any order and case, or reads the columns given. Undefined for an unknown
 * header, or one that lacks a column given.
 */
export function shapeOfHeader(header: readonly string[], given?: FileColumns): RowShape | undefined {
  const columns = new Map(header.map((name, index) => [name.trim().toLowerCase(), index]));
  const shapes = given ? [shapeOfColumns(given)] : SHAPES;
  const shape = shapes.find(({ needs }) => needs.every((column) => columns.has(column)));
  if (!shape) return undefined;
  const read: RowReader = (cells) => shape.entry((column) => cells[columns.get(column) ?? -1]?.trim() ?? '');
  return { name: shape.name, licence: shape.licence, read };
}

const NO_LICENCE = 'The file states no licence: see where you obtained it.';

const BINLIST_COLUMNS: FileColumns = {
  ...{ start: 'iin_start', end: 'iin_end', country: 'country', scheme: 'scheme', type: 'type', brand: 'brand' },
  ...{ prepaid: 'prepaid', length: 'number_length', luhn: 'number_luhn' },
  ...{ bank: 'bank_name', url: 'bank_url', phone: 'bank_phone', city: 'bank_city' },
};

const SHAPES = [
  {
    name: 'binlist ranges',
    licence: NO_LICENCE,
    needs: ['iin_start', 'iin_end', 'scheme', 'country'],
    entry: (cell: Cell) => entryOfColumns(cell, BINLIST_COLUMNS),
  },
  {
    name: 'bin-list-data',
    licence: 'CC BY 4.0 as published (bin-list-data)',
    needs: ['bin', 'brand', 'type', 'isocode2'],
    entry: (cell: Cell) => prefixEntry(cell, { country: 'isocode2', phone: 'issuerphone', url: 'issuerurl' }),
  },
  {
    name: 'binlist-data',
    licence: 'CC BY 4.0 as published (binlist-data)',
    needs: ['bin', 'brand', 'type', 'alpha_2'],
    entry: (cell: Cell) => prefixEntry(cell, { country: 'alpha_2', phone: 'bank_phone', url: 'bank_url' }),
  },
  {
    // https://developer.mastercard.com/bin-lookup/documentation/tutorials-and-guides/data-elements/sbart-data-elements/
    name: 'Mastercard account ranges',
    licence: 'Mastercard’s terms of use for its Simplified BIN Account Range Table',
    needs: ['account_range_from', 'account_range_to', 'acceptance_brand', 'country'],
    entry: mastercardEntry,
  },
];

export const SHAPE_NAMES = SHAPES.map(({ name, needs }) => `${name} (${needs.join(', ')}, …)`).join('; ');

function shapeOfColumns(given: FileColumns): (typeof SHAPES)[number] {
  const columns = Object.fromEntries(Object.entries(given).map(([field, name]) => [field, name.trim().toLowerCase()]));
  const entry = (cell: Cell) => entryOfColumns(cell, columns);
  return { name: 'columns given', licence: NO_LICENCE, needs: Object.values(columns), entry };
}

function entryOfColumns(cell: Cell, columns: FileColumns): DatasetEntry {
  const of = (field: DatasetField) => {
    const column = columns[field];
    return column === undefined ? '' : cell(column);
  };
  const length = Number(of('length'));
  return {
    ...rangeAndCountry(of('start'), of('end'), of('country')),
    ...withoutEmpty({
      scheme: schemeOf(of('scheme')),
      brand: text(of('brand'), 100),
      type: typeOf(of('type')),
      prepaid: yesOrNo(of('prepaid')),
      number: withoutEmpty({
        length: Number.isInteger(length) && length >= 8 && length <= 19 ? length : undefined,
        luhn: yesOrNo(of('luhn')),
      }),
      bank: withoutEmpty({
        name: text(of('bank'), 200),
        url: bareUrl(of('url')),
        phone: cleanText(of('phone'), 40) || undefined,
        city: text(of('city'), 100),
      }),
    }),
  };
}

/** The acceptance brand names the network and the kind of card. */
const MASTERCARD_BRANDS: Readonly<Record<string, { scheme: string; type?: string }>> = {
  MCC: { scheme: 'mastercard', type: 'credit' },
  DMC: { scheme: 'mastercard', type: 'debit' },
  MSI: { scheme: 'maestro', type: 'debit' },
  CIR: { scheme: 'cirrus' },
};

function mastercardEntry(cell: Cell): DatasetEntry {
  const brand = text(cell('brand_product_name'), 100);
  return {
    ...rangeAndCountry(cell('account_range_from'), cell('account_range_to'), cell('country')),
    ...MASTERCARD_BRANDS[cell('acceptance_brand').toUpperCase()],
    ...withoutEmpty({
      brand,
      prepaid: isPrepaid(brand),
      bank: withoutEmpty({ name: text(cell('company_name'), 200) }),
    }),
  };
}

/** In these shapes `brand` is the network and `category` is the card's brand. */
function prefixEntry(cell: Cell, columns: { country: string; phone: string; url: string }): DatasetEntry {
  const category = text(cell('category'), 100);
  return {
    ...rangeAndCountry(cell('bin'), '', cell(columns.country)),
    ...withoutEmpty({
      scheme: schemeOf(cell('brand')),
      brand: category,
      type: typeOf(cell('type')),
      prepaid: isPrepaid(category),
      bank: withoutEmpty({
        name: text(cell('issuer'), 200),
        url: bareUrl(cell(columns.url)),
        phone: cleanText(cell(columns.phone), 40) || undefined,
      }),
    }),
  };
}

function rangeAndCountry(start: string, end: string, country: string) {
  return { start, end: end || start, country: alpha2Of(country.toUpperCase()) };
}

/** Undefined also for a text with a card number (R85). */
function text(value: string, maxLength: number): string | undefined {
  const clean = cleanText(value, maxLength);
  return clean && !containsCardNumber(clean) ? clean : undefined;
}

function schemeOf(value: string): string | undefined {
  const scheme = text(value, 40);
  return scheme && schemeFromName(scheme);
}

/** A product's name can tell that a card is prepaid, never that it is not. */
function isPrepaid(product: string | undefined): true | undefined {
  return product && /\bprepaid\b/i.test(product) ? true : undefined;
}

function typeOf(value: string): string | undefined {
  return /^[a-z][a-z -]{0,19}$/i.test(value) ? value.toLowerCase() : undefined;
}

function yesOrNo(value: string): boolean | undefined {
  if (/^(y|yes|true|1)$/i.test(value)) return true;
  return /^(n|no|false|0)$/i.test(value) ? false : undefined;
}
