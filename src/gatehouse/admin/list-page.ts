/**
 * Where an HTML page stands in its list: `?after=` and the filters, as in the JSON lists, and `row` and `trail`, so that the
 * page knows the number of its first row and the way back. The store needs no second order for that.
 */
import type { Request } from 'express';
import { AppError } from '../../shared/errors.ts';
import { queryField } from '../../shared/http/body.ts';
import { searchable } from './search/typed.ts';

/** A page's place: its cursor, empty for the first page, and the number of its first row. */
interface Place {
  after: string;
  row: number | undefined;
}

/** The place in a list, for its view. Links are paths below the origin. */
export interface ListView {
  /** Of the search and of each filter; '' if it is not set. */
  values: Readonly<Record<string, string>>;
  /** The number of rows on this page, and of its first one; undefined if the address does not say. */
  rows: number;
  first: number | undefined;
  /** Undefined where counting would take a walk over the list. */
  total: number | undefined;
  isFiltered: boolean;
  previous: string | undefined;
  next: string | undefined;
  csv: string;
  /** Of the list, without a query. */
  path: string;
  /** The search and the filters alone, for other addresses. */
  query: string;
  /** This page, to come back to. */
  here: string;
}

export interface ListPage<Name extends string> {
  values: Readonly<Record<Name, string>>;
  /** For the store. */
  place: { after: string | undefined; limit: number };
  wantsCsv: boolean;
  view(shown: { rows: number; next: string | undefined; total?: number | undefined }): ListView;
}

const PAGE_ROWS = 50;
const MAX_CURSOR = 500;
/** Keeps addresses far below the limit of the listener, and of proxies. */
const MAX_TRAIL = 2_000;
const MAX_HERE = 512;
const ROW = /^[1-9]\d{0,8}$/;
/** `ROW~CURSOR`; the cursor of the first page is empty. */
const ENTRY = /^([1-9]\d{0,8})~([\w-]*)$/;

/**
 * @param names of the filters and the search, in the order of the page
 * @param path of the page; to be given where a form of another address may show the page again
 * @throws AppError `invalid_request` for a place that no page links to
 */
export function listPage<Name extends string>(
  req: Request,
  names: readonly Name[],
  { limit = PAGE_ROWS, path = req.originalUrl.split('?')[0] ?? '' }: { limit?: number; path?: string | undefined } = {},
): ListPage<Name> {
  const values = fieldsOf(req, names);
  const { place, trail } = placeOf(req);
  const filters = Object.entries<string>(values).filter(([, value]) => value.trim() !== '');
  const queryOf = (added: readonly (readonly [string, string | undefined])[]) =>
    `?${new URLSearchParams([...filters, ...added.filter(isGiven)])}`;
  const linkTo = ({ after, row }: Place, way: readonly Place[]) =>
    path +
    queryOf(
      after === ''
        ? []
        : [
            ['after', after],
            ['row', row?.toString()],
            ['trail', textOf(way)],
          ],
    );

  const previous = () => {
    if (place.after === '') return undefined;
    // An address that was shortened, or made by hand, leads back to the first page.
    return linkTo(trail.at(-1) ?? { after: '', row: 1 }, trail.slice(0, -1));
  };
  const here = () => {
    const whole = linkTo(place, trail);
    return whole.length <= MAX_HERE ? whole : path;
  };

  return {
    values,
    place: { after: place.after || undefined, limit },
    wantsCsv: queryField(req, 'format') === 'csv',
    view({ rows, next, total }) {
      const nextRow = place.row === undefined ? undefined : place.row + rows;
      // On the last page the rows before it and its own are all.
      const counted = next === undefined && nextRow !== undefined ? nextRow - 1 : total;
      return {
        values,
        rows,
        first: place.row,
        total: counted,
        isFiltered: filters.length > 0,
        previous: previous(),
        next: next === undefined ? undefined : linkTo({ after: next, row: nextRow }, [...trail, place]),
        csv: path + queryOf([['format', 'csv']]),
        path,
        query: queryOf([]).slice(1),
        here: here(),
      };
    },
  };
}

/** The search and the filters as text, '' for those that are not set: tokens and card numbers are shortened (`searchable`). */
export function fieldsOf<Name extends string>(req: Request, names: readonly Name[]): Readonly<Record<Name, string>> {
  const fields = names.map((name) => [name, searchable(queryField(req, name) ?? '')]);
  return Object.fromEntries(fields) as Record<Name, string>;
}

function placeOf(req: Request): { place: Place; trail: Place[] } {
  const fieldOf = (name: string) => queryField(req, name) ?? '';
  const after = fieldOf('after');
  if (after === '') return { place: { after, row: 1 }, trail: [] };
  const [row, trail] = [fieldOf('row'), fieldOf('trail')];
  if (after.length > MAX_CURSOR || trail.length > MAX_TRAIL || (row !== '' && !ROW.test(row))) throw unknownPlace();
  return { place: { after, row: row === '' ? undefined : Number(row) }, trail: trail === '' ? [] : parsed(trail) };
}

function parsed(trail: string): Place[] {
  return trail.split(',').map((text) => {
    const [, row, after] = ENTRY.exec(text) ?? [];
    if (row === undefined || after === undefined) throw unknownPlace();
    return { row: Number(row), after };
  });
}

/** Without the oldest places, if it would grow too long: the way back then ends with the first page. */
function textOf(trail: readonly Place[]): string {
  const places = trail.flatMap(({ row, after }) => (row === undefined ? [] : [`${row}~${after}`]));
  while (places.join(',').length > MAX_TRAIL) places.shift();
  return places.join(',');
}

const isGiven = (entry: readonly [string, string | undefined]): entry is [string, string] =>
  entry[1] !== undefined && entry[1] !== '';

function unknownPlace(): AppError {
  return new AppError('invalid_request', {
    detail: 'The address of this page of the list is not complete. Open the list again.',
  });
}
