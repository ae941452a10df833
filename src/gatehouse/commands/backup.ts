/** The command `backup`: writes everything that is stored to a file while Gatehouse runs. */
import type { Command } from 'commander';
import type { WrittenBackup } from './backup-file.ts';
import { addBackupVerifyCommand } from './backup-verify.ts';
import { printResult, type Terminal } from './terminal.ts';

const HELP = `
The file holds every record, index, counter and log entry. Sealed records stay sealed, and the file holds no keys: keep
ENCRYPTION_KEYS elsewhere. On SQLite the backup is a snapshot. On Redis (7 or later) it is read while Gatehouse writes: each
record is consistent, and so are records of one hash tag, but other records may be of different moments.

If the last backup in the folder of the file holds users, a storage without users, or another storage, is refused: its backup would
replace the good ones.`;

export function addBackupCommand(program: Command, terminal: Terminal): void {
  const backup = program
    .command('backup')
    .description('write everything that is stored to a file, while Gatehouse runs')
    .argument('<file>', 'the file; only its owner can read it')
    .option('--force', 'overwrite an existing file')
    .option('--new-storage', 'the storage was restored or moved, or begins anew, since the last backup in that folder')
    .option('--json', 'print {"file", "made", "items", "kinds", "sha256", "bytes"} (use npm run -s)')
    .addHelpText('after', HELP)
    .action(async (file: string, options: { force?: boolean; newStorage?: boolean; json?: boolean }) => {
      const { force: replace = false, newStorage = false, json = false } = options;
      const { backUp } = await import('./run-backup.ts');
      const written = await backUp(terminal, file, { replace, newStorage });
      const { items, kinds, sha256 } = written.end;
      const data = { file, made: written.made, items, kinds, sha256, bytes: written.bytes };
      printResult(terminal, { json, data, text: textOf(file, written) });
    });
  addBackupVerifyCommand(backup, terminal);
}

function textOf(file: string, { made, end, bytes }: WrittenBackup): string {
  const number = end.items.toLocaleString('en-GB');
  return `${file} holds ${number} items as of ${made} (${bytes.toLocaleString('en-GB')} bytes).\nSHA-256 of its items: ${end.sha256}`;
}
