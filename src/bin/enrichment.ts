/** Owns the joining of everything that BIN look-ups take, for the server and for the commands alike. */
import type { Outbound } from '../outbound/outbound.ts';
import type { Store } from '../storage/store.ts';
import { createBinClient } from './bin-client.ts';
import { builtInDataset } from './built-in-dataset.ts';
import type { Dataset } from './dataset.ts';
import type { DatasetFile } from './dataset-file.ts';
import { createLiveDataset, type LiveDataset, type LoadedDataset } from './live-dataset.ts';
import { type BinLookup, createBinLookup, type LookupOutcome } from './lookup.ts';
import { type BinQuota, createBinQuota } from './quota.ts';
import { createStoredDatasets, type StoredDatasets } from './stored-dataset.ts';
import { type BinTally, createBinTally } from './tally.ts';

/** Of the remote BIN lookup service. */
export interface BinServiceSettings {
  url: string;
  apiKey: string | undefined;
  auth: 'bearer' | 'query' | 'basic';
  monthlyQuota: number;
  /** Calls of that quota that bulk jobs leave alone. */
  bulkReserve: number;
}

export interface EnrichmentEvents {
  answered?(outcome: LookupOutcome, count: number): void;
  serviceFailed?(reason: string): void;
  cacheFailed?(error: unknown): void;
  datasetLoaded?(loaded: LoadedDataset): void;
  datasetFailed?(error: unknown): void;
}

export interface BinEnrichment {
  lookup: BinLookup;
  /** What was imported, or the file of the settings. */
  dataset: LiveDataset;
  stored: StoredDatasets;
  /** Made when it is first needed: where another data set knows all that is asked, never. */
  builtIn: () => Dataset;
  /** Undefined where no service is set. */
  quota: BinQuota | undefined;
  tally: BinTally;
  close(): Promise<void>;
}

export interface EnrichmentParts {
  store: Store;
  /** Milliseconds since the epoch. */
  clock: () => number;
  fetch: Outbound['fetch'];
  service: BinServiceSettings | undefined;
  /** Of `BIN_DATASET_FILE`. */
  file: DatasetFile | undefined;
  events?: EnrichmentEvents;
}

/** @throws AppError `storage_unavailable` */
export async function createBinEnrichment(parts: EnrichmentParts): Promise<BinEnrichment> {
  const { store, clock, service, file, events = {} } = parts;
  const stored = createStoredDatasets({ store, clock });
  const dataset = await createLiveDataset({ file, stored, events });
  const tally = createBinTally({ store, clock });
  const quota = service && createBinQuota({ ...service, store, limit: service.monthlyQuota, clock });
  const lookup = createBinLookup({
    ...{ imported: dataset.current, builtIn: builtInDataset, quota, store, clock },
    client: service && createBinClient({ ...service, fetch: parts.fetch, store, clock }),
    events: {
      answered(outcome, count) {
        tally.answered(outcome, count);
        events.answered?.(outcome, count);
      },
      cacheAsked: tally.cacheAsked,
      ...(events.cacheFailed && { cacheFailed: events.cacheFailed }),
      remoteAnswered(outcome, reason) {
        const failure = outcome === 'limited' ? outcome : reason;
        if (outcome !== 'not_reserved') tally.serviceAnswered(failure);
        if (reason !== undefined) events.serviceFailed?.(reason);
      },
    },
  });
  const close = async () => {
    await Promise.all([dataset.close(), tally.close()]);
  };
  return { lookup, dataset, stored, builtIn: builtInDataset, quota, tally, close };
}
