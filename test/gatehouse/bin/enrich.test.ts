/** The enrichment of CSV files as a stream, and the refusal of columns that hold card numbers. */
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AppError } from '../../../src/shared/errors.ts';
import { withCheckDigit } from '../../support/bins.ts';
import { enrich, FOUND } from '../../support/enriched.ts';

const ADDED =
  'bin_scheme,bin_type,bin_brand,bin_prepaid,bin_country,bin_bank,bin_source,bin_as_of,bin_digits_matched,bin_problem';

const detailOf = (error: Error | undefined) => (error instanceof AppError ? error.detail : undefined);

describe('rows', () => {
  test('are returned in order with their facts, or their problem', async () => {
    const { report, lookedUp, written } = await enrich(
      '\ufeffid,BIN,note\r\n1,457173,"x, ""y""\nz"\r\n2,990000,\r\n3,,\r\n4,45 71 73,a\r\n5, 45717360 ,b\r\n6,400000\r\n',
    );
    expect(report).toEqual({ rows: 6, outcomes: { dataset: 3, bin_not_found: 1, invalid_bin: 2 } });
    expect(lookedUp).toEqual([['457173', '990000', '45717360', '400000']]);
    const facts = 'visa,debit,,false,DK,"A, ""B""",dataset,2026-01-02,6,';
    expect(written()).toBe(
      [
        `id,BIN,note,${ADDED}`,
        `1,457173,"x, ""y""\nz",${facts}`,
        '2,990000,,,,,,,,,,,bin_not_found',
        '3,,,,,,,,,,,,invalid_bin',
        '4,45 71 73,a,,,,,,,,,,invalid_bin',
        `5, 45717360 ,b,${facts}`,
        `6,400000,,${facts}`,
        '',
      ].join('\n'),
    );
  });

  test('are looked up a thousand at a time', async () => {
    const lines = function* () {
      yield 'bin\n';
      for (let row = 0; row < 12_345; row++) yield `${400_000 + row}\n`;
    };
    const { report, lookedUp, written } = await enrich(lines());
    expect(report).toEqual({ rows: 12_345, outcomes: { dataset: 12_345 } });
    expect([lookedUp.length, Math.max(...lookedUp.map((bins) => bins.length))]).toEqual([13, 1_000]);
    expect(written().split('\n')).toHaveLength(12_347);
  });

  test('keep their cells unchanged', async () => {
    const cell = fc.string({ unit: fc.constantFrom('a', '"', ',', '\n', ' ', 'ø', '=') });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(cell, cell), { minLength: 1, maxLength: 5 }), async (rows) => {
        const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;
        const csv = rows.map(([first, last]) => `${quoted(first)},400000,${quoted(last)}\n`).join('');
        const { written } = await enrich(`first,bin,last\n${csv}`);
        const [, ...writtenRows]: string[][] = parse(written());
        expect(writtenRows.map((cells) => [cells[0], cells[2]])).toEqual(rows);
      }),
      { numRuns: 50 },
    );
  });

  test('may end in empty cells', async () => {
    const { report, written } = await enrich('id,bin\n1,400000,,\n');
    expect(report).toMatchObject({ rows: 1 });
    expect(written()).toContain('\n1,400000,visa,');
  });

  test('carry no text that a spreadsheet would run', async () => {
    const formulas = { ...FOUND, record: { brand: '=1+1', bank: { name: '@SUM(A1)' } } };
    expect((await enrich('bin\n400000\n', 'bin', formulas)).written()).toContain(",'=1+1,,,'@SUM(A1),");
  });
});

describe('R85 R86', () => {
  const cardNumber = withCheckDigit('457173601234567');
  const digitsFrom = (zero: number) =>
    [...cardNumber].map((digit) => String.fromCharCode(zero + Number(digit))).join('');
  const notations = {
    digits: cardNumber,
    spaces: `${cardNumber.slice(0, 4)} ${cardNumber.slice(4, 8)} ${cardNumber.slice(8, 12)} ${cardNumber.slice(12)}`,
    hyphen: `${cardNumber.slice(0, 6)}-${cardNumber.slice(6)}`,
    'nine digits': '457173601',
    exponent: '4.571736E8 45717360',
    'full-width': digitsFrom(0xff10),
    'Arabic-Indic': digitsFrom(0x0660),
  };

  test.each(Object.entries(notations))(
    'a card number in notation "%s" stops the work before the batch is looked up; the error has only the line and the column',
    async (_name, form) => {
      const rows = Array.from({ length: 1_500 }, (_, row) => `${400_000 + row},x`);
      rows.push(`${form},x`, '410000,x');
      const { error, lookedUp } = await enrich(`Card,note\n${rows.join('\n')}\n`, 'card');
      expect(error).toMatchObject({ code: 'invalid_request' });
      expect(detailOf(error)).toMatch(/^Line 1502, column "card": the value has more than 8 digits/);
      expect(detailOf(error)).not.toContain(form.slice(0, 4));
      expect(lookedUp).toHaveLength(1);
      expect(lookedUp.flat().join(' ')).not.toMatch(/\d{9}/);
    },
  );

  test.each(Object.entries(notations))(
    'a card number in notation "%s" as a column name is refused, and the error does not contain it',
    async (_name, form) => {
      for (const column of [form, 'bin']) {
        const { error, written } = await enrich(`id,${form}\n1,400000\n`, column);
        expect(detailOf(error)).toMatch(/card number|No column|no header/);
        expect(`${detailOf(error)}${written()}`).not.toContain(form.slice(0, 4));
      }
    },
  );
});

describe('files that cannot be enriched', () => {
  test.each([
    ['no column with the name', 'a,b\n1,2\n', /No column is named "bin"/],
    ['two columns with the name', 'bin,BIN\n400000,400000\n', /Several columns/],
    ['facts of an earlier run', 'bin,bin_bank\n400000,x\n', /earlier enrichment/],
    ['no content', '', /empty/],
    [
      'a row with more cells than columns',
      'a,bin\n1,400000,\n2,400000,x\n',
      /^Line 3 has more cells than the first line/,
    ],
    ['a quote that never ends', `bin\n"400000\n${'x'.repeat(2_000_000)}`, /line \d+ cannot be read as CSV/],
  ])('%s', async (_name, csv, problem) => {
    const { error, lookedUp } = await enrich(csv);
    expect(detailOf(error)).toMatch(problem);
    expect(lookedUp).toEqual([]);
  });
});
