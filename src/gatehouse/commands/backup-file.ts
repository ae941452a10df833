/** The backup file: a first line, a line for each item, and a last line that proves that the file is complete. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { z } from 'zod';
import { AppError, codeOf } from '../../shared/errors.ts';
import { fileFault } from '../../shared/file-fault.ts';
import { parseJson } from '../../shared/json.ts';
import { createCopyTally, lineOf } from '../../shared/storage/copy-tally.ts';
import type { CopyItem } from '../../shared/storage/store.ts';
import { writeWholeFile } from './whole-file.ts';

const FORMAT = 'gatehouse-backup';
const VERSION = 1;
/** Longer than any item. Keeps a file of another kind from being read into memory. */
const MAX_LINE_BYTES = 67_108_864;
const NEWLINE = 0x0a;

const text = z.string();
const integer = z.number().int();
const ITEM = z.union([
  z.strictObject({ record: text.min(1), value: text, version: integer.positive(), expiresAt: integer.optional() }),
  z.strictObject({ index: text.min(1), member: text, score: z.number() }),
  z.strictObject({ counter: text.min(1), value: integer, expiresAt: integer }),
  z.strictObject({ log: text.min(1), id: text.regex(/^[1-9]\d{0,14}$/), at: integer, entry: text }),
]);
/** `storage`: the identity of the storage, which a restored storage does not have. Earlier releases leave it out. */
const HEAD = z.looseObject({
  format: z.literal(FORMAT),
  version: integer,
  createdAt: z.iso.datetime(),
  storage: text.optional(),
});
const KINDS = z.record(text, integer);
const END = z.strictObject({ items: integer, kinds: KINDS, sha256: text.length(64), seal: text });

const END_LINE = z.strictObject({ end: END });

/** The last line. `sha256` covers the bytes of all lines before it, and `seal` is that digest, sealed. */
type BackupEnd = z.infer<typeof END>;

export interface WrittenBackup extends ReadBackup {
  /** The size of the file. */
  bytes: number;
}

/**
 * Writes a backup that only the file's owner can read.
 * @param parts `replace`: overwrite an existing file; `seal`: seals the digest
 * @throws AppError if the file exists
 */
export async function writeBackup(parts: {
  file: string;
  replace: boolean;
  /** The identity of the storage. */
  storage: string;
  items: AsyncIterable<CopyItem[]>;
  seal: (digest: string) => Promise<string>;
  advance: (done: number) => void;
}): Promise<WrittenBackup> {
  const { file, replace, storage, items, seal, advance } = parts;
  const digest = createHash('sha256');
  const tally = createCopyTally();
  const createdAt = new Date().toISOString();
  let bytes = 0;
  const writeAll = async (write: (lines: string) => Promise<void>): Promise<BackupEnd> => {
    const writeCounted = async (lines: string) => {
      await write(lines);
      bytes += Buffer.byteLength(lines);
    };
    const writeDigested = (lines: string) => {
      digest.update(lines);
      return writeCounted(lines);
    };
    await writeDigested(`${JSON.stringify({ format: FORMAT, version: VERSION, createdAt, storage })}\n`);
    for await (const batch of items) {
      tally.add(batch);
      await writeDigested(batch.map((item) => `${lineOf(item)}\n`).join(''));
      advance(batch.length);
    }
    const sha256 = digest.digest('hex');
    const end = { items: tally.count(), kinds: tally.counts(), sha256, seal: await seal(sha256) };
    await writeCounted(`${JSON.stringify({ end })}\n`);
    return end;
  };
  const end = await writeWholeFile(file, writeAll, { replace });
  return { createdAt, end, bytes };
}

export interface ReadBackup {
  /** When the backup was started (ISO 8601, UTC). */
  createdAt: string;
  end: BackupEnd;
}

/**
 * Reads a whole backup. The items are trustworthy only once the generator has returned: then the file is complete and
 * unaltered.
 * @throws AppError that describes the fault of the file
 */
