/** Decodes the bytes of a CSV file: UTF-16 if it starts with a byte order mark, otherwise strict UTF-8. */

/** A file that cannot be used. The message continues the file's name, and says what to do next. */
export class UnusableFile extends Error {}

const NOT_UTF8 =
  'is neither UTF-8 nor UTF-16 with a byte order mark. Save it as “CSV UTF-8”, or convert it with `iconv -f WINDOWS-1252 -t UTF-8 OLD.csv > NEW.csv`, with its encoding in place of WINDOWS-1252.';
const DAMAGED_UTF16 = 'is damaged UTF-16. Export it again as “CSV UTF-8”.';
const NOT_TEXT =
  'has NUL characters: it is not text, or is UTF-16 without a byte order mark. Save it as “CSV UTF-8”, or convert it with `iconv -f UTF-16LE -t UTF-8 OLD.csv > NEW.csv`.';
const TOO_LARGE = 'is larger, once it is unpacked, than any known data set. Check that it is the right file.';

/** How files begin that bzip2, xz, Zstandard, 7-Zip and RAR have made. */
const COMPRESSED = /^(?:425a68|fd377a58|28b52ffd|377abcaf|52617221)/;
const firstBytes = (start: Uint8Array) => Buffer.from(start.subarray(0, 4)).toString('hex');

/** What a file that is not CSV starts with, and how to get a CSV from it. `text` is that of its first bytes. */
const OTHER_FORMATS: readonly { isFormat(start: Uint8Array, text: string): boolean; problem: string }[] = [
  {
    isFormat: (_start, text) => text.startsWith('PK\u0003\u0004'),
    problem:
      'is an Excel workbook (.xlsx), or another ZIP archive. Save the sheet as “CSV UTF-8”, or unpack the archive.',
  },
  {
    isFormat: (start) => firstBytes(start) === 'd0cf11e0',
    problem: 'is an old Excel workbook (.xls). Save the sheet as “CSV UTF-8”.',
  },
  {
    isFormat: (_start, text) => /^\s*(?:\{\s*["}]|\[\s*[\]{["\d])/.test(text),
    problem: 'is JSON. Convert it to CSV, with a first line that names the columns.',
  },
  {
    isFormat: (_start, text) => /^\s*<(?:[!?a-z])/i.test(text),
    problem: 'is HTML or XML. Download the CSV file itself.',
  },
  {
    isFormat: (start) => COMPRESSED.test(firstBytes(start)),
    problem: 'is compressed in another way than with gzip. Unpack it.',
  },
  { isFormat: (start) => firstBytes(start).startsWith('1f8b'), problem: 'is compressed twice. Unpack it.' },
  {
    isFormat: (_start, text) => text.startsWith('SQLite format'),
    problem: 'is a database of SQLite. Export the table as CSV.',
  },
  { isFormat: (_start, text) => text.startsWith('%PDF'), problem: 'is a PDF document. Get the data as CSV.' },
  { isFormat: (_start, text) => text.startsWith('PAR1'), problem: 'is a Parquet file. Convert it to CSV.' },
  {
    isFormat: (_start, text) => text.startsWith('version https://git-lfs'),
    problem: 'is a pointer of Git LFS, not the data. Download the file itself.',
  },
];

/**
 * Yields the text without a byte order mark. It never replaces what it cannot decode.
 * @throws UnusableFile if the file is not text in one of the encodings, or larger than `maxBytes`
 */
export async function* decodedText(
  bytes: AsyncIterable<Uint8Array>,
  maxBytes = Number.POSITIVE_INFINITY,
): AsyncGenerator<string> {
  let size = 0;
  let decode: ReturnType<typeof createDecoder> | undefined;
  for await (const chunk of withLongStart(bytes)) {
    size += chunk.length;
    if (size > maxBytes) throw new UnusableFile(TOO_LARGE);
    if (!decode) {
      assertCsv(chunk);
      decode = createDecoder(chunk);
    }
    yield decode(chunk);
  }
  if (decode) yield decode();
}

function assertCsv(chunk: Uint8Array): void {
  const start = chunk.subarray(0, START_BYTES);
  const text = Buffer.from(start)
    .toString(encodingOf(start) === 'utf-16le' ? 'utf16le' : 'utf8')
    .replace('\ufeff', '');
  const format = OTHER_FORMATS.find(({ isFormat }) => isFormat(start, text));
  if (format) throw new UnusableFile(format.problem);
}

/** The first bytes show the encoding and the format. */
const START_BYTES = 512;

/** Yields the same bytes. The first chunk has at least `START_BYTES`, unless the file is shorter. */
async function* withLongStart(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let start: Uint8Array | undefined = new Uint8Array();
  for await (const chunk of bytes) {
    if (!start) yield chunk;
    else if (start.length + chunk.length < START_BYTES) start = Buffer.concat([start, chunk]);
    else {
      yield Buffer.concat([start, chunk]);
      start = undefined;
    }
  }
  if (start?.length) yield start;
}

/** Returns a function that decodes the next bytes; without bytes, it ends the text. */
function createDecoder(start: Uint8Array): (bytes?: Uint8Array) => string {
  const encoding = encodingOf(start);
  const decoder = new TextDecoder(encoding, { fatal: true });
  return (bytes) => {
    // Before the decoding, since most UTF-16 without a byte order mark is no UTF-8 either.
    if (encoding === 'utf-8' && bytes?.includes(0)) throw new UnusableFile(NOT_TEXT);
    let text: string;
    try {
      text = bytes ? decoder.decode(bytes, { stream: true }) : decoder.decode();
    } catch {
      throw new UnusableFile(encoding === 'utf-8' ? NOT_UTF8 : DAMAGED_UTF16);
    }
    if (text.includes('\0')) throw new UnusableFile(NOT_TEXT);
    return text;
  };
}

function encodingOf([first, second]: Uint8Array): 'utf-8' | 'utf-16le' | 'utf-16be' {
  if (first === 0xff && second === 0xfe) return 'utf-16le';
  return first === 0xfe && second === 0xff ? 'utf-16be' : 'utf-8';
}
