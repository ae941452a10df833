/** The command `audit export`: writes the whole audit trail as NDJSON. */
import type { Command } from 'commander';
import type { Terminal } from './terminal.ts';

export function addAuditCommands(program: Command, terminal: Terminal): void {
  program
    .command('audit')
    .description('audit trail')
    .command('export')
    .description('write every entry as a line of JSON (NDJSON), oldest first')
    .option('--from <time>', 'from this time on, such as 2026-11-21 or 2026-11-21T08:00:00Z')
    .option('--to <time>', 'up to this time')
    .option('--json', 'as without it: the entries are JSON in any case')
    .addHelpText('after', '\nUse npm run -s, so that only the entries are written.')
    .action(async ({ from, to }: { from?: string; to?: string }) => {
      const filter = { from: timeOf(from), to: timeOf(to) };
      const { exportTrail } = await import('./run-audit.ts');
      await exportTrail(terminal, filter, { from, to });
    });
}

function timeOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const time = Date.parse(text);
  if (!Number.isNaN(time)) return time;
  throw new TypeError('Give a date as 2026-11-21, or a time as 2026-11-21T08:00:00Z.');
}
