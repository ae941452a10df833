/** The command `restore`: puts a backup into an empty storage. */
import type { Command } from 'commander';
import type { Filled } from './fill-storage.ts';
import { printResult, type Terminal } from './terminal.ts';

const HELP = `
The whole file is checked before anything is written: it must be complete, unaltered, and sealed with keys in ENCRYPTION_KEYS.
Then everything written is read again and compared. After an interrupted restore Gatehouse does not start with the storage:
run the command again. Tokens revoked and users disabled after the backup are valid again.`;

export function addRestoreCommand(program: Command, terminal: Terminal): void {
  program
    .command('restore')
    .description('put a backup into an empty storage, while Gatehouse is stopped')
    .argument('<file>', 'a file written by the backup command')
    .option('--replace', 'delete everything in the storage first')
    .option('--lost-key <kid...>', 'restore without this lost key; afterwards run: keys forget <kid>')
    .option('--json', 'print {"file", "made", "items", "expired"} (use npm run -s)')
    .addHelpText('after', HELP)
    .action(async (file: string, options: { replace?: boolean; lostKey?: string[]; json?: boolean }) => {
      const { replace = false, lostKey: lostKeys = [], json = false } = options;
      const { restore } = await import('./run-restore.ts');
      const { made, items, expired } = await restore(terminal, file, { replace, lostKeys });
      printResult(terminal, { json, data: { file, made, items, expired }, text: textOf(made, { items, expired }) });
    });
}

function textOf(made: string, { items, expired }: Filled): string {
  const lines = [
    `Restored ${items.toLocaleString('en-GB')} items as of ${made}, and verified them by reading them again.`,
  ];
  if (expired > 0) lines.push(`Skipped ${expired.toLocaleString('en-GB')} that have expired since.`);
  return lines.join('\n');
}