export async function* readBackup(
  file: string,
  advance: (bytes: number) => void = () => undefined,
): AsyncGenerator<CopyItem[], ReadBackup> {
  const digest = createHash('sha256');
  let count = 0;
  let createdAt: string | undefined;
  let end: BackupEnd | undefined;
  for await (const lines of linesOf(file, advance)) {
    const items: CopyItem[] = [];
    for (const line of lines) {
      if (end !== undefined) throw broken(file, 'there is data after its last line');
      if (createdAt === undefined) createdAt = readHead(file, line);
      else if (line.startsWith('{"end":')) end = readEnd(file, line);
      else items.push(readItem(file, line));
      if (end === undefined) digest.update(line).update('\n');
    }
    count += items.length;
    if (items.length > 0) yield items;
  }
  if (createdAt === undefined) throw notABackup(file);
  if (end === undefined) throw broken(file, 'its end is missing');
  if (digest.digest('hex') !== end.sha256) throw broken(file, 'its digest does not match');
  if (count !== end.items) throw broken(file, 'it does not have the number of items that its last line states');
  return { createdAt, end };
}

export interface BackupSummary {
  createdAt: string;
  storage: string | undefined;
  /** The number of items of each kind. */
  kinds: Readonly<Record<string, number>>;
}

/** Longer than the first line and the last line, which has a count for each kind. */
const EDGE_BYTES = 65_536;

/** Reads only the first and the last line. Undefined if the file is not a complete backup. */
export async function readSummary(file: FileHandle): Promise<BackupSummary | undefined> {
  const { size } = await file.stat();
  const linesAt = async (position: number): Promise<string[]> => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(EDGE_BYTES), 0, EDGE_BYTES, position);
    return buffer.toString('utf8', 0, bytesRead).split('\n');
  };
  const head = HEAD.safeParse(parseJson((await linesAt(0))[0] ?? ''));
  if (!head.success) return undefined;
  const end = END_LINE.safeParse(parseJson((await linesAt(Math.max(0, size - EDGE_BYTES))).at(-2) ?? ''));
  return end.success
    ? { createdAt: head.data.createdAt, storage: head.data.storage, kinds: end.data.end.kinds }
    : undefined;
}

function readHead(file: string, line: string): string {
  const head = HEAD.safeParse(parseJson(line));
  if (!head.success) throw notABackup(file);
  if (head.data.version === VERSION) return head.data.createdAt;
  const detail = `${file} has format ${head.data.version}; this version of Gatehouse reads ${VERSION}. Restore it with a newer version.`;
  throw new AppError('invalid_request', { detail });
}

function readEnd(file: string, line: string): BackupEnd {
  const end = END_LINE.safeParse(parseJson(line));
  if (!end.success) throw broken(file, 'its last line cannot be read');
  return end.data.end;
}

function readItem(file: string, line: string): CopyItem {
  const item = ITEM.safeParse(parseJson(line));
  if (!item.success) throw broken(file, 'a line cannot be read');
  return item.data as CopyItem;
}

/** Yields the complete lines of each chunk of the file. Text after the last newline is an error. */
async function* linesOf(file: string, advance: (bytes: number) => void): AsyncGenerator<string[]> {
  let rest: Buffer[] = [];
  let restBytes = 0;
  try {
    for await (const chunk of createReadStream(file, { highWaterMark: 1_048_576 }) as AsyncIterable<Buffer>) {
      advance(chunk.length);
      const last = chunk.lastIndexOf(NEWLINE);
      if (last === -1) rest.push(chunk);
      else {
        yield Buffer.concat([...rest, chunk.subarray(0, last)])
          .toString()
          .split('\n');
        rest = [chunk.subarray(last + 1)];
        restBytes = 0;
      }
      restBytes += chunk.length;
      if (restBytes > MAX_LINE_BYTES) throw notABackup(file);
    }
  } catch (error) {
    if (codeOf(error) === 'ENOENT') throw new AppError('not_found', { detail: `There is no file ${file}.` });
    const detail = error instanceof AppError ? undefined : fileFault(error, file);
    throw detail === undefined ? error : new AppError('invalid_request', { detail, cause: error });
  }
  if (rest.some((part) => part.length > 0)) throw broken(file, 'its end is missing');
}

function notABackup(file: string): AppError {
  return new AppError('invalid_request', { detail: `${file} is not a Gatehouse backup.` });
}

function broken(file: string, reason: string): AppError {
  const detail = `The backup ${file} is incomplete or was altered: ${reason}. Use another backup.`;
  return new AppError('invalid_request', { detail });
}
