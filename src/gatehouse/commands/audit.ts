/** The command `audit export`: writes the whole audit trail as NDJSON. */
import { once } from 'node:events';
import type { Command } from 'commander';
import { AppError } from '../../shared/errors.ts';
import { endOf, isRange, RANGE_ADVICE, startOf, TIME_ADVICE } from '../audit/time-limits.ts';
import type { Terminal } from './terminal.ts';

export function define(audit: Command, terminal: Terminal): void {
  audit
    .command('export')
    .description('write every entry as a line of JSON (NDJSON), oldest first')
    .option('--from <time>', 'only entries since this time, such as 2026-11-21 or 2026-11-21T08:00:00Z')
    .option('--to <time>', 'only entries until this time; a date includes the whole day')
    .option('--json', 'has no effect: the entries are always JSON')
    .addHelpText('after', '\nUse npm run -s, so that only the entries are written.')
    .action(async ({ from, to }: { from?: string; to?: string }) => {
      const filter = { from: limitOf(from, startOf), to: limitOf(to, endOf) };
      if (!isRange({ from, to })) throw new AppError('invalid_request', { detail: RANGE_ADVICE });
      await exportTrail(terminal, filter, { from, to });
    });
}

/** @param limits as they were entered, for the audit entry */
async function exportTrail(
  terminal: Terminal,
  filter: { from: number | undefined; to: number | undefined },
  limits: { from: string | undefined; to: string | undefined },
): Promise<void> {
  const { withStorage } = await import('./open-storage.ts');
  const { auditOperator, operatorTrail } = await import('./operator-trail.ts');
  await withStorage(terminal.source, async ({ store }) => {
    await auditOperator(store, { event: 'audit.exported', facts: limits });
    for await (const record of operatorTrail(store).export(filter)) {
      if (!terminal.out.write(`${JSON.stringify(record)}\n`)) await once(terminal.out, 'drain');
    }
  });
}

function limitOf(text: string | undefined, parse: (text: string) => number | undefined): number | undefined {
  const limit = text === undefined ? undefined : parse(text);
  if (text !== undefined && limit === undefined) throw new AppError('invalid_request', { detail: TIME_ADVICE });
  return limit;
}
