/** The data set in use: `BIN_DATASET_FILE`, otherwise the last import, which is loaded without a restart. */

import type { Dataset } from '../../shared/bin/dataset.ts';
import type { DatasetFile, FileReport } from '../../shared/bin/dataset-file.ts';
import { AppError } from '../../shared/errors.ts';
import type { Events } from '../../shared/observability/events.ts';
import type { DatasetVersion, StoredDatasets } from './stored-dataset.ts';

export interface LiveDataset {
  /** Undefined if neither a file nor an import is in use, so that only the built-in data set is used. */
  current(): Dataset | undefined;
  /** The import in use; undefined if there is none or the file is used. */
  version(): DatasetVersion | undefined;
  /** Accepted and skipped rows of the file or the import. */
  report(): FileReport | undefined;
  /** Loads the data set that an import or a rollback has just made current. */
  refresh(): Promise<void>;
  close(): Promise<void>;
}

export interface LiveDatasetParts {
  /** From `BIN_DATASET_FILE`; takes precedence over imports. */
  file: DatasetFile | undefined;
  stored: StoredDatasets;
  /** How often to check for an import whose message was lost; default 5,000. */
  pollMilliseconds?: number;
  events?: Pick<Events, 'binDatasetLoaded' | 'binDatasetFailed'> | undefined;
}

/** @throws AppError `storage_unavailable` */
export async function createLiveDataset(parts: LiveDatasetParts): Promise<LiveDataset> {
  const { file, stored } = parts;
  if (file) return fromFile(file, parts.events);
  const loader = createLoader(parts);
  const refresh = () => void loader.refresh().catch(() => undefined);
  // Subscribe before loading, so that no import is missed in between.
  const unsubscribe = await stored.onChange(refresh);
  const timer = setInterval(refresh, parts.pollMilliseconds ?? 5_000).unref();
  const close = async () => {
    clearInterval(timer);
    await loader.settle();
    await unsubscribe();
  };
  try {
    await loader.refresh();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    current: () => loader.loaded()?.dataset,
    version: () => loader.loaded()?.version,
    report: () => loader.loaded()?.version.report,
    refresh: loader.refresh,
    close,
  };
}

function fromFile(file: DatasetFile, events: LiveDatasetParts['events']): LiveDataset {
  const { dataset, report } = file;
  events?.binDatasetLoaded(loadedOf(dataset, report));
  const doNothing = async () => undefined;
  return {
    current: () => dataset,
    version: () => undefined,
    report: () => report,
    refresh: doNothing,
    close: doNothing,
  };
}

function loadedOf({ source, size }: Dataset, report: FileReport) {
  return { source, rows: size, badRows: report.skipped, conflicts: report.conflicts.count };
}

function createLoader({ stored, events }: LiveDatasetParts) {
  let loaded: { dataset: Dataset; version: DatasetVersion } | undefined;
  let unreadableId: string | undefined;
  let running: Promise<void> | undefined;
  let mustRepeat = false;

  const load = async (): Promise<void> => {
    const versions = await stored.versions();
    const version = versions?.current;
    // After a rollback to the built-in data set there is only a previous one.
    if (versions?.previous && !version) loaded = undefined;
    if (!version || version.id === loaded?.version.id || version.id === unreadableId) return;
    try {
      const dataset = await stored.load(version);
      if (!dataset) return;
      loaded = { dataset, version };
      events?.binDatasetLoaded(loadedOf(dataset, version.report));
    } catch (cause) {
      if (cause instanceof AppError) throw cause;
      // Do not read it again at each check.
      unreadableId = version.id;
      events?.binDatasetFailed({ cause });
    }
  };
  const run = async (): Promise<void> => {
    do {
      mustRepeat = false;
      await load();
    } while (mustRepeat);
  };
  return {
    loaded: () => loaded,
    /** Runs one load at a time. A call during a load causes another one. */
    refresh(): Promise<void> {
      mustRepeat = running !== undefined;
      running ??= run().finally(() => {
        running = undefined;
      });
      return running;
    },
    settle: async () => running?.catch(() => undefined),
  };
}
