/** Lists on pages: search, filters, one page of rows, their total, and the CSV export. */
import type { Request, Response } from 'express';
import type { z } from 'zod';
import { ADVICE, inputFaults } from '../../shared/config/input-faults.ts';
import { AppError } from '../../shared/errors.ts';
import type { AuditTrail } from '../audit/trail.ts';
import type { Column, Columns } from './columns.ts';
import { sendCsv } from './csv.ts';
import { type ListView, listPage } from './list-page.ts';

/** The data of a list's view, as `list`. */
export interface PageList extends ListView {
  /** Without the columns that are only exported. */
  columns: readonly PageColumn[];
  /** The faults of the search and the filters, by their names. With one, the list has no rows. */
  faults: Readonly<Record<string, string>>;
  /** There is nothing to search or to filter. */
  isEmpty: boolean;
}

type PageColumn = Column<never>;

interface Position {
  after?: string | undefined;
  limit: number;
}

export interface ListSource<Item, Query extends Position, Result extends { items: Item[]; next?: string }> {
  /** The last part of the list's address, such as `relay-tokens`; also the file name of the export. */
  name: string;
  /** The parameters of the search and of the filters, in the order of the page. */
  fields: readonly string[];
  /** The parameters of the list in the API, which the page accepts or refuses alike. */
  query: z.ZodType<Query>;
  /** For filters whose values are stored: whether there is one with this id or name. */
  isKnown?: Readonly<Record<string, IsKnown>> | undefined;
  columns: Columns<Item, never>;
  /** The path of the page; required if a form with another address can show the page again. */
  path?: string;
  /** Reads one page of the matching items. */
  read(query: Query): Promise<Result>;
  /** Counts the matching items. Undefined if that would require reading the whole list. */
  count?(query: Query): Promise<number | undefined> | undefined;
}

export type IsKnown = (value: string) => boolean | Promise<boolean>;

/** The result of `read`. With a fault in a filter, it has no items and none of the other members. */
export type ListResult<Result extends { items: unknown }> = Pick<Result, 'items'> &
  Partial<Omit<Result, 'items'>> & { list: PageList };

/** As on the forms. The words of the API would list the values. */
const WORDS: typeof ADVICE = {
  error: (issue) => (issue.code === 'invalid_value' ? 'Choose an entry of the list.' : ADVICE.error(issue)),
};

/**
 * Reads a page of the list.
 * @returns undefined if the export was requested and sent
 * @throws AppError `invalid_request` if the export was requested with an invalid filter
 */
export async function listFor<Item, Query extends Position, Result extends { items: Item[]; next?: string }>(
  req: Request,
  res: Response,
  source: ListSource<Item, Query, Result> & { trail: Pick<AuditTrail, 'append'> },
): Promise<ListResult<Result> | undefined> {
  const { trail, name, fields, query: schema, isKnown = {}, columns, path, read, count } = source;
  const { position, values, wantsCsv, view } = listPage(req, fields, { path });
  const entered = Object.entries(values).filter(([, value]) => value !== '');
  const parsed = schema.safeParse({ ...Object.fromEntries(entered), ...position }, WORDS);

  const listOf = (result: Parameters<typeof view>[0], faults: PageList['faults'] = {}): PageList => {
    if (Object.keys(faults).length > 0) res.status(400);
    const listView = view(result);
    const { rows, isFiltered, previous, next } = listView;
    const isEmpty = rows === 0 && !isFiltered && previous === undefined && next === undefined;
    return { ...listView, columns: columns.filter(({ cell }) => cell !== undefined), faults, isEmpty };
  };

  if (!parsed.success) {
    const faults = inputFaults(parsed.error).map(
      ({ pointer, detail }) => [pointer.slice('#/'.length), detail] as const,
    );
    if (wantsCsv) throw new AppError('invalid_request', { detail: faults[0]?.[1] });
    const list = listOf({ rows: 0, next: undefined }, Object.fromEntries(faults));
    return { items: [] as Item[], list } as ListResult<Result>;
  }
  const query = parsed.data;
  if (wantsCsv) {
    await sendCsv(req, res, { trail, name, columns, values, read: (options) => read({ ...query, ...options }) });
    return undefined;
  }
  const [result, total] = await Promise.all([read(query), count?.(query)]);
  const { items, next } = result;
  const hasNone = items.length === 0 && next === undefined && query.after === undefined;
  // Records of something that is deleted can remain, and are found.
  const faults = hasNone ? await unknownNames(entered, isKnown) : {};
  return { ...result, list: listOf({ rows: items.length, next, total }, faults) };
}

async function unknownNames(
  entered: readonly (readonly [string, string])[],
  isKnown: Readonly<Record<string, IsKnown>>,
): Promise<PageList['faults']> {
  const faults = await Promise.all(
    entered.map(async ([name, value]) =>
      (await isKnown[name]?.(value)) === false ? [[name, `There is no such ${name}.`]] : [],
    ),
  );
  return Object.fromEntries(faults.flat());
}
