/** The forms in which CSV files arrive, for the import and for `bin enrich`: encodings, separators, quotes, headers. */
import { execFileSync } from 'node:child_process';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { readDatasetStream } from '../../../src/shared/bin/dataset-file.ts';
import { describeFault } from '../../../src/shared/bin/row-fault.ts';
import { bin } from '../../support/bins.ts';
import { enrich } from '../../support/enriched.ts';

const HEADER = 'BIN,Brand,Type,Category,Issuer,IssuerPhone,IssuerUrl,isoCode2,isoCode3,CountryName';

const ABOUT = { source: 'set.csv', asOf: '2026-11-01' };

async function read(content: string | Buffer, chunkSize = 7) {
  const bytes = Buffer.from(content);
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += chunkSize) yield bytes.subarray(at, at + chunkSize);
  }
  return readDatasetStream(chunks(), ABOUT);
}

const bankOf = async (content: Buffer, digits = '457173') =>
  (await read(content)).dataset?.find(bin(digits))?.record.bank?.name;

const utf16le = (text: string) => Buffer.from(`\ufeff${text}`, 'utf16le');
const utf16be = (text: string) => utf16le(text).swap16();

describe('encodings', () => {
  const text = `${HEADER}\r\n457173,VISA,DEBIT,,Banco Itaú Ş 銀行 😀,,,DK,,\r\n`;
  const forms: [string, Buffer][] = [
    ['UTF-8', Buffer.from(text)],
    ['UTF-8 with a byte order mark', Buffer.from(`\ufeff${text}`)],
    ['UTF-16, little endian', utf16le(text)],
    ['UTF-16, big endian', utf16be(text)],
    ['gzipped UTF-16', gzipSync(utf16le(text))],
  ];
  test.each(forms)('%s is imported', async (_name, content) => {
    expect(await bankOf(content)).toBe('Banco Itaú Ş 銀行 😀');
  });

  test.each([
    ['UTF-8', (text: string) => Buffer.from(`\ufeff${text}`)],
    ['UTF-16, little endian', utf16le],
    ['UTF-16, big endian', utf16be],
  ])('bin enrich returns the cells of a file in %s unchanged', async (_name, encoded) => {
    const { written } = await enrich(encoded('bin,name\n457173,Jürgen Ş 😀 \ufffd\n'));
    expect(written()).toContain('\n457173,Jürgen Ş 😀 \ufffd,visa,');
  });

  const name = (bytes: number[]) =>
    Buffer.concat([
      Buffer.from(`${HEADER}\n457173,VISA,DEBIT,,Banco Ita`),
      Buffer.from(bytes),
      Buffer.from(',,,DK,,\n'),
    ]);
  const refusals: [string, Buffer, RegExp][] = [
    ['Latin-1', name([0xfa]), /neither UTF-8 nor UTF-16/],
    ['Windows-1254', name([0xde, 0x20]), /neither UTF-8 nor UTF-16/],
    ['Shift JIS', name([0x8b, 0xe2, 0x8d, 0x73]), /neither UTF-8 nor UTF-16/],
    ['UTF-8 that is cut off in a character', Buffer.from(`${HEADER}\n457173,é`).subarray(0, -1), /neither UTF-8/],
    ['UTF-8 of half a character pair', name([0xed, 0xa0, 0x80]), /neither UTF-8 nor UTF-16/],
    ['UTF-16 without a byte order mark', utf16le(text).subarray(2), /has NUL characters/],
    ['UTF-32', Buffer.from([0xff, 0xfe, 0, 0, 0x42, 0, 0, 0]), /has NUL characters/],
  ];
  test.each(refusals)('%s is refused with a command that converts it', async (_name, content, problem) => {
    const { dataset, problem: sentence } = await read(content);
    expect(dataset).toBeUndefined();
    expect(sentence).toMatch(problem);
    expect(sentence).toMatch(
      /^set\.csv .*Save it as “CSV UTF-8”, or convert it with `iconv -f \S+ -t UTF-8 OLD\.csv > NEW\.csv`/,
    );
    const { error, lookedUp } = await enrich(content, 'BIN');
    expect(error?.message).toMatch(problem);
    expect(lookedUp).toEqual([]);
  });

  test.each([
    ['of an odd length', utf16le(text).subarray(0, -1)],
    ['with half a character pair', utf16le(text.replace('😀', '\ud83d'))],
  ])('UTF-16 %s is refused without a command, since none can convert it', async (_name, content) => {
    const advice = 'is damaged UTF-16. Export it again as “CSV UTF-8”.';
    expect((await read(content)).problem).toBe(`set.csv ${advice}`);
    expect((await enrich(content, 'BIN')).error?.message).toBe(advice);
  });

  test('a row in which an earlier conversion has lost a character is a bad row', async () => {
    const rows = '457173,VISA,DEBIT,,Banco Ita\ufffd,,,DK,,\n457174,VISA,DEBIT,,Itaú,,,BR,,\n';
    const { dataset, report } = await read(`${HEADER}\n${rows}`);
    expect(report).toMatchObject({ taken: 1, faults: [{ line: 2, reason: 'damaged_text' }] });
    expect(JSON.stringify(dataset?.packed.facts.texts)).not.toContain('\ufffd');
  });
});

