/** Creates the BIN lookups, for the server and for the commands. */

import { builtInDataset } from '../../shared/bin/built-in-dataset.ts';
import type { Dataset } from '../../shared/bin/dataset.ts';
import type { DatasetFile } from '../../shared/bin/dataset-file.ts';
import type { Events } from '../../shared/observability/events.ts';
import type { Outbound } from '../../shared/outbound/outbound.ts';
import type { Store } from '../../shared/storage/store.ts';
import { createBinClient } from './bin-client.ts';
import { createLiveDataset, type LiveDataset } from './live-dataset.ts';
import { type BinLookup, createBinLookup } from './lookup.ts';
import { type BinQuota, type BinQuotaLimits, createBinQuota } from './quota.ts';
import { createStoredDatasets, type StoredDatasets } from './stored-dataset.ts';
import { type BinTally, createBinTally } from './tally.ts';

/** Settings of the remote BIN lookup service. */
export interface BinServiceSettings extends BinQuotaLimits {
  url: string;
  apiKey: string | undefined;
  auth: 'bearer' | 'query' | 'basic';
}

export interface Bins {
  lookup: BinLookup;
  /** The data set of `BIN_DATASET_FILE` if it is set, otherwise the imported one. */
  dataset: LiveDataset;
  stored: StoredDatasets;
  /** Built at the first call, so never if other sources have the facts of every lookup. */
  builtIn: () => Dataset;
  /** Undefined if no remote service is configured. */
  quota: BinQuota | undefined;
  tally: BinTally;
  /** Sets the API key of the remote service for later calls. */
  useApiKey(apiKey: string | undefined): void;
  close(): Promise<void>;
}

/** @throws AppError `storage_unavailable` */
export async function createBins(parts: {
  store: Store;
  /** Milliseconds since the epoch. */
  clock: () => number;
  outbound: Pick<Outbound, 'fetch'>;
  service: BinServiceSettings | undefined;
  /** The data set of `BIN_DATASET_FILE`. */
  file: DatasetFile | undefined;
  events?: Events;
}): Promise<Bins> {
  const { store, clock, service, file, events } = parts;
  const stored = createStoredDatasets({ store, clock });
  const dataset = await createLiveDataset({ file, stored, events });
  const tally = createBinTally({
    store,
    clock,
    onLost: (counts) => events?.countsLost({ kind: 'bin_lookups', counts }),
  });
  const quota = service && createBinQuota({ ...service, store, clock });
  const client = service && createBinClient({ ...service, fetch: parts.outbound.fetch, store, clock });
  const lookup = createBinLookup({
    imported: dataset.current,
    builtIn: builtInDataset,
    quota,
    store,
    clock,
    client,
    events: {
      lookedUp(outcome, count) {
        tally.lookedUp(outcome, count);
        events?.binLookedUp({ result: outcome, count });
      },
      cacheRead: tally.cacheRead,
      cacheFailed: (cause) => events?.binCacheFailed({ cause }),
      remoteResponded(outcome, reason) {
        const failure = outcome === 'limited' ? outcome : reason;
        if (outcome !== 'not_reserved') tally.serviceResponded(failure);
        if (reason !== undefined) events?.binServiceFailed({ reason });
      },
    },
  });
  const close = async () => {
    await Promise.all([dataset.close(), tally.close()]);
  };
  const useApiKey = (apiKey: string | undefined) => client?.useApiKey(apiKey);
  return { lookup, dataset, stored, builtIn: builtInDataset, quota, tally, useApiKey, close };
}
