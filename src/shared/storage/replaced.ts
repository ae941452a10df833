/** The errors of a store that a running process may no longer use. Both end by themselves only if their cause does. */
import { AppError } from '../errors.ts';

const RETRY_AFTER_SECONDS = 30;

/** The store is another one than at the start, or its data is gone. */
export class StorageReplaced extends AppError {
  /** @param detail for the log and `/readyz` */
  constructor(detail: string) {
    super('storage_unavailable', { logDetail: detail, retryAfterSeconds: RETRY_AFTER_SECONDS });
    this.name = 'StorageReplaced';
  }
}

/** The store is the same, but with its present settings a start would be refused. */
export class StorageUnfit extends AppError {
  /** @param detail for the log and `/readyz` */
  constructor(detail: string) {
    super('storage_unavailable', { logDetail: detail, retryAfterSeconds: RETRY_AFTER_SECONDS });
    this.name = 'StorageUnfit';
  }
}
