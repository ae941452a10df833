/** Implements `restore`. Loaded only when it runs. */
import { checkKeyRing } from '../storage/key-check.ts';
import { type ReadBackup, readBackup } from './backup-file.ts';
import { checkBackup } from './check-backup.ts';
import { type Filled, fillStorage } from './fill-storage.ts';
import { withStore } from './open-storage.ts';
import { auditOperator } from './operator-trail.ts';
import { howToEmpty, readPlace } from './storage-place.ts';
import type { Terminal } from './terminal.ts';

interface RestoreOptions {
  replace: boolean;
  lostKeys: readonly string[];
}

export async function restore(terminal: Terminal, file: string, options: RestoreOptions): Promise<ReadBackup & Filled> {
  const place = readPlace(terminal.source);
  const { sealer } = place;
  const backup = await checkBackup(terminal, file, { sealer, lostKeys: options.lostKeys });
  const remedy = `${howToEmpty(place)} To delete all it holds and restore in its place, add --replace.`;
  const { items: count, sha256 } = backup.end;
  const filled = await withStore(place, (store) =>
    fillStorage({
      ...{ store, terminal, count, replace: options.replace, remedy },
      items: () => readBackup(file),
      async finish() {
        await checkKeyRing(store, sealer, options.lostKeys);
        await auditOperator(store, { event: 'storage.restored', facts: { made: backup.made, items: count, sha256 } });
      },
    }),
  );
  return { ...backup, ...filled };
}
