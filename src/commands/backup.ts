/** The command `backup`: writes everything that is stored to a file while Gatehouse runs. */
import type { Command } from 'commander';
import { AppError } from '../errors.ts';
import { copyOut } from '../storage/copy.ts';
import { keys } from '../storage/keys.ts';
import { type WrittenBackup, writeBackup } from './backup-file.ts';
import { addBackupVerifyCommand } from './backup-verify.ts';
import { tallyOf } from './fill-storage.ts';
import { withStorage } from './open-storage.ts';
import { auditOperator } from './operator-trail.ts';
import { printResult, type Terminal, withProgress } from './terminal.ts';

const HELP = `
The file holds every record, index, counter and log entry. Sealed records stay sealed, and the file holds no keys: keep
ENCRYPTION_KEYS elsewhere. On SQLite the backup is a snapshot. On Redis (7 or later) it is read while Gatehouse writes: each
record is consistent, and so are records of one hash tag, but other records may be of different moments.`;

export function addBackupCommand(program: Command, terminal: Terminal): void {
  const backup = program
    .command('backup')
    .description('write everything that is stored to a file, while Gatehouse runs')
    .argument('<file>', 'the file; only its owner can read it')
    .option('--force', 'overwrite an existing file')
    .option('--json', 'print {"file", "made", "items", "kinds", "sha256", "bytes"} (use npm run -s)')
    .addHelpText('after', HELP)
    .action(async (file: string, { force = false, json = false }: { force?: boolean; json?: boolean }) => {
      const written = await backUp(terminal, file, force);
      const { items, kinds, sha256 } = written.end;
      const data = { file, made: written.made, items, kinds, sha256, bytes: written.bytes };
      printResult(terminal, { json, data, text: textOf(file, written) });
    });
  addBackupVerifyCommand(backup, terminal);
}

function backUp(terminal: Terminal, file: string, replace: boolean): Promise<WrittenBackup> {
  return withStorage(terminal.source, async ({ store, sealer, wasEmpty }) => {
    if (wasEmpty) throw new AppError('not_found', { detail: 'The storage is empty: check DATA_DIR or REDIS_URL.' });
    // Counting takes a whole read, and only the progress bar needs the total.
    const count = terminal.err.isTTY ? (await tallyOf(store)).count() : 0;
    const seal = (digest: string) => sealer.seal(digest, keys.backupSeal);
    const written = await withProgress(terminal, 'Writing', count, (advance) =>
      writeBackup({ file, replace, items: copyOut(store), seal, advance }),
    );
    const { end, bytes } = written;
    await auditOperator(store, { event: 'storage.backed_up', facts: { items: end.items, bytes, sha256: end.sha256 } });
    return written;
  });
}

function textOf(file: string, { made, end, bytes }: WrittenBackup): string {
  const number = end.items.toLocaleString('en-GB');
  return `${file} holds ${number} items as of ${made} (${bytes.toLocaleString('en-GB')} bytes).\nSHA-256 of its items: ${end.sha256}`;
}
