/** Recognises the shape of a CSV data set by its header, and converts its rows into entries. */
import { alpha2Of, countryByAlpha2 } from './country.ts';
import type { DatasetEntry } from './dataset-builder.ts';
import { type EntryFacts, type FileColumns, recordOf } from './record.ts';
import { addStatedFacts } from './stated-facts.ts';
import { namedValue } from './texts.ts';
import { isNoFact } from './vocabulary.ts';

/** @param unknown called with the column and the text of each cell of a closed list that is not understood */
export type RowReader = (cells: readonly string[], unknown: (column: string, text: string) => void) => DatasetEntry;

/** `countries_differ`: two columns name different countries, since cells have moved. */
export type ShapeFault = 'too_many_columns' | 'too_few_columns' | 'countries_differ';

export interface RowShape {
  name: string;
  read: RowReader;
  /** Returns why the row does not fit the header; undefined if it does. */
  faultOf(cells: readonly string[]): ShapeFault | undefined;
  /** A column that is used, and that the header names more than once. */
  repeatedColumn: string | undefined;
}

/** Returns the text of a column in the current row; '' for a column that the file lacks. */
type Cell = (column: string) => string;

interface Shape {
  name: string;
  /** The columns by which the header is recognised. */
  needs: readonly string[];
  columns: FileColumns;
  /** Another column of the country, which shows whether cells have moved. */
  alpha3?: string;
  /** A column with codes, and the facts that each code stands for. */
  codes?: { column: string; facts: Readonly<Record<string, Partial<EntryFacts>>> };
}

/**
 * Recognises the shape by the names of its columns, in any order and case. With `fileColumns`, uses these columns
 * instead. Returns undefined for an unknown header, and for a header that lacks one of the columns.
 */
export function shapeOfHeader(header: readonly string[], fileColumns?: FileColumns): RowShape | undefined {
  const columns = new Map(header.map((name, index) => [name.trim().toLowerCase(), index]));
  const shapes = fileColumns ? [shapeOfColumns(fileColumns)] : SHAPES;
  const shape = shapes.find(({ needs }) => needs.every((column) => columns.has(column)));
  if (!shape) return undefined;
  const nameOf = (column: string) => namedValue(header[columns.get(column) ?? -1] ?? '') ?? column;
  const read: RowReader = (cells, unknown) =>
    entryOf(
      shape,
      (column) => cells[columns.get(column) ?? -1]?.trim() ?? '',
      (column, text) => unknown(nameOf(column), text),
    );
  const indexOf = (column: string | undefined) => columns.get(column ?? '') ?? -1;
  const { start, end, country } = shape.columns;
  const [countryIndex, alpha3Index] = [indexOf(country), indexOf(shape.alpha3)];
  // A spreadsheet cuts off empty cells at the end of a row. These columns are never all empty.
  const neededCells = 1 + Math.max(indexOf(start), indexOf(end), countryIndex);
  const faultOf = (cells: readonly string[]): ShapeFault | undefined => {
    if (cells.length > header.length && cells.slice(header.length).some((cell) => cell.trim() !== ''))
      return 'too_many_columns';
    if (cells.length < neededCells) return 'too_few_columns';
    if (alpha3Index === -1) return undefined;
    const code = cells[countryIndex] ?? '';
    if (cells.length < header.length && code.trim().length > 2) return 'too_few_columns';
    return countriesDiffer(code, cells[alpha3Index] ?? '') ? 'countries_differ' : undefined;
  };
  const names = header.map((name) => name.trim().toLowerCase());
  const used = [...Object.values(shape.columns), shape.alpha3, shape.codes?.column];
  const repeatedColumn = used.find((column) => column && names.indexOf(column) !== names.lastIndexOf(column));
  return { name: shape.name, read, faultOf, repeatedColumn };
}

function countriesDiffer(code: string, otherCode: string): boolean {
  const [country, other] = [countryOf(code.trim()), countryOf(otherCode.trim())];
  return country !== '' && country !== other && countryByAlpha2(other) !== undefined;
}

/** In files with these columns, `brand` is the network and `category` is the brand of the card. */
const PREFIX_COLUMNS: FileColumns = {
  start: 'bin',
  scheme: 'brand',
  brand: 'category',
  type: 'type',
  bank: 'issuer',
};

/** The acceptance brand names the network and the kind of card. Private label (PVL) is no network. */
const MASTERCARD_BRANDS: Readonly<Record<string, Partial<EntryFacts>>> = {
  MCC: { scheme: 'mastercard', type: 'credit' },
  DMC: { scheme: 'mastercard', type: 'debit' },
  MSI: { scheme: 'maestro', type: 'debit' },
  CIR: { scheme: 'cirrus' },
  PVL: {},
};

