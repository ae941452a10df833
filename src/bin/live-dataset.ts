/** Owns the data set that counts in this process: the file of the settings, else what was imported last, swapped in while look-ups go on. */
import { AppError } from '../errors.ts';
import type { Dataset } from './dataset.ts';
import type { DatasetFile, FileReport } from './dataset-file.ts';
import type { DatasetVersion, StoredDatasets } from './stored-dataset.ts';

export interface LiveDataset {
  /** Undefined where there is neither a file nor an import: then the built-in data set is all there is. */
  current(): Dataset | undefined;
  /** Of the import that counts in this process; undefined where the file does. */
  version(): DatasetVersion | undefined;
  /** Rows taken and left out, of the file or of the import. */
  report(): FileReport | undefined;
  close(): Promise<void>;
}

export interface LiveDatasetParts {
  /** Of `BIN_DATASET_FILE`, which wins over every import. */
  file: DatasetFile | undefined;
  stored: StoredDatasets;
  /** How often it is looked whether a message was lost; default 5,000. */
  pollMilliseconds?: number;
  events?: {
    /** What was imported cannot be read; what counted before goes on. */
    datasetFailed?(error: unknown): void;
    datasetLoaded?(loaded: LoadedDataset): void;
  };
}

export interface LoadedDataset {
  source: string;
  rows: number;
  badRows: number;
}

/** @throws AppError `storage_unavailable` */
export async function createLiveDataset(parts: LiveDatasetParts): Promise<LiveDataset> {
  const { file, stored } = parts;
  if (file) return settled(file, parts.events);
  const loader = createLoader(parts);
  const look = () => void loader.look().catch(() => undefined);
  // Listening comes first: what is imported in between is then not missed.
  const unsubscribe = await stored.onChange(look);
  const timer = setInterval(look, parts.pollMilliseconds ?? 5_000).unref();
  const close = async () => {
    clearInterval(timer);
    await loader.settle();
    await unsubscribe();
  };
  try {
    await loader.look();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    current: () => loader.loaded()?.dataset,
    version: () => loader.loaded()?.version,
    report: () => loader.loaded()?.version.report,
    close,
  };
}

function settled(file: DatasetFile, events: LiveDatasetParts['events']): LiveDataset {
  const { dataset, report } = file;
  events?.datasetLoaded?.(loadedOf(dataset, report));
  return { current: () => dataset, version: () => undefined, report: () => report, close: async () => undefined };
}

function loadedOf({ source, size }: Dataset, report: FileReport): LoadedDataset {
  return { source, rows: size, badRows: report.skipped };
}

function createLoader({ stored, events }: LiveDatasetParts) {
  let loaded: { dataset: Dataset; version: DatasetVersion } | undefined;
  let refused: string | undefined;
  let running: Promise<void> | undefined;
  let again = false;

  const load = async (): Promise<void> => {
    const version = (await stored.versions())?.current;
    if (!version || version.id === loaded?.version.id || version.id === refused) return;
    try {
      const dataset = await stored.load(version);
      if (!dataset) return;
      loaded = { dataset, version };
      events?.datasetLoaded?.(loadedOf(dataset, version.report));
    } catch (error) {
      if (error instanceof AppError) throw error;
      // It will not get better by being read again.
      refused = version.id;
      events?.datasetFailed?.(error);
    }
  };
  const run = async (): Promise<void> => {
    do {
      again = false;
      await load();
    } while (again);
  };
  return {
    loaded: () => loaded,
    /** One at a time; a message during a load means one more look. */
    look(): Promise<void> {
      again = running !== undefined;
      running ??= run().finally(() => {
        running = undefined;
      });
      return running;
    },
    settle: async () => running?.catch(() => undefined),
  };
}
