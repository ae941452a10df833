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
