/** Adds BIN facts to a CSV file, from the data set and the service of the settings. */
import { once } from 'node:events';
import { createReadStream, statSync } from 'node:fs';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { UnusableFile } from '../../shared/bin/csv-text.ts';
import { inspectFile, readDatasetFile, unreadable } from '../../shared/bin/dataset-file.ts';
import { loadBinConfig } from '../../shared/config/config.ts';
import { AppError, StartRefused } from '../../shared/errors.ts';
import { ADDRESS_ADVICE, createAddressPolicy } from '../../shared/outbound/address-policy.ts';
import { createOutbound } from '../../shared/outbound/outbound.ts';
import type { Store } from '../../shared/storage/store.ts';
import { type Bins, createBins } from '../bin/bin.ts';
import { type EnrichReport, enrichCsv } from '../bin/enrich.ts';
import { withStorage } from './open-storage.ts';
import { type Terminal, withProgress } from './terminal.ts';
import { writeWholeFile } from './whole-file.ts';

export interface EnrichOptions {
  column: string;
  out?: string;
}

export async function enrichFile(terminal: Terminal, file: string, options: EnrichOptions): Promise<EnrichReport> {
  return withStorage(terminal.source, ({ store }) => enrichWith(store, terminal, file, options));
}

async function enrichWith(
  store: Store,
  terminal: Terminal,
  file: string,
  { column, out }: EnrichOptions,
): Promise<EnrichReport> {
  return withEnrichment(terminal, store, async ({ lookup }) => {
    const { isGzipped } = await inspectFile(file).catch((error: unknown) => {
      throw fileRefused(file, error);
    });
    const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
    return withProgress(terminal, 'Enriching', size, (advance) => {
      const enrich = (write: (text: string) => Promise<void>) => {
        const bytes = createReadStream(file).on('data', (chunk) => advance(chunk.length));
        // An error in unzipping destroys `input`, so the callback has nothing to do.
        const input = isGzipped ? pipeline(bytes, createGunzip(), () => undefined) : bytes;
        return enrichCsv({ input, column, lookup, write }).catch((error: unknown) => {
          throw isFileError(error) ? fileRefused(file, error) : error;
        });
      };
      return out === undefined ? enrich((text) => writeAll(terminal.out, text)) : writeWholeFile(out, enrich);
    });
  });
}

/** True for system error codes of an unreadable file, zlib codes of a damaged one, and a file that is not CSV text. */
function isFileError(error: unknown): boolean {
  if (error instanceof UnusableFile) return true;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return /^(EISDIR|EACCES|EIO|Z_\w+)$/.test(code);
}

function fileRefused(file: string, error: unknown): AppError {
  return new AppError('invalid_request', { detail: unreadable(file, error) });
}

async function withEnrichment<T>({ source }: Terminal, store: Store, work: (bins: Bins) => Promise<T>): Promise<T> {
  const { values, faults } = loadBinConfig(source);
  const { datasetFile, service } = values.bin;
  const file = datasetFile === undefined ? undefined : await readDatasetFile(datasetFile);
  const policy = createAddressPolicy(values.internalHosts);
  const rule = service && policy.checkUrl(service.url);
  const problems = [
    ...faults,
    ...(file?.problem === undefined ? [] : [`BIN_DATASET_FILE: ${file.problem}`]),
    ...(rule ? [`BIN_SERVICE_URL: ${ADDRESS_ADVICE[rule]}`] : []),
  ];
  if (problems.length > 0 || file?.problem !== undefined) throw new StartRefused(problems);
  const outbound = createOutbound({ policy, proxy: values.proxy });
  const bins = await createBins({ store, clock: Date.now, outbound, service, file });
  try {
    return await work(bins);
  } finally {
    await bins.close();
    await outbound.close();
  }
}

async function writeAll(out: NodeJS.WritableStream, text: string): Promise<void> {
  if (!out.write(text)) await once(out, 'drain');
}