const SHAPES: readonly Shape[] = [
  {
    name: 'binlist ranges',
    needs: ['iin_start', 'iin_end', 'scheme', 'country'],
    columns: {
      start: 'iin_start',
      end: 'iin_end',
      country: 'country',
      scheme: 'scheme',
      type: 'type',
      brand: 'brand',
      prepaid: 'prepaid',
      length: 'number_length',
      luhn: 'number_luhn',
      bank: 'bank_name',
      url: 'bank_url',
      phone: 'bank_phone',
      city: 'bank_city',
    },
  },
  {
    name: 'bin-list-data',
    needs: ['bin', 'brand', 'type', 'isocode2'],
    alpha3: 'isocode3',
    columns: { ...PREFIX_COLUMNS, country: 'isocode2', phone: 'issuerphone', url: 'issuerurl' },
  },
  {
    name: 'binlist-data',
    needs: ['bin', 'brand', 'type', 'alpha_2'],
    alpha3: 'alpha_3',
    columns: { ...PREFIX_COLUMNS, country: 'alpha_2', phone: 'bank_phone', url: 'bank_url' },
  },
  {
    // https://developer.mastercard.com/bin-lookup/documentation/tutorials-and-guides/data-elements/sbart-data-elements/
    name: 'Mastercard account ranges',
    needs: ['account_range_from', 'account_range_to', 'acceptance_brand', 'country'],
    columns: {
      start: 'account_range_from',
      end: 'account_range_to',
      country: 'country',
      brand: 'brand_product_name',
      bank: 'company_name',
    },
    codes: { column: 'acceptance_brand', facts: MASTERCARD_BRANDS },
  },
];

/** What a header lacks for the shape that it is closest to. `isCountry`: it lacks only the column of the country. */
export interface MissingColumns {
  /** Undefined if the header has less than two columns of each shape. */
  shape: string | undefined;
  columns: readonly string[];
  isCountry: boolean;
}

export function missingColumns(header: readonly string[], fileColumns?: FileColumns): MissingColumns {
  const names = new Set(header.map((name) => name.trim().toLowerCase()));
  const missingOf = ({ needs }: Shape) => needs.filter((column) => !names.has(column));
  const found = (shape: Shape) => shape.needs.length - missingOf(shape).length;
  const shapes = fileColumns ? [shapeOfColumns(fileColumns)] : SHAPES;
  const closest = shapes.reduce((best, next) => (found(next) > found(best) ? next : best));
  const isClose = fileColumns !== undefined || found(closest) > 1;
  const missing = missingOf(closest);
  const isCountry = missing.length === 1 && missing[0] === closest.columns.country;
  const asWritten = (column: string) =>
    Object.values(fileColumns ?? {}).find((name) => name.trim().toLowerCase() === column);
  const columns = missing.map((column) => asWritten(column) ?? column);
  return { shape: isClose ? closest.name : undefined, columns, isCountry };
}

export const SHAPE_NAMES = SHAPES.map(({ name, needs }) => `${name} (${needs.join(', ')}, …)`).join('; ');

function shapeOfColumns(fileColumns: FileColumns): Shape {
  const columns = Object.fromEntries(
    Object.entries(fileColumns).map(([field, name]) => [field, name.trim().toLowerCase()]),
  );
  return { name: 'columns given', needs: Object.values(columns), columns };
}

function entryOf(
  { columns, alpha3, codes }: Shape,
  cell: Cell,
  unknown: (column: string, text: string) => void,
): DatasetEntry {
  const cellOf = (name: string) => {
    const column = columns[name];
    return column === undefined ? '' : cell(column);
  };
  const start = cellOf('start');
  const facts = recordOf((field) => {
    const text = cellOf(field.column);
    if (text === '' || isNoFact(text)) return undefined;
    const fact = field.cell(text);
    if (fact === undefined && field.isUnderstood?.(text) === false) unknown(columns[field.column] ?? '', text);
    return fact;
  });
  const code = codes ? cell(codes.column) : '';
  const factsOfCode = codes?.facts[code.toUpperCase()];
  if (codes && code !== '' && !isNoFact(code) && !factsOfCode) unknown(codes.column, code);
  addStatedFacts(facts, cellOf('scheme'), cellOf('type'));
  const end = cellOf('end');
  return {
    start,
    end: isNoFact(end) ? start : end || start,
    ...facts,
    ...factsOfCode,
    country: countryOf(cellOf('country'), alpha3 === undefined ? '' : cell(alpha3)),
  };
}

/**
 * NA is the code of Namibia, and in every other column it is no fact. Nor is it one where the other code of the country is
 * none, as programs for statistics write.
 */
function countryOf(text: string, otherCode = ''): string {
  const code = text.toUpperCase();
  return isNoFact(text) && (code !== 'NA' || isNoFact(otherCode)) ? '' : alpha2Of(code);
}
