/** The error for a storage that exists but must not be used in its present state. */
import { StartRefused } from '../errors.ts';

/** Thrown when an operator must act. The message says how. */
export class StorageRefused extends StartRefused {
  /** @param cause has a default, because a refusal without a cause is reported as a fault of the settings */
  constructor(message: string, cause: unknown = new Error(message)) {
    super([message], { cause });
    this.name = 'StorageRefused';
  }
}

/**
 * Returns the error for data that is older than any that this release reads. Only release candidates wrote such data.
 */
export function releaseCandidateRefused(): StorageRefused {
  return new StorageRefused(
    'The data is from a release candidate, and this release cannot read it. Start with an empty storage: move the database ' +
      'and its accompanying files out of DATA_DIR, or use an empty Redis database. All stored data is lost: users must sign in ' +
      'and connect again, and disabled users must be disabled again. Create relay tokens, service accounts, admin tokens and ' +
      'webhooks again, and import BIN data again. Apps in CONNECTED_APPS_FILE stay; register the others with: ' +
      'npm run gatehouse -- apps apply FILE',
  );
}
