/** Whether the storage takes writes, and why not: for `/readyz`, the metrics and the log. */
import type { StorageConfig } from '../config/config.ts';
import { AppError } from '../errors.ts';
import { storageName } from './name.ts';
import { StorageReplaced, StorageUnfit } from './replaced.ts';
import { isDiskFault } from './sqlite/faults.ts';
import type { Store } from './store.ts';

type PlaceConfig = Pick<StorageConfig, 'redis' | 'dataDirectory'>;

/** Why the storage takes no write. */
export interface ProbeFailure {
  reason: 'replaced' | 'unfit' | 'disk' | 'storage';
  /** Its name for operators. */
  storage: string;
  detail: string;
}

/** Resolves with undefined if the store can take a write now. Never rejects. */
export type Probe = () => Promise<ProbeFailure | undefined>;

export function storageProbe(store: Pick<Store, 'ready'>, config: PlaceConfig): Probe {
  const storage = storageName(config);
  return async () => {
    try {
      await store.ready();
      return undefined;
    } catch (error) {
      const known = error instanceof AppError ? error : undefined;
      return { reason: reasonOf(known), storage, detail: known?.logDetail ?? 'The probe failed unexpectedly' };
    }
  };
}

function reasonOf(error: AppError | undefined): ProbeFailure['reason'] {
  if (error instanceof StorageReplaced) return 'replaced';
  if (error instanceof StorageUnfit) return 'unfit';
  return isDiskFault(error?.cause) ? 'disk' : 'storage';
}
