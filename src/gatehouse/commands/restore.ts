/** The command `restore`: puts a backup into an empty storage. */
import type { Command } from 'commander';
import { AUDIT_EVENTS } from '../audit/kinds.ts';
import type { EndedAgain } from './ended-since.ts';
import type { Filled } from './fill-storage.ts';
import { printResult, type Terminal } from './terminal.ts';

const HELP = `
The whole file is checked before anything is written: it must be complete, unaltered, and sealed with keys in ENCRYPTION_KEYS.
Then everything written is read again and compared. After an interrupted restore Gatehouse does not start with the storage:
run the command again. Tokens that were revoked and users who were disabled after the backup are valid again: if you have an export
of the audit trail since then, --audit prints a command for each. It runs none of them.`;

interface Options {
  replace?: boolean;
  lostKey?: string[];
  audit?: string;
  json?: boolean;
}

export function define(restore: Command, terminal: Terminal): void {
  restore
    .argument('<file>', 'a file written by the backup command')
    .option('--replace', 'delete everything in the storage first')
    .option('--lost-key <kid...>', 'restore without this lost key; afterwards run: keys forget <kid>')
    .option(
      '--audit <export>',
      'print a command for each record that, by this export of the audit trail, was ended after the backup',
    )
    .option(
      '--json',
      'print {"file", "createdAt", "items", "expired"}, with --audit also "ended": [{"at", "event", "line"}] (use npm run -s)',
    )
    .addHelpText('after', HELP)
    .action(async (file: string, options: Options) => {
      const { replace = false, lostKey: lostKeys = [], audit, json = false } = options;
      const { restoreBackup } = await import('./restore-backup.ts');
      const { createdAt, items, expired, ended } = await restoreBackup(terminal, file, { replace, lostKeys, audit });
      const text = [textOf(createdAt, { items, expired }), ...(ended ? endedText(ended) : [])].join('\n');
      printResult(terminal, { json, data: { file, createdAt, items, expired, ended }, text });
    });
}

function textOf(createdAt: string, { items, expired }: Filled): string {
  const lines = [
    `Restored ${items.toLocaleString('en-GB')} items from ${createdAt}, and verified them by reading them again.`,
  ];
  if (expired > 0) lines.push(`Skipped ${expired.toLocaleString('en-GB')} that have expired since.`);
  return lines.join('\n');
}

function endedText(ended: readonly EndedAgain[]): string[] {
  if (ended.length === 0) return ['By the audit export, the restore brought back nothing that was ended since.'];
  return [
    'By the audit export, the following was ended after the backup, and the restore brought it back. Start Gatehouse, set GATEHOUSE to its',
    'URL and ADMIN_TOKEN to an admin token with the scope write, and run the lines for everything that must end again:',
    ...ended.flatMap(({ at, event, line }) => ['', `# ${at} ${AUDIT_EVENTS[event]}`, line]),
  ];
}
