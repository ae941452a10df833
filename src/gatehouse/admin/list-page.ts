/**
 * Paging of HTML lists: `?after=` and the filters, as in the JSON lists. `row` is the number of the first row, and
 * `trail` holds the previous pages, because the store cannot read a list backwards.
 */
import type { Request } from 'express';
import { AppError } from '../../shared/errors.ts';
import { queryField } from '../../shared/http/body.ts';
import { searchable } from './search/searchable.ts';

/** The cursor of a page, empty for the first page, and the number of its first row. */
interface Position {
  after: string;
  row: number | undefined;
}

/** The current page of a list, for its view. Links are paths below the origin. */
export interface ListView {
  /** The search and the filters; '' if not set. */
  values: Readonly<Record<string, string>>;
  /** The number of rows on this page. */
  rows: number;
  /** The number of its first row; undefined if the address does not contain it. */
  first: number | undefined;
  /** Undefined if counting would require reading the whole list. */
  total: number | undefined;
  isFiltered: boolean;
  previous: string | undefined;
  next: string | undefined;
  csv: string;
  /** The path of the list, without a query. */
  path: string;
  /** Only the search and the filters, for other addresses. */
  query: string;
  /** The address of this page, for links back to it. */
  here: string;
}

export interface ListPage<Name extends string> {
  values: Readonly<Record<Name, string>>;
  position: { after: string | undefined; limit: number };
  wantsCsv: boolean;
  view(result: { rows: number; next: string | undefined; total?: number | undefined }): ListView;
}

const PAGE_ROWS = 50;
const MAX_CURSOR = 500;
/** Keeps addresses well below the limits of the listener and of proxies. */
const MAX_TRAIL = 2_000;
const MAX_HERE = 512;
const ROW = /^[1-9]\d{0,8}$/;
/** `ROW~CURSOR`. The cursor of the first page is empty. */
const ENTRY = /^([1-9]\d{0,8})~([\w-]*)$/;

/**
 * @param names the search and the filters, in the order of the page
 * @param path the page; required if a form with another address can show the page again
 * @throws AppError `invalid_request` for a position that no page links to
 */
export function listPage<Name extends string>(
  req: Request,
  names: readonly Name[],
  { limit = PAGE_ROWS, path = req.originalUrl.split('?')[0] ?? '' }: { limit?: number; path?: string | undefined } = {},
): ListPage<Name> {
  const values = fieldsOf(req, names);
  const { position, previousPages } = positionOf(req);
  const filters = Object.entries<string>(values).filter(([, value]) => value.trim() !== '');
  const queryOf = (parameters: readonly (readonly [string, string | undefined])[]) =>
    `?${new URLSearchParams([...filters, ...parameters.filter(isSet)])}`;
  const linkTo = ({ after, row }: Position, pagesBefore: readonly Position[]) =>
    path +
    queryOf(
      after === ''
        ? []
        : [
            ['after', after],
            ['row', row?.toString()],
            ['trail', trailOf(pagesBefore)],
          ],
    );

  const previous = () => {
    if (position.after === '') return undefined;
    // The trail is empty if it was shortened or the address was typed by hand.
    return linkTo(previousPages.at(-1) ?? { after: '', row: 1 }, previousPages.slice(0, -1));
  };
  const here = () => {
    const address = linkTo(position, previousPages);
    return address.length <= MAX_HERE ? address : path;
  };

  return {
    values,
    position: { after: position.after || undefined, limit },
    wantsCsv: queryField(req, 'format') === 'csv',
    view({ rows, next, total }) {
      const nextRow = position.row === undefined ? undefined : position.row + rows;
      // The last page knows the total without a count.
      const exactTotal = next === undefined && nextRow !== undefined ? nextRow - 1 : total;
      return {
        values,
        rows,
        first: position.row,
        total: exactTotal,
        isFiltered: filters.length > 0,
        previous: previous(),
        next: next === undefined ? undefined : linkTo({ after: next, row: nextRow }, [...previousPages, position]),
        csv: path + queryOf([['format', 'csv']]),
        path,
        query: queryOf([]).slice(1),
        here: here(),
      };
    },
  };
}

/** The search and the filters as text, '' if not set. Tokens and card numbers are shortened (`searchable`). */
function fieldsOf<Name extends string>(req: Request, names: readonly Name[]): Readonly<Record<Name, string>> {
  const fields = names.map((name) => [name, searchable(queryField(req, name) ?? '')]);
  return Object.fromEntries(fields) as Record<Name, string>;
}

function positionOf(req: Request): { position: Position; previousPages: Position[] } {
  const fieldOf = (name: string) => queryField(req, name) ?? '';
  const after = fieldOf('after');
  if (after === '') return { position: { after, row: 1 }, previousPages: [] };
  const [row, trail] = [fieldOf('row'), fieldOf('trail')];
  if (after.length > MAX_CURSOR || trail.length > MAX_TRAIL || (row !== '' && !ROW.test(row))) throw unknownPosition();
  const previousPages = trail === '' ? [] : parseTrail(trail);
  return { position: { after, row: row === '' ? undefined : Number(row) }, previousPages };
}

function parseTrail(trail: string): Position[] {
  return trail.split(',').map((text) => {
    const [, row, after] = ENTRY.exec(text) ?? [];
    if (row === undefined || after === undefined) throw unknownPosition();
    return { row: Number(row), after };
  });
}

/** Drops the oldest pages from a trail that is too long. The page before the remaining ones is then the first. */
function trailOf(pages: readonly Position[]): string {
  const entries = pages.flatMap(({ row, after }) => (row === undefined ? [] : [`${row}~${after}`]));
  while (entries.join(',').length > MAX_TRAIL) entries.shift();
  return entries.join(',');
}

const isSet = (entry: readonly [string, string | undefined]): entry is [string, string] =>
  entry[1] !== undefined && entry[1] !== '';

function unknownPosition(): AppError {
  return new AppError('invalid_request', {
    detail: 'The address of this page of the list is not complete. Open the list again.',
  });
}
