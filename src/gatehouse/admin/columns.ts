/** Columns of lists. Each has a value for the CSV export and a cell for the page. */
import type { Tone } from '../../shared/pages/words.ts';

/** The views that cells can include, with their data. Each resource adds its own. */
export interface CellViews {
  '/admin/parts/expiry': { token: { state: string; expiresAt: string | null } };
  '/admin/parts/user-link': { id: string; name?: string | undefined; email?: string | undefined };
}
type ViewCell = {
  [Name in keyof CellViews]: { view: Name; data: CellViews[Name]; isCut?: boolean };
}[keyof CellViews];

/** A cell, as `admin/parts/cell` draws it. */
export type Cell =
  /** Text that is cut off if it does not fit. */
  | { text: string }
  /** A short fixed text. `title` is its tooltip. */
  | { words: string; title?: string; remark?: string | undefined }
  /** A time relative to now. `fallback` replaces a missing time; `remark` follows it. */
  | { time: string | null | undefined; fallback?: string; remark?: string | undefined }
  | { status: Tone; words: string; icon?: string; title?: string }
  /** The first characters of an id, and a button that copies all of it. `label` names it, such as "token ID". */
  | { id: string; label: string }
  /** A link to a page below `/admin`. `remark` follows it, such as "you". */
  | { path: string; text: string; title?: string; remark?: string | undefined }
  | { path: string; words: string }
  | { path: string; code: string }
  /** A link to the same list with only this filter. */
  | { filter: string; value: string; text: string; title: string }
  | ViewCell;

export type CsvValue = string | number | boolean | null | undefined;

/** A column without `csv` is not exported; one without `cell` is not on the page. */
export interface Column<Item, Row extends Item = Item> {
  name: string;
  /** Returns the value for the export. Times have the same form as in JSON. */
  csv?: (item: Item) => CsvValue;
  /** Returns the cell for the page. An undefined cell is empty. */
  cell?: (row: Row) => Cell | undefined;
  /** A class in `lists.css`, without its prefix `list-`. */
  width?: 'ago' | 'cause' | 'health' | 'id' | 'state' | 'states' | 'time' | 'wide';
  /** Aligns the cell to the right. */
  isNumber?: boolean;
  /** Text before the cell on narrow screens, which show no headings. */
  label?: string | ((row: Row) => string);
  /** Drawn as a second line below the cell of the column before it, without a column of its own. */
  isBelow?: boolean;
  /** Hidden where there is little room; as a function, only on narrow screens. */
  isWideOnly?: boolean | ((row: Row) => boolean);
  /** Uses the full width of a narrow screen. */
  isText?: boolean;
  /** The list is sorted by this column, newest first: always, or only without search and filters. */
  sorted?: 'always' | 'whole';
}

export type Columns<Item, Row extends Item = Item> = readonly Column<Item, Row>[];
