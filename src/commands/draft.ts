/**
 * Writes a file under a temporary name until it is complete, so that a partial file is never taken for a complete one.
 */
import { closeSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';

export interface Draft {
  write(text: string): Promise<void>;
  /** Renames it to the final name, replacing an existing file. */
  keep(): void;
  drop(): void;
}

/** Only the file's owner can read it. @throws Error if it cannot be created */
export function openDraft(path: string): Draft {
  const draft = `${path}.part`;
  const file = openSync(draft, 'w', 0o600);
  return {
    async write(text) {
      writeSync(file, text);
    },
    keep() {
      closeSync(file);
      renameSync(draft, path);
    },
    drop() {
      closeSync(file);
      rmSync(draft, { force: true });
    },
  };
}
