/** Owns the commands for BIN data: a data set imported or rolled back, and a file of BINs enriched. */
import { type Command, InvalidArgumentError } from 'commander';
import type { RowFault } from '../bin/dataset-file.ts';
import type { DatasetVersion } from '../bin/stored-dataset.ts';
import { addEnrichCommand } from './bin-enrich.ts';
import type { ImportOptions } from './run-bin.ts';
import { answer, type Terminal } from './terminal.ts';

const SHAPES_HELP = `
The header tells which of three shapes the file has: binlist ranges (iin_start, iin_end, …), bin-list-data (BIN, Brand, …,
isoCode2, …) or binlist-data (bin, brand, …, alpha_2, …). Running processes change over while they answer.`;

export function addBinCommands(program: Command, terminal: Terminal): void {
  const bin = program.command('bin').description('BIN data sets, and files of BINs');

  bin
    .command('import')
    .description('check a data set (CSV, may be gzipped) row by row, keep it, and let it count in every process')
    .argument('<file>', 'the CSV file')
    .option('--source <text>', 'where it comes from; its name where left out')
    .option('--date <date>', 'the date of the facts, as 2026-11-21; that of the file where left out', dateOf)
    .option('--licence <text>', 'under what licence it may be used, for pages')
    .option('--bad-rows <file>', 'write all rows that were left out there: line and reason, never their digits')
    .option('--json', 'print {"id", "source", "rows", "badRows", …} (use npm run -s)')
    .addHelpText('after', SHAPES_HELP)
    .action(async (file: string, options: ImportOptions & { json?: boolean }) => {
      const { importFile } = await import('./run-bin.ts');
      const version = await importFile(terminal, file, options);
      const text = importText(version, options, fileNote(terminal));
      answer(terminal, { json: options.json === true, data: dataOf(version), text });
    });

  bin
    .command('rollback')
    .description('let the data set count that did so before the last import')
    .option('--json', 'print the data set that counts now (use npm run -s)')
    .action(async ({ json = false }: { json?: boolean }) => {
      const { rollback } = await import('./run-bin.ts');
      const version = await rollback(terminal);
      answer(terminal, { json, data: dataOf(version), text: countsNow(version, fileNote(terminal)) });
    });

  addEnrichCommand(bin, terminal);
}

function dateOf(text: string): string {
  const time = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  // 2026-02-31 is read as the third of March.
  if (Number.isNaN(time) || new Date(time).toISOString().slice(0, 10) !== text)
    throw new InvalidArgumentError('Give a date as 2026-11-21.');
  return text;
}

function dataOf({ id, source, asOf, licence, report, importedAt, bytes }: DatasetVersion) {
  const { shape, taken: rows, skipped: badRows, faults } = report;
  return { id, source, asOf, licence, shape, rows, badRows, faults, importedAt, bytes };
}

/** Undefined where no file of the settings stands before what is imported, as far as this command's own settings say. */
function fileNote({ source }: Terminal): string | undefined {
  return source.env.BIN_DATASET_FILE?.trim()
    ? 'BIN_DATASET_FILE is set, and wins over it: unset it and start Gatehouse again to let this one count.'
    : undefined;
}

function countsNow({ source, asOf, licence, size }: DatasetVersion, note: string | undefined): string {
  const described = `${source}, as of ${asOf}, ${inRows(size)} (${licence.replace(/\.$/, '')}).`;
  return note === undefined ? `What counts now: ${described}` : `Kept: ${described}\n${note}`;
}

function inRows(count: number, kind = ''): string {
  return `${count.toLocaleString('en-GB')} ${kind}${count === 1 ? 'row' : 'rows'}`;
}

function importText(version: DatasetVersion, { badRows }: ImportOptions, note: string | undefined): string {
  const { taken, skipped, faults, shape } = version.report;
  const lines = [`Imported ${inRows(taken)} of the shape ${shape}. ${countsNow(version, note)}`];
  if (skipped > 0) lines.push(`Left out ${inRows(skipped, 'bad ')}:`);
  for (const { line, reason } of faults) lines.push(`  line ${line}: ${REASONS[reason]}`);
  const more = skipped - faults.length;
  if (more > 0)
    lines.push(
      `  and ${more.toLocaleString('en-GB')} more: ${badRows ? `see ${badRows}` : 'give --bad-rows FILE to have them all'}`,
    );
  return lines.join('\n');
}

const REASONS: Readonly<Record<RowFault['reason'], string>> = {
  not_6_to_8_digits: 'the range does not begin and end with 6 to 8 digits',
  range_reversed: 'the range ends before it begins',
  country_missing: 'no country is named',
  country_unknown: 'the country is none of ISO 3166-1',
  not_csv: 'the line is no CSV: a quote is not closed, or it is longer than 64 KB',
  too_few_columns: 'there are fewer columns than in the header',
};
