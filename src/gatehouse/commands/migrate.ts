/** The command `migrate`: moves everything from one storage to another, after which the old one cannot be used. */
import type { Command } from 'commander';
import type { Filled } from './fill-storage.ts';
import { printResult, type Terminal } from './terminal.ts';

interface MigrateOptions {
  from: string;
  to: string;
  json?: boolean;
}

const HELP = `
A storage is sqlite (in DATA_DIR), redis (REDIS_URL, REDIS_CLUSTER or REDIS_SENTINELS), sqlite:FOLDER, or a redis:// or
rediss:// URL. Command lines are visible to other users: put a URL with a password into the settings.

1. Stop every Gatehouse.
2. Set REDIS_URL (or another Redis setting) in addition to DATA_DIR, and run this command. It may be interrupted and run again.
3. Start Gatehouse with the new storage. Gatehouse no longer starts with the old one; delete it when you are sure.`;

export function define(migrate: Command, terminal: Terminal): void {
  migrate
    .option('--from <storage>', 'the current storage', 'sqlite')
    .option('--to <storage>', 'the new storage, which must be empty', 'redis')
    .option('--json', 'print {"from", "to", "items", "expired"} (use npm run -s)')
    .addHelpText('after', HELP)
    .action(async ({ from, to, json = false }: MigrateOptions) => {
      const { moveStorage } = await import('./move-storage.ts');
      const data = await moveStorage(terminal, from, to);
      printResult(terminal, { json, data, text: textOf(data) });
    });
}

function textOf({ from, to, items, expired }: Filled & { from: string; to: string }): string {
  const lines = [
    `Moved ${items.toLocaleString('en-GB')} items from ${from} to ${to}, and verified them by reading them again.`,
    `Start Gatehouse with ${to}. It no longer starts with the old storage.`,
  ];
  if (expired > 0) lines.splice(1, 0, `Skipped ${expired.toLocaleString('en-GB')} that had expired.`);
  return lines.join('\n');
}
