/** Counts the cells of closed lists that are not understood, by column and value. Repeats no digits of cards (R85). */
import { namedValue } from './texts.ts';

export interface NotUnderstood {
  /** The name in the header. */
  column: string;
  rows: number;
  /** The commonest values, at most five. A value that may hold digits of a card is not among them. */
  values: { value: string; rows: number }[];
}

const MAX_LISTED = 5;
/** The number of distinct values of a column that are counted one by one. */
const MAX_VALUES = 1_000;

export function createNotUnderstood() {
  const columns = new Map<string, { rows: number; values: Map<string, number> }>();
  return {
    add(column: string, text: string): void {
      let counts = columns.get(column);
      if (!counts) {
        counts = { rows: 0, values: new Map() };
        columns.set(column, counts);
      }
      const { values } = counts;
      counts.rows++;
      const value = values.has(text) ? text : namedValue(text);
      if (value !== undefined && (values.has(value) || values.size < MAX_VALUES))
        values.set(value, (values.get(value) ?? 0) + 1);
    },
    /** Returns the columns, the one with the most rows first. */
    list: (): NotUnderstood[] =>
      [...columns]
        .map(([column, { rows, values }]) => ({ column, rows, values: commonest(values) }))
        .sort((a, b) => b.rows - a.rows),
  };
}

function commonest(values: ReadonlyMap<string, number>): NotUnderstood['values'] {
  return [...values]
    .map(([value, rows]) => ({ value, rows }))
    .sort((a, b) => b.rows - a.rows)
    .slice(0, MAX_LISTED);
}

/** Describes the column in one sentence. */
export function describeNotUnderstood({ column, rows, values }: NotUnderstood): string {
  const inRows = `${rows.toLocaleString('en-GB')} ${rows === 1 ? 'row has' : 'rows have'}`;
  const listed = values.map(({ value, rows: count }) => `${value} (${count.toLocaleString('en-GB')})`).join(', ');
  return `column ${column}: ${inRows} a value that is not understood${listed && `, most often ${listed}`}`;
}
