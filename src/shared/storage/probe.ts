/** Checks whether the storage accepts writes, for `/readyz`, the metrics and the log. */
import type { StorageConfig } from '../config/config.ts';
import { AppError } from '../errors.ts';
import { storageName } from './name.ts';
import { StorageReplaced, StorageUnfit } from './replaced.ts';
import { isDiskFault } from './sqlite/faults.ts';
import type { Store } from './store.ts';

type LocationConfig = Pick<StorageConfig, 'redis' | 'dataDirectory'>;

/** Why the storage accepts no writes. */
export interface ProbeFailure {
  reason: 'replaced' | 'unfit' | 'disk' | 'storage';
  /** The name of the storage for operators. */
  storage: string;
  detail: string;
}

/** Resolves with undefined if the store accepts writes. Never rejects. */
export type Probe = () => Promise<ProbeFailure | undefined>;

export function storageProbe(store: Pick<Store, 'ready'>, config: LocationConfig): Probe {
  const storage = storageName(config);
  return async () => {
    try {
      await store.ready();
      return undefined;
    } catch (error) {
      const appError = error instanceof AppError ? error : undefined;
      return { reason: reasonOf(appError), storage, detail: appError?.logDetail ?? 'The probe failed unexpectedly' };
    }
  };
}

function reasonOf(error: AppError | undefined): ProbeFailure['reason'] {
  if (error instanceof StorageReplaced) return 'replaced';
  if (error instanceof StorageUnfit) return 'unfit';
  return isDiskFault(error?.cause) ? 'disk' : 'storage';
}
