/** The list of a page: its search and filters, the rows of this page, how many there are, and the same list as CSV. */
import type { Request, Response } from 'express';
import type { AuditTrail } from '../audit/trail.ts';
import type { Column, Columns } from './columns.ts';
import { sendCsv } from './csv.ts';
import { type ListView, listPage } from './list-page.ts';

/** Where to read, and the search and the filters as text: '' for those that are not set. */
export type ListRequest<Field extends string> = { after?: string | undefined; limit: number } & Readonly<
  Record<Field, string>
>;

/** What the view of a list is given, as `list`. */
export interface PageList extends ListView {
  /** Those of the page. */
  columns: readonly PageColumn[];
}

type PageColumn = Column<never>;

export interface ListSource<Item, Field extends string, Found extends { items: Item[]; next?: string }> {
  /** The last part of the list's address, such as `relay-tokens`: names the export. */
  name: string;
  /** The parameters of the search and of the filters, in the order of the page. */
  fields: readonly Field[];
  columns: Columns<Item, never>;
  /** Of the page; to be given where a form of another address may show the page again. */
  path?: string;
  /** One page of the items that the search and the filters select. */
  read(request: ListRequest<Field>): Promise<Found>;
  /** How many are selected. Undefined where counting would take a walk over the list. */
  count?(fields: Readonly<Record<Field, string>>): Promise<number | undefined> | undefined;
}

/** @returns what `read` has found, or undefined if the request asked for the export, which is sent */
export async function listFor<Item, Field extends string, Found extends { items: Item[]; next?: string }>(
  req: Request,
  res: Response,
  source: ListSource<Item, Field, Found> & { trail: Pick<AuditTrail, 'append'> },
): Promise<(Found & { list: PageList }) | undefined> {
  const { trail, name, fields, columns, path, read, count } = source;
  const { place, values, wantsCsv, view } = listPage(req, fields, { path });
  if (wantsCsv) {
    await sendCsv(req, res, { trail, name, columns, values, read: (options) => read({ ...values, ...options }) });
    return undefined;
  }
  const [found, total] = await Promise.all([read({ ...values, ...place }), count?.(values)]);
  const shown = view({ rows: found.items.length, next: found.next, total });
  return { ...found, list: { ...shown, columns: columns.filter(({ cell }) => cell !== undefined) } };
}
