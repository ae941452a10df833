/** Reads the entries of a file of JSON lines or one JSON array as a stream, so that the file may have any length. */
import { createReadStream } from 'node:fs';
import { parseJson } from '../../shared/json.ts';

export interface FileEntry {
  /** The line on which the entry begins, from 1. */
  line: number;
  /** Undefined if it is not JSON, or is too long. */
  entry: unknown;
}

/** Longer than any entry. Keeps a file of another kind from being read into memory. */
const MAX_CHARACTERS = 65_536;

/**
 * In an array, a fault in one entry may hide the entries after it, which are then reported as one entry.
 * @param advance called with the number of bytes that were read
 */
export async function* readEntries(file: string, advance: (bytes: number) => void): AsyncGenerator<FileEntry> {
  const reader = createEntryReader();
  for await (const chunk of createReadStream(file, 'utf8')) {
    yield* reader.read(chunk as string);
    advance(Buffer.byteLength(chunk as string));
  }
  yield* reader.end();
}

export function createEntryReader() {
  let isArray: boolean | undefined;
  let isClosed = false;
  let line = 1;
  let startLine = 1;
  let text = '';
  /** The depth of objects and arrays inside the entry. */
  let depth = 0;
  let isString = false;
  let isEscaped = false;

  const take = (): FileEntry[] => {
    const entry = { line: startLine, entry: text.length > MAX_CHARACTERS ? undefined : parseJson(text) };
    const isEmpty = text.trim() === '';
    [text, depth, isString, isEscaped] = ['', 0, false, false];
    return isEmpty ? [] : [entry];
  };

  /** True if the character ends an entry of the array. */
  const endsEntry = (character: string): boolean => {
    if (isEscaped) isEscaped = false;
    else if (isString) {
      isEscaped = character === '\\';
      isString = character !== '"';
    } else if (character === '"') isString = true;
    else if (character === '{' || character === '[') depth += 1;
    else if (depth === 0) return character === ',' || character === ']';
    else if (character === '}' || character === ']') depth -= 1;
    return false;
  };

  return {
    *read(chunk: string): Generator<FileEntry> {
      for (const character of chunk) {
        const isBlank = text === '' && /[\s\ufeff]/.test(character);
        if (character === '\n') line += 1;
        if (isArray === undefined && !isBlank) {
          isArray = character === '[';
          startLine = line;
          if (isArray) continue;
        }
        const isEnd = isArray && !isClosed ? !isBlank && endsEntry(character) : character === '\n';
        if (isEnd) {
          isClosed ||= isArray === true && character === ']';
          yield* take();
        } else if (!isBlank) {
          if (text === '') startLine = line;
          if (text.length <= MAX_CHARACTERS) text += character;
        }
      }
    },
    *end(): Generator<FileEntry> {
      yield* take();
      if (isArray && !isClosed) yield { line, entry: undefined };
    },
  };
}
