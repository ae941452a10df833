/** Lists on pages: search, filters, one page of rows, their total, and the CSV export. */
import type { Request, Response } from 'express';
import type { AuditTrail } from '../audit/trail.ts';
import type { Column, Columns } from './columns.ts';
import { sendCsv } from './csv.ts';
import { type ListView, listPage } from './list-page.ts';

/** The position, and the search and the filters as text: '' if not set. */
export type ListRequest<Field extends string> = { after?: string | undefined; limit: number } & Readonly<
  Record<Field, string>
>;

/** The data of a list's view, as `list`. */
export interface PageList extends ListView {
  /** Without the columns that are only exported. */
  columns: readonly PageColumn[];
}

type PageColumn = Column<never>;

export interface ListSource<Item, Field extends string, Result extends { items: Item[]; next?: string }> {
  /** The last part of the list's address, such as `relay-tokens`; also the file name of the export. */
  name: string;
  /** The parameters of the search and of the filters, in the order of the page. */
  fields: readonly Field[];
  columns: Columns<Item, never>;
  /** The path of the page; required if a form with another address can show the page again. */
  path?: string;
  /** Reads one page of the matching items. */
  read(request: ListRequest<Field>): Promise<Result>;
  /** Counts the matching items. Undefined if that would require reading the whole list. */
  count?(fields: Readonly<Record<Field, string>>): Promise<number | undefined> | undefined;
}

/** Reads a page of the list. @returns the result of `read`, or undefined if the export was requested and sent */
export async function listFor<Item, Field extends string, Result extends { items: Item[]; next?: string }>(
  req: Request,
  res: Response,
  source: ListSource<Item, Field, Result> & { trail: Pick<AuditTrail, 'append'> },
): Promise<(Result & { list: PageList }) | undefined> {
  const { trail, name, fields, columns, path, read, count } = source;
  const { position, values, wantsCsv, view } = listPage(req, fields, { path });
  if (wantsCsv) {
    await sendCsv(req, res, { trail, name, columns, values, read: (options) => read({ ...values, ...options }) });
    return undefined;
  }
  const [result, total] = await Promise.all([read({ ...values, ...position }), count?.(values)]);
  const listView = view({ rows: result.items.length, next: result.next, total });
  return { ...result, list: { ...listView, columns: columns.filter(({ cell }) => cell !== undefined) } };
}