describe('separators', () => {
  test.each([
    [',', ''],
    [';', ''],
    ['\t', ''],
    ['|', ''],
    [';', 'sep=;\r\n'],
    [';', '"sep=;"\r\n'],
    ['\t', 'sep=\t\n'],
    [',', 'SEP=,\n'],
  ])('%j, after %j', async (separator, before) => {
    const header = HEADER.replaceAll(',', separator);
    const cells = ['457173', 'VISA', 'DEBIT', '', `"A${separator} B, C; D"`, '', '', 'DK', '', ''];
    const bad = ['457174', 'VISA', 'DEBIT', '', '', '', '', 'QZ', '', ''];
    const content = `${before}${header}\r\n${cells.join(separator)}\r\n${bad.join(separator)}\r\n`;
    const { dataset, report } = await read(content);
    expect(report).toMatchObject({
      taken: 1,
      faults: [{ line: before ? 4 : 3, reason: 'country_unknown', value: 'QZ' }],
    });
    expect(dataset?.find(bin('457173'))?.record).toMatchObject({
      country: { alpha2: 'DK' },
      bank: { name: `A${separator} B, C; D`.replace(/\s+/g, ' ') },
    });

    const { written } = await enrich(`${before}id${separator}bin\n"a${separator}b"${separator}457173\n`);
    const [writtenHeader, row] = written().split('\n');
    expect(writtenHeader).toMatch(`id${separator}bin${separator}bin_scheme${separator}bin_type`);
    expect(row).toMatch(`"a${separator}b"${separator}457173${separator}visa${separator}debit${separator}`);
    const { error } = await enrich(`${before}id${separator}bin\n1${separator}4571736012\n`);
    expect(error?.message).toMatch(`Line ${before ? 3 : 2},`);
  });

  test('the separator is the one with which the header has the columns, whatever else is in it', async () => {
    const columns = { start: 'low', country: 'iso' };
    async function* chunks() {
      yield Buffer.from('low;iso;bank, city, street, phone\n457173;DK;Jyske, Bank\n');
    }
    expect((await readDatasetStream(chunks(), ABOUT, { columns })).report).toMatchObject({ taken: 1 });
    expect((await enrich('a,b,c,d;bin\nx,y,z;457173\n')).report).toMatchObject({ rows: 1 });
  });
});

