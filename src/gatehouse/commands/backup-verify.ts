/** The command `backup verify`: checks a backup without a storage. */
import type { Command } from 'commander';
import type { ReadBackup } from './backup-file.ts';
import { printResult, type Terminal } from './terminal.ts';

const HELP = `
Opens no storage, and writes nothing. With ENCRYPTION_KEYS it also checks that the file was sealed with these keys, and that
they open its records. Without them it checks only that the file is complete and matches its own digest.`;

export function addBackupVerifyCommand(backup: Command, terminal: Terminal): void {
  backup
    .command('verify')
    .description('check that a backup is complete, unaltered, and sealed with keys in ENCRYPTION_KEYS')
    .argument('<file>', 'a file written by the backup command')
    .option('--lost-key <kid...>', 'a lost key, which need not be in ENCRYPTION_KEYS')
    .option('--json', 'print {"file", "createdAt", "items", "kinds", "sha256", "sealChecked"} (use npm run -s)')
    .addHelpText('after', HELP)
    .action(async (file: string, { lostKey: lostKeys = [], json = false }: { lostKey?: string[]; json?: boolean }) => {
      const { createdAt, end, sealChecked } = await verify(terminal, file, lostKeys);
      const { items, kinds, sha256 } = end;
      const text = textOf(file, { createdAt, end }, sealChecked);
      printResult(terminal, { json, data: { file, createdAt, items, kinds, sha256, sealChecked }, text });
    });
}

/** `sealChecked`: the settings have keys, and the backup is sealed with them. @throws see `checkBackup` */
async function verify(terminal: Terminal, file: string, lostKeys: readonly string[]) {
  const { checkBackup } = await import('./check-backup.ts');
  const { readPlace } = await import('./storage-place.ts');
  const sealer = hasKeys(terminal) ? readPlace(terminal.source).sealer : undefined;
  return { ...(await checkBackup(terminal, file, { sealer, lostKeys })), sealChecked: sealer !== undefined };
}

const hasKeys = ({ source: { env } }: Terminal) =>
  [env.ENCRYPTION_KEYS, env.ENCRYPTION_KEYS_FILE].some((value) => value?.trim());

function textOf(file: string, { createdAt, end }: ReadBackup, sealChecked: boolean): string {
  const summary = `${file} is complete: ${end.items.toLocaleString('en-GB')} items from ${createdAt}.`;
  return sealChecked
    ? `${summary}\nIt is unaltered, and ENCRYPTION_KEYS has the keys to restore it.`
    : `${summary}\nIts seal was not checked: set ENCRYPTION_KEYS to check that it is unaltered and can be restored.`;
}
