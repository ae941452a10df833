/** The errors of a store that a running process may no longer use. The process recovers once the cause is gone. */
import { AppError } from '../errors.ts';

const RETRY_AFTER_SECONDS = 30;

/** The store is not the one that this process opened, or its data is gone. */
export class StorageReplaced extends AppError {
  /** @param detail text for the log and `/readyz` */
  constructor(detail: string) {
    super('storage_unavailable', { logDetail: detail, retryAfterSeconds: RETRY_AFTER_SECONDS });
    this.name = 'StorageReplaced';
  }
}

/** The store is the same, but a start would be refused with its present settings. */
export class StorageUnfit extends AppError {
  /** @param detail text for the log and `/readyz` */
  constructor(detail: string) {
    super('storage_unavailable', { logDetail: detail, retryAfterSeconds: RETRY_AFTER_SECONDS });
    this.name = 'StorageUnfit';
  }
}
