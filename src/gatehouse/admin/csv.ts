/** Streams every row of a filtered list as CSV (RFC 4180). */
import type { Request, Response } from 'express';
import { allPages } from '../../shared/storage/paging.ts';
import type { AuditTrail } from '../audit/trail.ts';
import type { Columns, CsvValue } from './columns.ts';
import { sendExport } from './export.ts';

interface Export<T> {
  trail: Pick<AuditTrail, 'append'>;
  /** The last part of the list's address, such as `relay-tokens`. */
  name: string;
  columns: Columns<T, never>;
  /** The search and the filters, as `listPage` returns them. */
  values: Readonly<Record<string, string>>;
  read(page: { after?: string; limit: number }): Promise<{ items: T[]; next?: string }>;
}

const ROWS_AT_ONCE = 200;
/** Without it, spreadsheets read UTF-8 as another character set. */
const BYTE_ORDER_MARK = '\ufeff';

/** Sends all rows. @throws AppError for the same reasons as `sendExport` */
export async function sendCsv<T>(req: Request, res: Response, parts: Export<T>): Promise<void> {
  const { trail, name, columns, values, read } = parts;
  const fields = Object.entries(values).flatMap(([key, value]) => (value === '' ? [] : [[key, value]]));
  const entry = {
    event: 'list.exported',
    target: { kind: 'list', id: name },
    facts: Object.fromEntries(fields),
  } as const;
  const csvColumns = columns.flatMap(({ name: heading, csv }) => (csv ? [{ heading, csv }] : []));
  const lines = async function* () {
    yield BYTE_ORDER_MARK + line(csvColumns.map(({ heading }) => heading));
    for await (const items of allPages<T>(read, ROWS_AT_ONCE)) {
      yield items.map((item) => line(csvColumns.map(({ csv }) => csv(item)))).join('');
    }
  };
  await sendExport(req, res, { trail, entry, name: `${name}.csv`, lines: lines() });
}

function line(cells: readonly CsvValue[]): string {
  return `${cells.map((cell) => quoted(String(cell ?? ''))).join(',')}\r\n`;
}

/** Puts an apostrophe before text that a spreadsheet would run as a formula (OWASP, CSV Injection). */
function quoted(text: string): string {
  const safe = /^[=+\-@\t\r\n]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}
