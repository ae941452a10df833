/** The log's batches: every line reaches the descriptor, however writes and the pause between batches fall together. */
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
const written = (text: string) => until(() => readFileSync(file, 'utf8').includes(text), 10_000);

test('goes on after a pause that ended with nothing to write', async () => {
  const sink = openLogSink(descriptor);
  // Is written at once. The line behind it starts the pause, and is written with it before the pause ends.
  sink.write(`${'x'.repeat(5_000)}\n`);
  sink.write('second\n');
  await written('second');
  await new Promise((resolve) => setTimeout(resolve, 400));
  sink.write('third\n');
  await written('third');
  expect(sink.dropped()).toBe(0);
});

test('goes on after a flush without a line', async () => {
  const sink = openLogSink(descriptor);
  await sink.flush();
  sink.write('first\n');
  await written('first');
});
