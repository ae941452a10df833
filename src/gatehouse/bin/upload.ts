/** Checks an uploaded data set: reads it, compares it with the one in use, and encodes it for the store. */
import { Worker } from 'node:worker_threads';
import type { DatasetAbout, PackedDataset } from '../../shared/bin/dataset.ts';
import type { FileReport } from '../../shared/bin/dataset-file.ts';
import type { FileColumns } from '../../shared/bin/record.ts';
import { codeOf } from '../../shared/errors.ts';
import type { DatasetChange } from './dataset-change.ts';
import type { EncodedDataset } from './dataset-codec.ts';

export interface Upload {
  about: Omit<DatasetAbout, 'licence'> & Partial<DatasetAbout>;
  columns: FileColumns | undefined;
  /** The limit of the unpacked text. */
  maxBytes: number;
  shapeAdvice: string;
  /** The data set to compare it with; undefined for the built-in one. */
  inUse: PackedDataset | undefined;
}

/** `problem`: the fault of the file and what to do, in one or two sentences. */
export type CheckedUpload =
  | { dataset: EncodedDataset; report: FileReport; change: DatasetChange; problem?: never }
  | { problem: string };

/**
 * The limit of the thread's heap. A file within the limits of a data set needs less. The heap limit alone would not
 * protect the process, which V8 ends if one large allocation exceeds it.
 */
const HEAP_MB = 320;

/**
 * Checks an upload in a worker thread, so that it does not block other requests. Receives the whole file without
 * waiting for the thread to read it. Rejects if the file ends early, or the signal stops it.
 */
export async function checkUpload(
  chunks: AsyncIterable<Uint8Array>,
  upload: Upload,
  stop: AbortSignal,
): Promise<CheckedUpload> {
  const resourceLimits = { maxOldGenerationSizeMb: HEAP_MB };
  const worker = new Worker(new URL('./upload-worker.ts', import.meta.url), { workerData: upload, resourceLimits });
  const terminate = () => void worker.terminate();
  stop.addEventListener('abort', terminate);
  const checked = new Promise<CheckedUpload>((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', (error) =>
      codeOf(error) === 'ERR_WORKER_OUT_OF_MEMORY' ? resolve({ problem: tooMuchMemory(upload) }) : reject(error),
    );
    worker.once('exit', () => reject(new Error('The check of the upload was stopped.')));
  });
  // It may settle while the file is still being received.
  checked.catch(() => undefined);
  try {
    for await (const chunk of chunks) {
      const copy = Uint8Array.from(chunk);
      worker.postMessage(copy, [copy.buffer]);
    }
    worker.postMessage(null);
    return await checked;
  } finally {
    stop.removeEventListener('abort', terminate);
    await worker.terminate();
  }
}

const tooMuchMemory = ({ about }: Upload) =>
  `${about.source} needs too much memory to be read. Check that it is the right file, or use a smaller one.`;
