/** Checks an upload in a worker thread, which `checkUpload` starts. The file arrives as messages; `null` ends it. */
import { on } from 'node:events';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { builtInDataset } from '../../shared/bin/built-in-dataset.ts';
import { openDataset } from '../../shared/bin/dataset.ts';
import { readDatasetStream } from '../../shared/bin/dataset-file.ts';
import { compareDatasets } from './dataset-change.ts';
import { encodeDataset } from './dataset-codec.ts';
import type { CheckedUpload, Upload } from './upload.ts';

async function* chunksFrom(port: MessagePort): AsyncGenerator<Buffer> {
  for await (const [chunk] of on(port, 'message')) {
    if (chunk === null) return;
    yield Buffer.from(chunk.buffer);
  }
}

async function check(port: MessagePort, { about, inUse, ...options }: Upload): Promise<CheckedUpload> {
  const result = await readDatasetStream(chunksFrom(port), about, options);
  if (result.problem !== undefined) return { problem: result.problem };
  const { dataset, report } = result;
  const builtIn = builtInDataset();
  const before = inUse ? [openDataset(inUse), builtIn] : [builtIn];
  const change = compareDatasets(before, [dataset, builtIn]);
  return { dataset: await encodeDataset(dataset.packed), report, change };
}

if (parentPort) parentPort.postMessage(await check(parentPort, workerData));
