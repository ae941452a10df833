/** Owns files that a command writes: under another name until they are whole, so that nobody takes half of one for all of it. */
import { closeSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';

export interface Draft {
  write(text: string): Promise<void>;
  /** Gives it its name, in place of a file that has it. */
  keep(): void;
  drop(): void;
}

/** The file is for its owner alone. @throws Error where it cannot be made */
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