describe('a stray quote', () => {
  test.each(['John "Joe" Smith', '"Joe" Smith', 'Smith "Joe"', '5" disk', 'Banco "A"B'])(
    'in %s stops neither the import nor bin enrich',
    async (name) => {
      const rows = `457173,VISA,DEBIT,,${name},,,DK,,\n457174,VISA,DEBIT,,Next,,,DK,,\n`;
      const { dataset, report } = await read(`${HEADER}\n${rows}`);
      expect(report).toMatchObject({ taken: 2, skipped: 0 });
      expect(dataset?.find(bin('457173'))?.record.bank?.name).toBe(name);

      const { written, report: enriched } = await enrich(`name,bin\n${name},457173\nNext,457174\n`);
      expect(enriched).toMatchObject({ rows: 2 });
      expect(written()).toContain(`\n"${name.replaceAll('"', '""')}",457173,visa,`);
    },
  );

  test('R85: in the column of BINs is an invalid BIN, and a card number with one is named by its line', async () => {
    expect((await enrich('bin\n457173"\n"457173\n')).error).toBeInstanceOf(Error);
    expect((await enrich('bin\n457173"\n45"71\n')).report).toMatchObject({ outcomes: { invalid_bin: 2 } });
    const { error } = await enrich('bin\n4111111111111111"5\n');
    expect(error?.message).toMatch(/^Line 2, column "bin": the value has more than 8 digits/);
    expect(error?.message).not.toContain('4111');
  });

  test('that opens a cell makes a bad row of the import, and is named by bin enrich before rows are joined', async () => {
    const rows = '457173,VISA,DEBIT,,"Joe,,,DK,,\n457174,VISA,DEBIT,,B "C",,,DK,,\n';
    expect((await read(`${HEADER}\n${rows}`)).report).toMatchObject({
      taken: 1,
      faults: [{ line: 2, reason: 'not_csv' }],
    });
    const { error } = await enrich('name,bin\nA,457170\n"Joe,457173\nB "C",457174\n');
    expect(error?.message).toMatch(/after line 2 has a quote that is not closed/);
  });
});

describe('countries', () => {
  const countryOf = async (code: string) =>
    (await read(`${HEADER}\n457173,VISA,DEBIT,,,,,${code},,\n`)).dataset?.find(bin('457173'))?.record.country?.alpha2;

  test.each([
    ['36', 'AU'],
    ['036', 'AU'],
    ['8', 'AL'],
    ['008', 'AL'],
    ['08', 'AL'],
    ['0826', 'GB'],
    ['76', 'BR'],
    ['826', 'GB'],
    ['UK', 'GB'],
    ['el', 'GR'],
    ['XKX', 'XK'],
    ['XK', 'XK'],
    ['NA', 'NA'],
    ['nam', 'NA'],
  ])('%s is %s', async (code, alpha2) => expect(await countryOf(code)).toBe(alpha2));

  test.each(['QZ', 'QZZ', 'AN', 'ANT', '900', '0', '530', 'SU', 'Germany', 'A$&', 'A$`'])(
    '%s is refused by name',
    async (code) => {
      const rows = `457173,VISA,DEBIT,,,,,${code},,\n457174,VISA,DEBIT,,,,,DK,,\n`;
      const { report } = await read(`${HEADER}\n${rows}`);
      expect(report?.faults).toMatchObject([{ line: 2, reason: 'country_unknown' }]);
      const [fault] = report?.faults ?? [];
      expect(fault && describeFault(fault).toLowerCase()).toContain(
        `the country “${code.toLowerCase()}” is not in iso 3166-1`,
      );
    },
  );

  test('R85: digits of a card in the column of countries are not repeated', async () => {
    const { report } = await read(`${HEADER}\n457173,VISA,DEBIT,,,,,4571736012345674,,\n457174,VISA,DEBIT,,,,,DK,,\n`);
    expect(report?.faults).toEqual([{ line: 2, reason: 'country_unknown' }]);
  });
});

