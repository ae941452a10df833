/** The columns of a list: each is declared once, with its value in the export and its cell on the page. */
import type { Tone } from '../../shared/pages/words.ts';

/** The views that cells draw, with their data; each resource adds its own. */
export interface CellViews {
  '/admin/parts/expiry': { token: { state: string; expiresAt: string | null } };
  '/admin/parts/user-link': { id: string; name?: string | undefined };
}
type ViewCell = {
  [Name in keyof CellViews]: { view: Name; data: CellViews[Name]; isCut?: boolean };
}[keyof CellViews];

/** What the view `admin/parts/cell` draws. */
export type Cell =
  /** A text that is cut where it does not fit. */
  | { text: string }
  /** A short text of ours. `title`: its tooltip; `warning`: that of an icon before it. */
  | { words: string; title?: string; warning?: string | undefined; remark?: string | undefined }
  /** The distance from now. `otherwise`: without a time; `remark`: a notice behind it. */
  | { time: string | null | undefined; otherwise?: string; remark?: string | undefined }
  | { status: Tone; words: string; icon?: string; title?: string }
  /** The beginning of an id, and a button that copies the whole. `of`: such as "token ID" */
  | { id: string; of: string }
  /** A link to a page; `path` is below `/admin`. `remark`: behind it, such as "you". */
  | { path: string; text: string; title?: string; remark?: string | undefined }
  | { path: string; words: string }
  | { path: string; code: string }
  /** A link to the same list with this filter alone. */
  | { filter: string; value: string; text: string; title: string }
  | ViewCell;

export type CsvValue = string | number | boolean | null | undefined;

/** Only on the page without `csv`, and only in the export without `cell`. */
export interface Column<Item, Row extends Item = Item> {
  /** The heading. */
  name: string;
  /** Times as in JSON. */
  csv?: (item: Item) => CsvValue;
  /** Undefined: nothing. */
  cell?: (row: Row) => Cell | undefined;
  /** A class of `lists.css` without `list-`. */
  width?: 'ago' | 'cause' | 'health' | 'id' | 'state' | 'states' | 'time' | 'wide';
  /** A number, to the right. */
  isNumber?: boolean;
  /** What a narrow screen, which has no headings, writes before the cell. Default: nothing. */
  label?: string | ((row: Row) => string);
  /** A narrow screen leaves it out. */
  isWideOnly?: boolean | ((row: Row) => boolean);
  /** A text of several words, which a narrow screen writes over its whole width. */
  isText?: boolean;
  /** The list has its newest value first: always, or only without search and filters. */
  sorted?: 'always' | 'whole';
}

export type Columns<Item, Row extends Item = Item> = readonly Column<Item, Row>[];
