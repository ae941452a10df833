/** Entries of a file as JSON lines or as an array, read in pieces of any size. */
import { expect, test } from 'vitest';
import { createEntryReader, type FileEntry } from '../../../src/gatehouse/commands/json-entries.ts';

function read(text: string, size: number): FileEntry[] {
  const reader = createEntryReader();
  const pieces = text.match(new RegExp(`[^]{1,${size}}`, 'gu')) ?? [];
  return [...pieces.flatMap((piece) => [...reader.read(piece)]), ...reader.end()];
}

const CASES: Record<string, [text: string, entries: [line: number, entry: unknown][]]> = {
  'lines, some blank, with CRLF, and without a newline at the end': [
    '\ufeff\n{"a":1}\r\n\n{"a":2}',
    [
      [2, { a: 1 }],
      [4, { a: 2 }],
    ],
  ],
  'a malformed line between others': [
    '{"a":1}\n{"a":\n{"a":3}\n',
    [
      [1, { a: 1 }],
      [2, undefined],
      [3, { a: 3 }],
    ],
  ],
  'an array over several lines, with every kind of nesting': [
    '\n[ {"a":\n[1,{"b":"],}\\"{"}]},\n {"a":2}\n]\n',
    [
      [2, { a: [1, { b: '],}"{' }] }],
      [4, { a: 2 }],
    ],
  ],
  'an entry of an array that is no JSON': [
    '[{"a":1},nonsense,{"a":3}]',
    [
      [1, { a: 1 }],
      [1, undefined],
      [1, { a: 3 }],
    ],
  ],
  'an array that does not end': [
    '[{"a":1},\n{"a":',
    [
      [1, { a: 1 }],
      [2, undefined],
      [2, undefined],
    ],
  ],
  'text after the array': [
    '[{"a":1}]\n{"a":2',
    [
      [1, { a: 1 }],
      [2, undefined],
    ],
  ],
  'only white space': [' \n', []],
};

for (const [name, [text, entries]] of Object.entries(CASES)) {
  test.each([1, 3, 1_000])(`reads ${name}, in pieces of %i characters`, (size) => {
    expect(read(text, size).map(({ line, entry }) => [line, entry])).toEqual(entries);
  });
}

test('an entry that is too long is reported as malformed, and the entry after it is read', () => {
  const long = JSON.stringify({ a: 'x'.repeat(70_000) });
  expect(read(`${long}\n{"a":2}\n`, 1_000)).toEqual([
    { line: 1, entry: undefined },
    { line: 2, entry: { a: 2 } },
  ]);
});
