/** Uploads are checked in a worker thread: other requests are served, and the sender does not wait for the check. */
import { expect, test } from 'vitest';
import { decodeDataset } from '../../../src/gatehouse/bin/dataset-codec.ts';
import { checkUpload, type Upload } from '../../../src/gatehouse/bin/upload.ts';
import { openDataset } from '../../../src/shared/bin/dataset.ts';
import { bin, datasetOf } from '../../support/bins.ts';

const UPLOAD: Upload = {
  about: { source: 'large.csv', asOf: '2026-11-01' },
  columns: { start: 'LOW', end: 'HIGH', country: 'ISO', bank: 'BANK' },
  ...{ maxBytes: 2 ** 26, shapeAdvice: '', inUse: undefined },
};
const noAbort = new AbortController().signal;

const bytesOf = (rows: readonly string[]) => Buffer.from(['LOW,HIGH,ISO,BANK', ...rows].join('\n'));

async function* chunksOf(bytes: Buffer) {
  for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536);
}

/** The CPU time of this thread, without that of other threads and programs. */
const usedCpuMilliseconds = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

test('checking 100,000 ranges of 11 digits does not block the main thread', async () => {
  const rows = Array.from({ length: 100_000 }, (_, at) => {
    const start = 40_000_000_000 + at * 89_000;
    return `${start},${start + 1999},US,B${at}`;
  });
  const bytes = bytesOf(rows);
  const startedAt = performance.now();
  let receivedAfter = 0;
  async function* watchedChunks() {
    yield* chunksOf(bytes);
    receivedAfter = performance.now() - startedAt;
  }

  // Measures the longest turn of the event loop.
  let cpuAtLastTurn = usedCpuMilliseconds();
  let longestTurn = 0;
  let isDone = false;
  const measureTurn = () => {
    longestTurn = Math.max(longestTurn, usedCpuMilliseconds() - cpuAtLastTurn);
    cpuAtLastTurn = usedCpuMilliseconds();
    if (!isDone) setImmediate(measureTurn);
  };
  setImmediate(measureTurn);

  const checked = await checkUpload(watchedChunks(), UPLOAD, noAbort);
  isDone = true;
  const totalMilliseconds = performance.now() - startedAt;
  if (checked.problem !== undefined) throw new Error(checked.problem);
  const { report, change, dataset } = checked;
  expect(report).toMatchObject({ taken: 100_000, skipped: 0 });

  // The built-in data set has some of these BINs, which are therefore changed and not added.
  expect([change.added + change.changed, change.removed]).toEqual([200_000, 0]);
  const read = openDataset(await decodeDataset(dataset.bytes));
  expect(read.find(bin('40000000'))).toMatchObject({ digitsMatched: 7, record: { bank: { name: 'B0' } } });

  // If the check ran in this thread, it would be a few long turns.
  expect(longestTurn).toBeLessThan(totalMilliseconds / 40);
  // The body is received at once, so that a limit on its time does not count the time of the check.
  expect(receivedAfter).toBeLessThan(totalMilliseconds / 2);
});

test('compares an upload with the data set in use', async () => {
  const inUse = datasetOf({ start: '40000000', end: '40000009', country: 'US', bank: { name: 'B' } }).packed;
  const checked = await checkUpload(
    chunksOf(bytesOf(['40000000,40000004,US,B', '40000005,40000006,SE,C'])),
    { ...UPLOAD, inUse },
    noAbort,
  );
  expect(checked).toMatchObject({ change: { added: 0, removed: 3, changed: 2 } });
});

test('rows of one BIN give it the facts on which they agree, and rows that no lookup can use are left out', async () => {
  const rows = ['45000000,45000000,US,One', '45000000,45000000,US,Two', '45000001000,45000001499,US,Two'];
  const checked = await checkUpload(chunksOf(bytesOf(rows)), UPLOAD, noAbort);
  if (checked.problem !== undefined) throw new Error(checked.problem);
  const { find } = openDataset(await decodeDataset(checked.dataset.bytes));
  expect(find(bin('45000000'))).toMatchObject({ digitsMatched: 8, record: { country: { alpha2: 'US' } } });
  expect(find(bin('45000000'))?.record).not.toHaveProperty('bank');
  for (const digits of ['45000001', '4500000', '450000']) expect(find(bin(digits))).toBeUndefined();
  const first = { line: 4, reason: 'more_than_8_digits' };
  expect(checked.report).toMatchObject({
    taken: 2,
    skipped: 1,
    reasons: [{ count: 1, first }],
    conflicts: { count: 1, ranges: [{ lines: [2, 3] }] },
  });
});

test('a file that breaks off, or a sender that disconnects, ends the check', async () => {
  async function* abortedUpload() {
    yield* chunksOf(bytesOf(['40000000,40000004,US,B']));
    throw new Error('The upload was aborted.');
  }
  await expect(checkUpload(abortedUpload(), UPLOAD, noAbort)).rejects.toThrow('The upload was aborted.');
  const abort = new AbortController();
  const rows = Array.from({ length: 50_000 }, (_, at) => `${40_000_000 + at},${40_000_000 + at},US,B${at}`);
  async function* disconnectingSender() {
    yield* chunksOf(bytesOf(rows));
    abort.abort();
  }
  const checked = checkUpload(disconnectingSender(), UPLOAD, abort.signal);
  await expect(checked).rejects.toThrow('The check of the upload was stopped.');
});