describe('files of another format are named', () => {
  const zip = Buffer.from([0x50, 0x4b, 3, 4, 20, 0, 6, 0, 8, 0, 0, 0]);
  test.each<[string, Buffer | string, RegExp]>([
    ['xlsx', zip, /is an Excel workbook \(\.xlsx\), .* Save the sheet as “CSV UTF-8”/],
    ['gzipped xlsx', gzipSync(zip), /is an Excel workbook \(\.xlsx\)/],
    ['xls', Buffer.from('d0cf11e0a1b11ae1', 'hex'), /is an old Excel workbook \(\.xls\)\. Save the sheet/],
    ['an array in JSON', '[\n  {"bin": "457173"}\n]', /is JSON\. Convert it to CSV/],
    ['an object in JSON', '\ufeff{ "457173": {} }', /is JSON\. Convert it to CSV/],
    ['JSON in UTF-16', utf16le('[{"bin": 457173}]'), /is JSON\. Convert it to CSV/],
    ['lines of JSON', '{"bin":"457173"}\n{"bin":"457174"}\n', /is JSON\. Convert it to CSV/],
    ['a page', '\n<!DOCTYPE html><html>', /is HTML or XML\. Download the CSV file itself/],
    [
      'bzip2',
      Buffer.from('425a6839314159265359a1b2c3d4', 'hex'),
      /is compressed in another way than with gzip\. Unpack it/,
    ],
    ['xz', Buffer.from('fd377a585a000004e6d6b446', 'hex'), /is compressed in another way/],
    ['Zstandard', Buffer.from('28b52ffd2400010000ffee', 'hex'), /is compressed in another way/],
    ['7-Zip', Buffer.from('377abcaf271c0004ffee', 'hex'), /is compressed in another way/],
    ['RAR', Buffer.from('526172211a0701004ffee0', 'hex'), /is compressed in another way/],
    ['gzip in gzip', gzipSync(gzipSync('bin\n457173\n')), /is compressed twice\. Unpack it/],
    ['a database', 'SQLite format 3\0', /is a database of SQLite\. Export the table as CSV/],
    [
      'lines of old Macs',
      `${HEADER}\r457173,VISA,DEBIT,,,,,DK,,\r`,
      /ends its lines with CR alone\. Convert it with `tr /,
    ],
    ['a pointer', 'version https://git-lfs.github.com/spec/v1\noid x\n', /is a pointer of Git LFS/],
  ])('%s', async (_name, content, problem) => {
    expect((await read(content)).problem).toMatch(problem);
    if (_name.startsWith('gzip')) return;
    expect((await enrich(content, 'BIN')).error?.message).toMatch(problem);
  });
});

describe('what a spreadsheet has spoiled', () => {
  const good = ['457173', '457174', '457175'].map((digits) => `${digits},VISA,DEBIT,,,,,DK,,`);
  test.each([
    ['10309', 'leading_zeros_lost'],
    ['309', 'leading_zeros_lost'],
    ['457176.0', 'spreadsheet_number'],
    ['45717360.00', 'spreadsheet_number'],
    ['4.57E+07', 'spreadsheet_number'],
    ['4e+05', 'spreadsheet_number'],
    ['"4,57E+07"', 'spreadsheet_number'],
    ['"457,176"', 'spreadsheet_number'],
    ['45.717.360', 'spreadsheet_number'],
    ["'457176", 'spreadsheet_number'],
    ['="457176"', 'spreadsheet_number'],
    ['"4,57,176"', 'spreadsheet_number'],
    ['"4,57,17,360"', 'spreadsheet_number'],
    ['457\u2009176', 'spreadsheet_number'],
    ['2/9/3151', 'spreadsheet_number'],
    ['3151-09-02', 'spreadsheet_number'],
    ['02.09.3151 00:00', 'spreadsheet_number'],
    ['2-Sep-51', 'spreadsheet_number'],
    ['Sep-51', 'spreadsheet_number'],
    ['########', 'spreadsheet_number'],
    ['"$457,176.00"', 'spreadsheet_number'],
    ['45717600%', 'spreadsheet_number'],
    ['45717X', 'not_6_to_11_digits'],
  ])('%s is a bad row: %s', async (digits, reason) => {
    const { report } = await read([HEADER, ...good, `${digits},VISA,DEBIT,,,,,DK,,`, ''].join('\n'));
    expect(report).toMatchObject({ taken: 3, faults: [{ line: 5, reason }] });
  });

  const ranges = async (...limits: string[]) => {
    const columns = { start: 'low', end: 'high', country: 'iso' };
    const rows = limits.map((pair) => `${pair.replace('-', ',')},DK`);
    return readDatasetStream(Readable.from([Buffer.from(['low,high,iso', ...rows, ''].join('\n'))]), ABOUT, {
      columns,
    });
  };

  test.each([
    ['BINs of 8 digits', '1030900-1030999', ['45717300-45717399', '45717400-45717499']],
    ['account ranges', '1030900000-1030999999', ['45717300000-45717399999', '45717400000-45717499999']],
    [
      'padded account ranges',
      '103090000000000000-103099999999999999',
      ['4571730000000000000-4571739999999999999', '4571740000000000000-4571749999999999999'],
    ],
  ])('a range of %s has lost a zero if it is a digit shorter than more of the others', async (_name, short, others) => {
    const { report } = await ranges(others[0] ?? '', short, others[1] ?? '');
    expect(report).toMatchObject({ taken: 2, faults: [{ line: 3, reason: 'leading_zeros_lost' }] });
    expect((await ranges(short, short, others[0] ?? '')).report).toMatchObject({ taken: 3, skipped: 0 });
  });

  test('ranges of 15 digits, as American Express has, have lost none among those of 16', async () => {
    const others = ['4571730000000000-4571739999999999', '4571740000000000-4571749999999999'];
    expect((await ranges('371000000000000-371099999999999', ...others)).report).toMatchObject({ taken: 3, skipped: 0 });
  });

  test('countries as numbers may have lost zeros', async () => {
    const rows = ['457173,,,,,,,36,036,', '457174,,,,,,,076,76,', '457175,,,,,,,8,ALB,'];
    const { dataset, report } = await read([HEADER, ...rows, ''].join('\n'));
    expect(report).toMatchObject({ taken: 3, skipped: 0 });
    const countries = ['457173', '457174', '457175'].map(
      (digits) => dataset?.find(bin(digits))?.record.country?.alpha2,
    );
    expect(countries).toEqual(['AU', 'BR', 'AL']);
  });

  test('bin enrich names numbers that have lost zeros', async () => {
    const { report, written } = await enrich('id;bin\n1;457173\n2;10309\n3;7\n');
    expect(report?.outcomes).toEqual({ dataset: 1, leading_zeros_lost: 2 });
    expect(written()).toMatch(/\n2;10309;.*;leading_zeros_lost\n3;7;.*;leading_zeros_lost\n$/);
  });

  test('bin enrich stops before the lookup at a number of 7 digits if more of the others have 8', async () => {
    const { error, lookedUp } = await enrich('id;bin\n1;45717360\n2;1030912\n3;45717361\n');
    expect(error?.message).toBe(
      'Line 3, column "bin": the number has 7 digits and most others have 8, so it seems to have lost a leading zero. Format the column as text, export the file again, and start again.',
    );
    expect(lookedUp).toEqual([]);
    expect((await enrich('bin\n4571736\n4571737\n45717361\n457173\n')).report).toMatchObject({ rows: 4 });
  });

  test('a number of 7 digits has lost a zero if more of the others have 8', async () => {
    const rows = (...numbers: string[]) => [HEADER, ...numbers.map((digits) => `${digits},,,,,,,DK,,`), ''].join('\n');
    const { dataset, report } = await read(rows('1030912', '45717360', '45717361'));
    expect(report).toMatchObject({ taken: 2, faults: [{ line: 2, reason: 'leading_zeros_lost' }] });
    expect(dataset?.find(bin('1030912'))).toBeUndefined();
    expect((await read(rows('4571731', '4571732', '457174', '45717360'))).report).toMatchObject({
      taken: 4,
      skipped: 0,
    });
  });

  test.each([
    '45717360.0',
    '457173.0',
    '4.57E+07',
    '4,57E+07',
    "'457173",
    '="457173"',
    '3151-09-02 00:00:00',
    '4 57 173',
  ])('bin enrich stops at %s, and says what to do', async (value) => {
    const { error, lookedUp } = await enrich(`id;bin\n1;457173\n2;${value}\n`);
    expect(error?.message).toBe(
      'Line 3, column "bin": a spreadsheet has changed the number, such as to 45717360.0 or 4.57E+07. Format the column as text, export the file again, and start again.',
    );
    expect(lookedUp).toEqual([]);
  });

  test.each([
    '4571736012345674.0',
    '4.57173601234567E+15',
    '457,173,601,234,567',
    "'4571736012345674",
    '45,71,73,60,12,34,567',
    '4571736012345674%',
  ])('R85: %s is taken for a card number', async (value) => {
    const { error } = await enrich(`id;bin\n1;457173\n2;${value}\n`);
    expect(error?.message).toMatch(/^Line 3, column "bin": the value has more than 8 digits/);
  });
});

describe('headers', () => {
  const problemOf = async (content: string) => (await read(content)).problem;

  /** Runs the command that the problem recommends, and returns the new file. */
  function runCommand(problem: string | undefined, input: string): string {
    const command = /TR: `(.*) OLD\.csv > NEW\.csv`/.exec(problem ?? '')?.[1] ?? '';
    return execFileSync('sh', ['-c', command], { input, encoding: 'utf8' });
  }

  test('a header that lacks columns is told which, and which it has', async () => {
    expect(await problemOf('bin;brand;type;category;issuer\n457173;VISA;DEBIT;;A\n')).toMatch(
      /^set\.csv lacks the column isocode2 of the format bin-list-data\. Its columns are: bin, brand, type, category, issuer\. If all rows are of one country, add the column with its code, such as TR: `awk '\{ sub\(\/\\r\$\/, ""\); print \$0 \(NR == 1 \? ";isocode2" : ";TR"\) \}' OLD\.csv > NEW\.csv`\. For another header, use --columns/,
    );
    expect(await problemOf('iin_start,iin_end,bank\n457173,457173,A\n')).toMatch(
      /^set\.csv lacks the columns scheme, country of the format binlist ranges\. Its columns are: iin_start, iin_end, bank\. For/,
    );
    expect(await problemOf('a,b\n1,2\n')).toMatch(
      /^The first line of set\.csv is not the header of a known data set\. Its columns are: a, b\. Known headers: binlist ranges .*use --columns/,
    );
  });

  test.each([
    [';', ''],
    ['\t', ''],
    [';', 'sep=;\r\n'],
  ])('the command adds the column of the country, separated by %j, after %j', async (separator, before) => {
    const lines = ['bin;brand;type;category;issuer', '457173;VISA;DEBIT;;A', '457174;VISA;DEBIT;;B', ''];
    const input = before + lines.join('\r\n').replaceAll(';', separator);
    const output = runCommand(await problemOf(input), input);
    const { dataset, report } = await read(output);
    expect(report).toMatchObject({ taken: 2, skipped: 0 });
    expect(dataset?.find(bin('457174'))?.record).toMatchObject({ country: { alpha2: 'TR' }, bank: { name: 'B' } });
  });

  test.each([
    ['bin,brand,type,isocode2,isoCode2', '457173,VISA,DEBIT,US,DK', 'isocode2'],
    ['bin,BIN ,brand,type,alpha_2', '457173,457174,VISA,DEBIT,US', 'bin'],
    ['bin,brand,type,brand,alpha_2', '457173,VISA,DEBIT,GOLD,US', 'brand'],
  ])('of %s is refused, since two columns have one name', async (header, row, name) => {
    expect(await problemOf(`${header}\n${row}\n`)).toBe(
      `set.csv has the column ${name} more than once. Keep one of them, or give the others different names.`,
    );
    expect(
      (await read(`${header.replaceAll(/,brand(?=,alpha)|,BIN |,isoCode2/g, ',x')}\n${row}\n`)).problem,
    ).toBeUndefined();
  });

  test.each(['^', ':', ' '])('of cells separated by %j names the separators', async (separator) => {
    expect(await problemOf(HEADER.replaceAll(',', separator))).toContain(
      'Its first line is a single cell. Separate the columns with a comma, semicolon, tab or |, and do not put whole lines in quotes.',
    );
  });

  test('the command adds a column whose name has characters of the shell', async () => {
    const input = 'low,bank\n457173,A\n';
    const columns = { start: 'low', country: `the $(id) bank's "a\\b/c&d" \`id\`` };
    const { problem } = await readDatasetStream(Readable.from([Buffer.from(input)]), ABOUT, { columns });
    expect(runCommand(problem, input)).toBe(`low,bank,${columns.country}\n457173,A,TR\n`);
  });

  test('the rows after a header that is not valid CSV are all read', async () => {
    const rows = '457173,VISA,DEBIT,,A,,,DK,,\n457174,VISA,DEBIT,,B,,,DK,,\n';
    for (const header of [`\n\n${HEADER},\ufffd`, `${HEADER},"a\nb"`, `${HEADER}${',x'.repeat(40_000)}`]) {
      const { dataset, report } = await read(`${header}\n${rows}`, 65_536);
      expect(report?.taken).toBe(2);
      expect(dataset?.find(bin('457173'))?.record.bank?.name).toBe('A');
    }
  });

  test('R85: a file without a header is recognised, and its digits are not repeated', async () => {
    for (const start of ['457173', '4571736012345674', '4571 7360 1234 5674']) {
      const problem = await problemOf(`${start},VISA,DEBIT,DK\n457174,VISA,DEBIT,DK\n`);
      expect(problem).toMatch(/has no header|\(not shown\)/);
      expect(problem).not.toMatch(/4571/);
    }
  });

  test('an empty file, and one without rows', async () => {
    expect(await problemOf('')).toMatch(/^set\.csv is empty.* The first line must name the columns/);
    expect(await problemOf(`${HEADER}\n`)).toMatch(/^set\.csv has no row after its header\. Check/);
  });

  test('bin enrich lists the columns that it has found', async () => {
    expect((await enrich('id;number;;\n1;457173\n')).error?.message).toBe(
      'No column is named "bin". The first line has: id, number. Use one of these with --column.',
    );
  });

  test('of many columns, forty are listed', async () => {
    const header = Array.from({ length: 10_000 }, (_, at) => `c${at % 1000}`).join();
    const listed = /c0, c1, .*, c39, and 9,960 more\./;
    expect(await problemOf(`${header}\n`)).toMatch(listed);
    expect((await enrich(`${header}\n`)).error?.message).toMatch(listed);
  });

  test('R85: bin enrich repeats nothing of a file without a header', async () => {
    for (const row of ['457173,Ann Example', 'Ann Example,4571736012345674']) {
      const { error } = await enrich(`${row}\n`);
      expect(error?.message).toMatch(/^The file has no header: its first line holds numbers\. Add a first line/);
    }
    const { error } = await enrich('4,571,736,012,345,674\n');
    expect(error?.message).not.toMatch(/571|736/);
    expect(await problemOf('4,571,736,012,345,674\n')).not.toMatch(/571|736/);
  });
});

test('if every row is left out, each reason stands there with a line, and what to do', async () => {
  const cells = (digits: string, country: string) => `${digits},VISA,DEBIT,,,,,${country},,`;
  const rows = [
    cells('457173', 'Germany'),
    cells('457174', 'France'),
    cells('10309', 'DK'),
    cells('457175', ''),
    '457176',
  ];
  expect((await read([HEADER, ...rows, ''].join('\n'))).problem).toBe(
    [
      'set.csv has no usable row: all 5 were left out.',
      '2 rows, such as line 2: the country “GERMANY” is not in ISO 3166-1: enter the code of a country, or remove the row.',
      '1 row, such as line 4: the number has fewer digits than others, so it seems to have lost leading zeros: format the column as text and export it again.',
      '1 row, such as line 5: the country is missing: enter its code.',
      '1 row, such as line 6: it has fewer cells than the header has columns: add the missing ones.',
    ].join(' '),
  );
});

describe('a row that does not fit its header', () => {
  const BINLIST_DATA = 'bin,brand,type,category,issuer,alpha_2,alpha_3,country,latitude,longitude,bank_phone,bank_url';
  const good = '457173,VISA,DEBIT,,A,DK,DNK,Denmark,56,10,,';

  test.each([
    [
      'an unquoted comma in the name',
      '457174,VISA,DEBIT,X,BANK, NA,US,USA,United States,38,-97,,bank.example',
      'too_many_columns',
    ],
    ['a cell beyond the header', `${good.replace('457173', '457174')},x`, 'too_many_columns'],
    ['the country is cut off', '457174,VISA,DEBIT,X,BANK', 'too_few_columns'],
    [
      'an unquoted comma, and empty cells cut off',
      '457174,VISA,DEBIT,X,BANK, NA,US,USA,United States',
      'countries_differ',
    ],
    ['an unquoted comma, and just as many cells', '457174,VISA,DEBIT,X,BANK, SA,CL,CHL,Chile,,,', 'countries_differ'],
    ['a missing cell', '457174,VISA,DEBIT,BANK,US,USA,United States,38,-97,,', 'too_few_columns'],
    ['two countries', '457174,VISA,DEBIT,X,BANK,US,CHL,Chile,,,,', 'countries_differ'],
  ])('%s: a bad row', async (_name, row, reason) => {
    const { dataset, report } = await read([BINLIST_DATA, good, row, ''].join('\n'));
    expect(report).toMatchObject({ taken: 1, faults: [{ line: 3, reason }] });
    expect(dataset?.find(bin('457174'))).toBeUndefined();
  });

  test.each([
    ['empty cells beyond the header', '457174,VISA,DEBIT,,BANK,US,USA,United States,38,-97,,,,'],
    ['trailing empty cells that are cut off', '457174,VISA,DEBIT,,BANK,US'],
    ['another code for the same country', '457174,VISA,DEBIT,,BANK,US,840,,,,,'],
    ['a third code that is no country', '457174,VISA,DEBIT,,BANK,US,-,,,,,'],
  ])('%s are no fault', async (_name, row) => {
    const { dataset, report } = await read([BINLIST_DATA, good, row, ''].join('\n'));
    expect(report).toMatchObject({ taken: 2, skipped: 0 });
    expect(dataset?.find(bin('457174'))?.record).toMatchObject({ country: { alpha2: 'US' }, bank: { name: 'BANK' } });
  });

  test('the columns of another file: only those of the range and the country are needed', async () => {
    const columns = { start: 'low', end: 'high', country: 'iso', bank: 'issuer' };
    async function* chunks() {
      yield Buffer.from('low,high,iso,issuer,note\n457173,457173,DK\n457174,457174\n457175,457175,DK,A,,x\n');
    }
    const { report } = await readDatasetStream(chunks(), ABOUT, { columns });
    expect(report).toMatchObject({
      taken: 1,
      faults: [
        { line: 3, reason: 'too_few_columns' },
        { line: 4, reason: 'too_many_columns' },
      ],
    });
  });
});
