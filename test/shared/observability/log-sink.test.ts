/** Every line of the log reaches the descriptor, whatever the timing of writes and batches. */
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openLogSink } from '../../../src/shared/observability/log-sink.ts';
import { until } from '../../support/until.ts';

let directory: string;
let file: string;
let descriptor: number;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-log-sink-'));
  file = join(directory, 'log');
  descriptor = openSync(file, 'a');
});
afterEach(() => {
  closeSync(descriptor);
  rmSync(directory, { recursive: true });
});
const untilWritten = (text: string) => until(() => readFileSync(file, 'utf8').includes(text), 10_000);

test('continues after a pause without lines', async () => {
  const sink = openLogSink(descriptor);
  // Written at once. The next line starts the pause, and is written with the first one before the pause ends.
  sink.write(`${'x'.repeat(5_000)}\n`);
  sink.write('second\n');
  await untilWritten('second');
  await new Promise((resolve) => setTimeout(resolve, 400));
  sink.write('third\n');
  await untilWritten('third');
  expect(sink.dropped()).toBe(0);
});

test('continues after a flush without lines', async () => {
  const sink = openLogSink(descriptor);
  await sink.flush();
  sink.write('first\n');
  await untilWritten('first');
});
