/** The commands `bin import` and `bin rollback` for BIN data sets, and `bin enrich` for files of BINs. */
import { createRequire } from 'node:module';
import { type Command, InvalidArgumentError } from 'commander';
import type { FileColumns } from '../../shared/bin/record.ts';
import type { UsedDataset } from '../bin/rollback.ts';
import type { DatasetVersion } from '../bin/stored-dataset.ts';
import { addEnrichCommand } from './bin-enrich.ts';
import type { ImportOptions } from './operator-datasets.ts';
import { printResult, type Terminal } from './terminal.ts';

// Commander does not wait for the help and the values of options, so `import()` is too late for these.
const require = createRequire(import.meta.url);

const shapesHelp = () => `
The header determines the shape of the file: binlist ranges (iin_start, iin_end, …), bin-list-data (BIN, Brand, …, isoCode2, …),
binlist-data (bin, brand, …, alpha_2, …) or Mastercard account ranges (ACCOUNT_RANGE_FROM, ACCOUNT_RANGE_TO, …). For any other
header, name the columns with --columns: ${columnNames().join(', ')}.
Running processes switch to the new data set without a restart.`;

export function define(bin: Command, terminal: Terminal): void {
  bin
    .command('import')
    .description('check a data set (CSV, may be gzipped) row by row, store it, and use it in every process')
    .argument('<file>', 'the CSV file')
    .option('--source <text>', 'source of the data set; default: the name of the file')
    .option('--as-of <date>', 'the date of the facts, such as 2026-11-21; default: the date of the file', dateOf)
    .option('--licence <text>', 'licence of the data set, shown on pages')
    .option('--columns <list>', 'columns of a file of another shape, such as start=LOW,end=HIGH,country=ISO', columnsOf)
    .option('--bad-rows <file>', 'write line and reason of every skipped row there, never its digits')
    .option('--json', 'print {"id", "source", "rows", "badRows", …} (use npm run -s)')
    .addHelpText('after', shapesHelp)
    .action(async (file: string, options: ImportOptions & { json?: boolean }) => {
      const { importFile } = await import('./operator-datasets.ts');
      const version = await importFile(terminal, file, options);
      const text = importText(version, options, fileNote(terminal));
      printResult(terminal, { json: options.json === true, data: dataOf(version), text });
    });

  bin
    .command('rollback')
    .description('restore the data set before the last import: an earlier import, or the built-in data set')
    .option('--json', 'print the data set that is used now (use npm run -s)')
    .action(async ({ json = false }: { json?: boolean }) => {
      const { rollback } = await import('./operator-datasets.ts');
      const version = await rollback(terminal);
      printResult(terminal, { json, data: dataOf(version), text: inUseText(version, fileNote(terminal)) });
    });

  addEnrichCommand(bin, terminal);
}

function columnNames(): readonly string[] {
  const { COLUMN_NAMES }: typeof import('../../shared/bin/record.ts') = require('../../shared/bin/record.ts');
  return COLUMN_NAMES;
}

function columnsOf(text: string): FileColumns {
  const { fileColumns }: typeof import('../bin/file-columns.ts') = require('../bin/file-columns.ts');
  const { data, error } = fileColumns.safeParse(text);
  if (error) throw new InvalidArgumentError(error.issues[0]?.message ?? '');
  return data;
}

function dateOf(text: string): string {
  const { z }: typeof import('zod') = require('zod');
  if (!z.iso.date().safeParse(text).success) throw new InvalidArgumentError('Use a date such as 2026-11-21.');
  return text;
}

function dataOf(dataset: UsedDataset) {
  const { id, source, asOf, licence, importedAt } = dataset;
  if (!('report' in dataset)) return { id, source, asOf, licence, rows: dataset.size, importedAt };
  const { report, bytes } = dataset;
  const { shape, taken: rows, skipped: badRows, faults, conflicts, notUnderstood } = report;
  const reasons = report.reasons.map(({ count, first: { reason, line } }) => ({ reason, rows: count, line }));
  const about = { id, source, asOf, licence, shape, rows, badRows };
  return { ...about, faults, reasons, conflicts, notUnderstood, importedAt, bytes };
}

/** A warning if BIN_DATASET_FILE takes precedence over imports, according to the settings of this command. */
function fileNote({ source }: Terminal): string | undefined {
  return source.env.BIN_DATASET_FILE?.trim()
    ? 'BIN_DATASET_FILE is set and takes precedence: unset it and restart Gatehouse to use this data set.'
    : undefined;
}

function inUseText({ source, asOf, licence, size }: UsedDataset, note: string | undefined): string {
  const description = `${source}, as of ${asOf}, ${inRows(size)} (${licence.replace(/\.$/, '')}).`;
  return note === undefined ? `Now in use: ${description}` : `Stored: ${description}\n${note}`;
}

function inRows(count: number, kind = ''): string {
  return `${count.toLocaleString('en-GB')} ${kind}${count === 1 ? 'row' : 'rows'}`;
}

const more = (count: number) => `${count.toLocaleString('en-GB')} more`;

function importText(version: DatasetVersion, { badRows }: ImportOptions, note: string | undefined): string {
  const { taken, skipped, faults, reasons, conflicts, notUnderstood, shape } = version.report;
  const lines = [`Imported ${inRows(taken)} of the shape ${shape}. ${inUseText(version, note)}`];
  if (skipped > 0) lines.push(`Skipped ${inRows(skipped, 'bad ')}:`);
  const words: typeof import('../../shared/bin/row-fault.ts') = require('../../shared/bin/row-fault.ts');
  for (const fault of faults) lines.push(`  line ${fault.line}: ${words.describeFault(fault)}`);
  const unlisted = skipped - faults.length;
  if (unlisted > 0) {
    const list = badRows ? `see ${badRows}` : 'use --bad-rows FILE to list them all';
    lines.push(`  and ${more(unlisted)}: ${list}`, 'All of them by reason:');
    for (const reason of reasons) lines.push(`  ${words.describeReason(reason)}`);
  }
  if (conflicts.count > 0) {
    lines.push(
      words.describeConflicts(conflicts),
      ...conflicts.ranges.map((range) => `  ${words.linesOf(range.lines)}`),
    );
    const others = conflicts.count - conflicts.ranges.length;
    if (others > 0) lines.push(`  and ${more(others)}`);
  }
  if (notUnderstood.length > 0) {
    const { describeNotUnderstood }: typeof import('../../shared/bin/not-understood.ts') =
      require('../../shared/bin/not-understood.ts');
    lines.push(
      'These values are not understood. They are left out; a name that is no network’s becomes part of the brand:',
    );
    for (const column of notUnderstood) lines.push(`  ${describeNotUnderstood(column)}`);
  }
  return lines.join('\n');
}
