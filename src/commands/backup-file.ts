/** Owns the file of a backup: a line that says what it is, a line for each item, and a line that proves that all is there. */
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { link, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { codeOf } from '../start-refused.ts';
import { createCopyTally, differences, lineOf, type Tally } from '../storage/copy-tally.ts';
import type { KeptItem } from '../storage/store.ts';

const FORMAT = 'gatehouse-backup';
const VERSION = 1;
/** Longer than any item, so that a file of another kind is not read into memory. */
const LONGEST_LINE = 67_108_864;
const NEWLINE = 0x0a;

const text = z.string();
const whole = z.number().int();
const ITEM = z.union([
  z.strictObject({ record: text.min(1), value: text, version: whole.positive(), expiresAt: whole.optional() }),
  z.strictObject({ index: text.min(1), member: text, score: z.number() }),
  z.strictObject({ counter: text.min(1), value: whole, expiresAt: whole }),
  z.strictObject({ log: text.min(1), id: text.regex(/^[1-9]\d{0,14}$/), at: whole, entry: text }),
]);
const HEAD = z.looseObject({ format: z.literal(FORMAT), version: whole, made: z.iso.datetime() });
const KINDS = z.record(text, z.strictObject({ count: whole, digest: text }));
const END = z.strictObject({ items: whole, kinds: KINDS, sha256: text.length(64), seal: text });

/** The last line: what the lines before it hold. `sha256` is of all their bytes; `seal` is it, sealed. */
export type BackupEnd = z.infer<typeof END>;

export interface WrittenBackup {
  made: string;
  end: BackupEnd;
  bytes: number;
}

/**
 * Writes it for its owner alone under another name, and gives it its name once it is whole and on the disk.
 * @param parts `replace`: a file of that name may be replaced; `seal`: answers the digest sealed
 * @throws AppError where the file is there already
 */
export async function writeBackup(parts: {
  file: string;
  replace: boolean;
  items: AsyncIterable<KeptItem[]>;
  seal: (digest: string) => Promise<string>;
  advance: (done: number) => void;
}): Promise<WrittenBackup> {
  const { file, replace, items, seal, advance } = parts;
  if (!replace && existsSync(file)) throw isThere(file);
  const draft = `${file}.${randomUUID().slice(0, 8)}.part`;
  const handle = await open(draft, 'wx', 0o600);
  try {
    const digest = createHash('sha256');
    const tally = createCopyTally();
    let bytes = 0;
    const write = async (lines: string) => {
      await handle.writeFile(lines);
      bytes += Buffer.byteLength(lines);
    };
    const cover = async (lines: string) => {
      digest.update(lines);
      await write(lines);
    };
    const made = new Date().toISOString();
    await cover(`${JSON.stringify({ format: FORMAT, version: VERSION, made })}\n`);
    for await (const some of items) {
      tally.add(some);
      await cover(some.map((item) => `${lineOf(item)}\n`).join(''));
      advance(some.length);
    }
    const sha256 = digest.digest('hex');
    const end: BackupEnd = { items: tally.count(), kinds: tally.result(), sha256, seal: await seal(sha256) };
    await write(`${JSON.stringify({ end })}\n`);
    await handle.sync();
    await handle.close();
    await giveName(draft, file, replace);
    return { made, end, bytes };
  } catch (error) {
    await handle.close().catch(() => undefined);
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

async function giveName(draft: string, file: string, replace: boolean): Promise<void> {
  if (replace) await rename(draft, file);
  else {
    // A link is refused where somebody else has made that file meanwhile.
    await link(draft, file).catch((error: unknown) => {
      if (codeOf(error) === 'EEXIST') throw isThere(file);
      // Some file systems know no links.
      return rename(draft, file);
    });
  }
  const folder = await open(dirname(file), 'r');
  await folder.sync().finally(() => folder.close());
}

function isThere(file: string): AppError {
  return new AppError('invalid_request', { detail: `${file} is there already. Give another name, or --force.` });
}

export interface ReadBackup {
  /** When it was begun (ISO 8601, UTC). */
  made: string;
  end: BackupEnd;
}

/**
 * Reads a backup from its first to its last byte. What it yields counts only once it has returned: then the file is whole and
 * unaltered.
 * @throws AppError that says what is wrong with the file
 */
export async function* readBackup(
  file: string,
  advance: (bytes: number) => void = () => undefined,
): AsyncGenerator<KeptItem[], ReadBackup> {
  const digest = createHash('sha256');
  const tally = createCopyTally();
  let made: string | undefined;
  let end: BackupEnd | undefined;
  for await (const lines of linesOf(file, advance)) {
    const items: KeptItem[] = [];
    for (const line of lines) {
      if (end !== undefined) throw broken(file, 'there is something behind its last line');
      if (made === undefined) made = readHead(file, line);
      else if (line.startsWith('{"end":')) end = readEnd(file, line);
      else items.push(readItem(file, line));
      if (end === undefined) digest.update(line).update('\n');
    }
    tally.add(items);
    if (items.length > 0) yield items;
  }
  if (made === undefined) throw noBackup(file);
  if (end === undefined) throw broken(file, 'its end is missing');
  if (digest.digest('hex') !== end.sha256) throw broken(file, 'its digest is another');
  const [difference] = differences(end.kinds as Tally, tally.result());
  if (difference !== undefined || tally.count() !== end.items) throw broken(file, difference ?? 'items are missing');
  return { made, end };
}

function readHead(file: string, line: string): string {
  const head = HEAD.safeParse(parseJson(line));
  if (!head.success) throw noBackup(file);
  if (head.data.version === VERSION) return head.data.made;
  const detail = `${file} has format ${head.data.version}; this Gatehouse reads ${VERSION}. Restore it with a newer one.`;
  throw new AppError('invalid_request', { detail });
}

function readEnd(file: string, line: string): BackupEnd {
  const end = z.strictObject({ end: END }).safeParse(parseJson(line));
  if (!end.success) throw broken(file, 'its last line cannot be read');
  return end.data.end;
}

function readItem(file: string, line: string): KeptItem {
  const item = ITEM.safeParse(parseJson(line));
  if (!item.success) throw broken(file, 'a line cannot be read');
  return item.data as KeptItem;
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** Whole lines, as many at a time as a piece of the file holds. What follows the last newline is no line. */
async function* linesOf(file: string, advance: (bytes: number) => void): AsyncGenerator<string[]> {
  let rest: Buffer[] = [];
  let held = 0;
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
        held = 0;
      }
      held += chunk.length;
      if (held > LONGEST_LINE) throw noBackup(file);
    }
  } catch (error) {
    if (codeOf(error) === 'ENOENT') throw new AppError('not_found', { detail: `There is no file ${file}.` });
    throw error;
  }
  if (rest.some((part) => part.length > 0)) throw broken(file, 'its end is missing');
}

function noBackup(file: string): AppError {
  return new AppError('invalid_request', { detail: `${file} is no backup that Gatehouse has made.` });
}

function broken(file: string, why: string): AppError {
  const detail = `The backup ${file} is cut off or was altered: ${why}. Take another one.`;
  return new AppError('invalid_request', { detail });
}
