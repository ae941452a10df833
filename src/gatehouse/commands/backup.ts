/** The command `backup`: writes everything that is stored to a file while Gatehouse runs. */
import type { Command } from 'commander';
import type { WrittenBackup } from './backup-file.ts';
import { addBackupVerifyCommand } from './backup-verify.ts';
import { printResult, type Terminal, withProgress } from './terminal.ts';

const HELP = `
The file holds every record, index, counter and log entry. Sealed records stay sealed, and the file holds no keys: keep
ENCRYPTION_KEYS elsewhere. On SQLite the backup is a snapshot. On Redis (7 or later) it is read while Gatehouse writes: each
record is consistent, and so are records of one hash tag, but other records may be from different moments.

If the last backup in the folder of the file holds users, a storage without users, or a different storage, is refused, because its
backup would replace the good ones.`;

export function define(backup: Command, terminal: Terminal): void {
  backup
    .argument('<file>', 'the file; only its owner can read it')
    .option('--force', 'overwrite an existing file')
    .option('--new-storage', 'the storage was restored, moved or started empty since the last backup in that folder')
    .option('--json', 'print {"file", "createdAt", "items", "kinds", "sha256", "bytes"} (use npm run -s)')
    .addHelpText('after', HELP)
    .action(async (file: string, options: { force?: boolean; newStorage?: boolean; json?: boolean }) => {
      const { force: replace = false, newStorage = false, json = false } = options;
      const written = await backUp(terminal, file, { replace, newStorage });
      const { items, kinds, sha256 } = written.end;
      const data = { file, createdAt: written.createdAt, items, kinds, sha256, bytes: written.bytes };
      printResult(terminal, { json, data, text: textOf(file, written) });
    });
  addBackupVerifyCommand(backup, terminal);
}

/** @param options `replace`: overwrite an existing file; `newStorage`: the last backup may be of a different storage */
async function backUp(
  terminal: Terminal,
  file: string,
  { replace, newStorage }: { replace: boolean; newStorage: boolean },
): Promise<WrittenBackup> {
  const { copyOut } = await import('../../shared/storage/copy.ts');
  const { keys } = await import('../../shared/storage/keys.ts');
  const { writeBackup } = await import('./backup-file.ts');
  const { tallyOf } = await import('./fill-storage.ts');
  const { assertFollowsLast } = await import('./last-backup.ts');
  const { withStorage } = await import('./open-storage.ts');
  const { auditOperator } = await import('./operator-trail.ts');
  return withStorage(terminal.source, async ({ store, sealer, identity }) => {
    if (!newStorage) await assertFollowsLast(file, { store, identity });
    // Counting reads the whole storage, and only the progress bar needs the total.
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

function textOf(file: string, { createdAt, end, bytes }: WrittenBackup): string {
  const number = end.items.toLocaleString('en-GB');
  return `${file} holds ${number} items from ${createdAt} (${bytes.toLocaleString('en-GB')} bytes).\nSHA-256 of its items: ${end.sha256}`;
}
