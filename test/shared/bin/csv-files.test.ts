/** The forms in which CSV files arrive, for the import and for `bin enrich`: encodings. */
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { readDatasetStream } from '../../../src/shared/bin/dataset-file.ts';
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
