/** The three CSV shapes of BIN data sets: recognises each by its header and turns a row into an entry. */
import type { DatasetEntry } from './dataset.ts';
import { schemeFromName } from './network.ts';
import { bareUrl, cleanText, withoutEmpty } from './record.ts';

export type RowReader = (cells: readonly string[]) => DatasetEntry;

export interface RowShape {
  name: string;
  licence: string;
  read: RowReader;
}

type Cell = (column: string) => string;

/** Recognises the shape by its column names, in any order and case. Undefined for an unknown header. */
export function shapeOfHeader(header: readonly string[]): RowShape | undefined {
  const columns = new Map(header.map((name, index) => [name.trim().toLowerCase(), index]));
  const shape = SHAPES.find(({ needs }) => needs.every((column) => columns.has(column)));
  if (!shape) return undefined;
  const read: RowReader = (cells) => shape.entry((column) => cells[columns.get(column) ?? -1]?.trim() ?? '');
  return { name: shape.name, licence: shape.licence, read };
}

const SHAPES = [
  {
    name: 'binlist ranges',
    licence: 'The file states no licence: see where you obtained it.',
    needs: ['iin_start', 'iin_end', 'scheme', 'country'],
    entry: rangesEntry,
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
];

export const SHAPE_NAMES = SHAPES.map(({ name, needs }) => `${name} (${needs.join(', ')}, …)`).join('; ');

function rangesEntry(cell: Cell): DatasetEntry {
  const length = Number(cell('number_length'));
  return {
    ...rangeAndCountry(cell('iin_start'), cell('iin_end'), cell('country')),
    ...withoutEmpty({
      scheme: schemeOf(cell('scheme')),
      brand: text(cell('brand'), 100),
      type: typeOf(cell('type')),
      prepaid: yesOrNo(cell('prepaid')),
      number: withoutEmpty({
        length: Number.isInteger(length) && length >= 8 && length <= 19 ? length : undefined,
        luhn: yesOrNo(cell('number_luhn')),
      }),
      bank: withoutEmpty({
        name: text(cell('bank_name'), 200),
        url: bareUrl(cell('bank_url')),
        phone: text(cell('bank_phone'), 40),
        city: text(cell('bank_city'), 100),
      }),
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
      prepaid: category && /\bprepaid\b/i.test(category) ? true : undefined,
      bank: withoutEmpty({
        name: text(cell('issuer'), 200),
        url: bareUrl(cell(columns.url)),
        phone: text(cell(columns.phone), 40),
      }),
    }),
  };
}

function rangeAndCountry(start: string, end: string, country: string) {
  return { start, end: end || start, country: country.toUpperCase() };
}

function text(value: string, maxLength: number): string | undefined {
  return cleanText(value, maxLength) || undefined;
}

function schemeOf(value: string): string | undefined {
  const scheme = text(value, 40);
  return scheme && schemeFromName(scheme);
}

function typeOf(value: string): string | undefined {
  return /^[a-z][a-z -]{0,19}$/i.test(value) ? value.toLowerCase() : undefined;
}

function yesOrNo(value: string): boolean | undefined {
  if (/^(y|yes|true|1)$/i.test(value)) return true;
  return /^(n|no|false|0)$/i.test(value) ? false : undefined;
}
