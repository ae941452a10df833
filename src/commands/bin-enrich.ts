/** Owns `bin enrich`: a CSV with a column of BINs, of any length, written again with the facts of each. */
import type { Command } from 'commander';
import type { EnrichReport } from '../bin/enrich.ts';
import type { EnrichOptions } from './run-enrich.ts';
import { answer, type Terminal } from './terminal.ts';

const HELP = `
Each row gets the columns bin_scheme, bin_type, bin_brand, bin_prepaid, bin_country, bin_bank, bin_source, bin_as_of,
bin_digits_matched and bin_problem. Without --out it goes to standard output (then use npm run -s). A column with more than
8 digits in any row is taken for card numbers: the work ends there, and no file is left. The remote service is asked for what
the data set lacks, but not for the calls that BIN_SERVICE_BULK_RESERVE keeps.`;

export function addEnrichCommand(bin: Command, terminal: Terminal): void {
  bin
    .command('enrich')
    .description('write a CSV again, with what is known of the BINs in one of its columns')
    .argument('<file>', 'the CSV file; its first line names the columns')
    .requiredOption('--column <name>', 'the column that holds the first 6 to 8 digits')
    .option('--out <file>', 'write there instead of standard output')
    .option('--json', 'print {"rows", "outcomes"} at the end; only with --out')
    .addHelpText('after', HELP)
    .action(async (file: string, options: EnrichOptions & { json?: boolean }) => {
      const { enrichFile } = await import('./run-enrich.ts');
      const report = await enrichFile(terminal, file, options);
      if (options.out === undefined) return void terminal.err.write(`${textOf(report)}\n`);
      return answer(terminal, { json: options.json === true, data: report, text: textOf(report) });
    });
}

function textOf({ rows, outcomes }: EnrichReport): string {
  const lines = Object.entries(outcomes).map(([outcome, count]) => `  ${outcome}: ${count.toLocaleString('en-GB')}`);
  return [`Enriched ${rows.toLocaleString('en-GB')} rows, by source of the facts or problem:`, ...lines].join('\n');
}
