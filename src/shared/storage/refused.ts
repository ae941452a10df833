/** The storage is there, but must not be used as it is. */
import { StartRefused } from '../errors.ts';

/** An operator has to decide; the message says what to do. */
export class StorageRefused extends StartRefused {
  /** @param cause always set, since a refusal without a cause is taken for a fault of the settings */
  constructor(message: string, cause: unknown = new Error(message)) {
    super([message], { cause });
    this.name = 'StorageRefused';
  }
}

/** For data below the oldest version that this release reads: only release candidates wrote it. */
export function fromCandidate(): StorageRefused {
  return new StorageRefused(
    'The data is from a release candidate, which this release cannot read. Start with an empty storage: move the database ' +
      'and the files beside it away from DATA_DIR, or use an empty Redis database. Everything stored is lost: users sign in ' +
      'and connect again, and those who were disabled have to be disabled again. Create relay tokens, service accounts, admin ' +
      'tokens and webhooks anew, and import BIN data again. Apps in CONNECTED_APPS_FILE stay; register the others with: ' +
      'npm run gatehouse -- apps apply FILE',
  );
}
