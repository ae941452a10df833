/** The command `bin enrich`: adds BIN facts to a CSV that has a column of BINs. */
import type { Command } from 'commander';
import type { EnrichReport } from '../bin/enrich.ts';
import type { EnrichOptions } from './enrich-file.ts';
import { printResult, type Terminal } from './terminal.ts';

const HELP = `
Each row gets the columns bin_scheme, bin_type, bin_brand, bin_prepaid, bin_country, bin_bank, bin_source, bin_as_of,
bin_digits_matched and bin_problem. Without --out it is written to standard output (then use npm run -s). If any value has more than
8 digits, the column seems to hold card numbers: the command stops and leaves no file. BINs that the data set lacks are looked
up at the remote service, without the calls that BIN_SERVICE_MONTHLY_USER_RESERVE reserves for users.`;

export function addEnrichCommand(bin: Command, terminal: Terminal): void {
  bin
    .command('enrich')
    .description('copy a CSV and add the facts about the BINs in one of its columns')
    .argument('<file>', 'the CSV file; its first line must name the columns')
    .requiredOption('--column <name>', 'the column that holds the first 6 to 8 digits')
    .option('--out <file>', 'write there instead of standard output')
    .option('--json', 'print {"rows", "outcomes"} at the end; only with --out')
    .addHelpText('after', HELP)
    .action(async (file: string, options: EnrichOptions & { json?: boolean }) => {
      const { enrichFile } = await import('./enrich-file.ts');
      const report = await enrichFile(terminal, file, options);
      if (options.out === undefined) return void terminal.err.write(`${textOf(report)}\n`);
      return printResult(terminal, { json: options.json === true, data: report, text: textOf(report) });
    });
}

function textOf({ rows, outcomes }: EnrichReport): string {
  const lines = Object.entries(outcomes).map(([outcome, count]) => `  ${outcome}: ${count.toLocaleString('en-GB')}`);
  const number = `${rows.toLocaleString('en-GB')} ${rows === 1 ? 'row' : 'rows'}`;
  return [`Enriched ${number}, by source of the facts or problem:`, ...lines].join('\n');
}
