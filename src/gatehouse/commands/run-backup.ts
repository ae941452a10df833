/** Implements `backup`. Loaded only when it runs. */
import { copyOut } from '../../shared/storage/copy.ts';
import { keys } from '../../shared/storage/keys.ts';
import { type WrittenBackup, writeBackup } from './backup-file.ts';
import { tallyOf } from './fill-storage.ts';
import { assertFollowsLast } from './last-backup.ts';
import { withStorage } from './open-storage.ts';
import { auditOperator } from './operator-trail.ts';
import { type Terminal, withProgress } from './terminal.ts';

/** @param options `replace`: overwrite an existing file; `newStorage`: the last backup may be of another storage */
export function backUp(
  terminal: Terminal,
  file: string,
  { replace, newStorage }: { replace: boolean; newStorage: boolean },
): Promise<WrittenBackup> {
  return withStorage(terminal.source, async ({ store, sealer, identity }) => {
    if (!newStorage) await assertFollowsLast(file, { store, identity });
    // Counting takes a whole read, and only the progress bar needs the total.
    const count = terminal.err.isTTY ? (await tallyOf(store)).count() : 0;
    const seal = (digest: string) => sealer.seal(digest, keys.backupSeal);
    const written = await withProgress(terminal, 'Writing', count, (advance) =>
      writeBackup({ file, replace, storage: identity, items: copyOut(store), seal, advance }),
    );
    const { end, bytes } = written;
    await auditOperator(store, { event: 'storage.backed_up', facts: { items: end.items, bytes, sha256: end.sha256 } });
    return written;
  });
}
