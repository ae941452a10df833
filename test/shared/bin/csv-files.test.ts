/** The forms in which CSV files arrive, for the import and for `bin enrich`: encodings, separators, quotes. */
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { readDatasetStream } from '../../../src/shared/bin/dataset-file.ts';
import { describeFault } from '../../../src/shared/bin/row-fault.ts';
import { bin } from '../../support/bins.ts';
import { enrich } from '../../support/enriched.ts';

const HEADER = 'BIN,Brand,Type,Category,Issuer,IssuerPhone,IssuerUrl,isoCode2,isoCode3,CountryName';

async function read(content: string | Buffer, chunkSize = 7) {
  const bytes = Buffer.from(content);
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += chunkSize) yield bytes.subarray(at, at + chunkSize);
  }
  return readDatasetStream(chunks(), { source: 'set.csv', asOf: '2026-11-01' });
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
    ['UTF-16 of an odd length', utf16le(text).subarray(0, -1), /starts as UTF-16/],
    ['UTF-32', Buffer.from([0xff, 0xfe, 0, 0, 0x42, 0, 0, 0]), /has NUL characters/],
  ];
  test.each(refusals)('%s is refused with a command that converts it', async (_name, content, problem) => {
    const { dataset, problem: sentence } = await read(content);
    expect(dataset).toBeUndefined();
    expect(sentence).toMatch(problem);
    expect(sentence).toMatch(
      /^set\.csv .*Save it as “CSV UTF-8”, or convert it with `iconv -f \S+ -t UTF-8 OLD\.csv > NEW\.csv`/,
    );
    const { report, lookedUp } = await enrich(content, 'BIN');
    expect((report as Error).message).toMatch(problem);
    expect(lookedUp).toEqual([]);
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
    const { report: refusal } = await enrich(`${before}id${separator}bin\n1${separator}4571736012\n`);
    expect((refusal as Error).message).toMatch(`Line ${before ? 3 : 2},`);
  });

  test('the separator is the one with which the header has the columns, whatever else is in it', async () => {
    const columns = { start: 'low', country: 'iso' };
    async function* chunks() {
      yield Buffer.from('low;iso;bank, city, street, phone\n457173;DK;Jyske, Bank\n');
    }
    const about = { source: 's', asOf: '2026-11-01' };
    expect((await readDatasetStream(chunks(), about, { columns })).report).toMatchObject({ taken: 1 });
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
    const { report } = await enrich('bin\n457173"\n"457173\n');
    expect(report).toBeInstanceOf(Error);
    expect((await enrich('bin\n457173"\n45"71\n')).report).toMatchObject({ outcomes: { invalid_bin: 2 } });
    const { report: refusal } = await enrich('bin\n4111111111111111"5\n');
    expect((refusal as Error).message).toMatch(/^Line 2, column "bin": the value has more than 8 digits/);
    expect((refusal as Error).message).not.toContain('4111');
  });

  test('that opens a cell makes a bad row of the import, and is named by bin enrich before rows are joined', async () => {
    const rows = '457173,VISA,DEBIT,,"Joe,,,DK,,\n457174,VISA,DEBIT,,B "C",,,DK,,\n';
    expect((await read(`${HEADER}\n${rows}`)).report).toMatchObject({
      taken: 1,
      faults: [{ line: 2, reason: 'not_csv' }],
    });
    const { report } = await enrich('name,bin\nA,457170\n"Joe,457173\nB "C",457174\n');
    expect((report as Error).message).toMatch(/after line 2 has a quote that is not closed/);
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
    ['76', 'BR'],
    ['826', 'GB'],
    ['UK', 'GB'],
    ['el', 'GR'],
    ['XKX', 'XK'],
    ['XK', 'XK'],
    ['NA', 'NA'],
    ['nam', 'NA'],
  ])('%s is %s', async (code, alpha2) => expect(await countryOf(code)).toBe(alpha2));

  test.each(['QZ', 'QZZ', 'AN', 'ANT', '900', '0', '530', 'SU', 'Germany'])('%s is refused by name', async (code) => {
    const rows = `457173,VISA,DEBIT,,,,,${code},,\n457174,VISA,DEBIT,,,,,DK,,\n`;
    const { report } = await read(`${HEADER}\n${rows}`);
    expect(report?.faults).toMatchObject([{ line: 2, reason: 'country_unknown' }]);
    const [fault] = report?.faults ?? [];
    expect(fault && describeFault(fault).toLowerCase()).toContain(
      `the country “${code.padStart(code === '0' ? 3 : 1, '0').toLowerCase()}” is not in iso 3166-1`,
    );
  });

  test('R85: digits of a card in the column of countries are not repeated', async () => {
    const { report } = await read(`${HEADER}\n457173,VISA,DEBIT,,,,,4571736012345674,,\n457174,VISA,DEBIT,,,,,DK,,\n`);
    expect(report?.faults).toEqual([{ line: 2, reason: 'country_unknown' }]);
  });
});
