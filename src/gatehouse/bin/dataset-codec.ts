/** Encodes a data set for the store: a gzipped block with a JSON header and arrays of 32-bit numbers. */
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { createGzip, gunzip } from 'node:zlib';
import type { Coverage, DatasetAbout, PackedDataset } from '../../shared/bin/dataset.ts';

/** A program refuses a data set of another format. A new column of facts needs no new format. */
const FORMAT = 2;
const WORD = 4;
const MAX_BYTES = 256 * 1024 * 1024;

interface Header extends DatasetAbout {
  format: number;
  size: number;
  coverage: Coverage;
  tables: { digits: number; exact?: boolean; segments: number }[];
  cells: number;
  columns: number;
  texts: string[];
}

const unpack = promisify(gunzip);

/** The stored bytes of a data set, with its description. */
export interface EncodedDataset extends DatasetAbout {
  /** Number of entries. */
  size: number;
  bytes: Uint8Array;
}

export async function encodeDataset(dataset: PackedDataset): Promise<EncodedDataset> {
  const { source, asOf, licence, size, coverage, tables, facts } = dataset;
  const header: Header = {
    format: FORMAT,
    source,
    asOf,
    licence,
    size,
    coverage,
    tables: tables.map(({ starts, owners: _owners, ...table }) => ({ ...table, segments: starts.length })),
    cells: facts.cells.length,
    columns: facts.columns,
    texts: [...facts.texts],
  };
  const json = Buffer.from(JSON.stringify(header));
  const words = Math.ceil(json.length / WORD);
  const arrays = [...tables.flatMap(({ starts, owners }) => [starts, owners]), facts.cells];
  const padding = Buffer.alloc(words * WORD - json.length, ' ');
  const parts = [bytesOf(Uint32Array.of(words)), json, padding, ...arrays.map(bytesOf)];
  // Compressed part by part, because together they can have a hundred megabytes.
  const bytes = await buffer(Readable.from(parts).pipe(createGzip()));
  return { source, asOf, licence, size, bytes };
}

/** Rejects if the data is damaged or of another format. */
export async function decodeDataset(packed: Uint8Array): Promise<PackedDataset> {
  const bytes = await unpack(packed, { maxOutputLength: MAX_BYTES });
  let at = 0;
  const take = (count: number): Uint32Array => {
    const start = bytes.byteOffset + at * WORD;
    at += count;
    if (at * WORD > bytes.length) throw new TypeError('The stored BIN data set ends too early.');
    // Uses the unpacked bytes in place if possible, because copies would double the memory needed.
    return start % WORD === 0
      ? new Uint32Array(bytes.buffer, start, count)
      : new Uint32Array(bytes.buffer.slice(start, start + count * WORD));
  };
  const [words = 0] = take(1);
  const { buffer, byteOffset, byteLength } = take(words);
  const header: Header = JSON.parse(Buffer.from(buffer, byteOffset, byteLength).toString());
  if (header.format !== FORMAT) throw new TypeError(`The stored BIN data set has the unknown format ${header.format}.`);
  const { source, asOf, licence, size, coverage, columns, texts } = header;
  const tables = header.tables.map(({ segments, ...table }) => ({
    ...table,
    starts: take(segments),
    owners: take(segments),
  }));
  return { source, asOf, licence, size, coverage, tables, facts: { cells: take(header.cells), columns, texts } };
}

function bytesOf(numbers: Uint32Array): Buffer {
  return Buffer.from(numbers.buffer, numbers.byteOffset, numbers.byteLength);
}
