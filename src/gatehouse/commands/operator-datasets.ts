/** Imports a BIN data set for an operator, or rolls back to the previous one. */
import { statSync } from 'node:fs';
import { builtInDataset } from '../../shared/bin/built-in-dataset.ts';
import type { Dataset } from '../../shared/bin/dataset.ts';
import { type FileReport, readDatasetFile } from '../../shared/bin/dataset-file.ts';
import type { FileColumns } from '../../shared/bin/record.ts';
import { describeFault, type RowFault } from '../../shared/bin/row-fault.ts';
import { AppError } from '../../shared/errors.ts';
import type { Store } from '../../shared/storage/store.ts';
import { type UsedDataset, usedDatasets } from '../bin/rollback.ts';
import { createStoredDatasets, type DatasetVersion } from '../bin/stored-dataset.ts';
import { withStorage } from './open-storage.ts';
import { auditedByOperator } from './operator-trail.ts';
import { type Terminal, withProgress } from './terminal.ts';
import { writeWholeFile } from './whole-file.ts';

export interface ImportOptions {
  source?: string;
  asOf?: string;
  licence?: string;
  badRows?: string;
  columns?: FileColumns;
}

export async function importFile(terminal: Terminal, file: string, options: ImportOptions): Promise<DatasetVersion> {
  return withStorage(terminal.source, async ({ store }) => {
    const { dataset, report } = await readChecked(terminal, file, options);
    const facts = { source: dataset.source, rows: report.taken, bad: report.skipped };
    return auditedByOperator(store, [{ event: 'bin_dataset.imported', facts }], () =>
      createStoredDatasets({ store, clock: Date.now }).save(dataset, report),
    );
  });
}

async function readChecked(terminal: Terminal, file: string, options: ImportOptions) {
  const about = {
    ...(options.source && { source: options.source }),
    ...(options.asOf && { asOf: options.asOf }),
    ...(options.licence && { licence: options.licence }),
  };
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const result = await withProgress(terminal, 'Importing', size, (onBytes) => {
    const readOptions = { about, columns: options.columns, onBytes };
    return options.badRows === undefined
      ? readDatasetFile(file, readOptions)
      : writeWholeFile(options.badRows, async (write) => {
          const faults: RowFault[] = [];
          const readFile = await readDatasetFile(file, { ...readOptions, onFault: (fault) => faults.push(fault) });
          // Lines that are not valid CSV are reported before earlier lines that have not been checked yet.
          faults.sort((left, right) => left.line - right.line);
          const rows = faults.map(
            (fault) => `${fault.line},${fault.reason},"${describeFault(fault).replaceAll('"', '""')}"\n`,
          );
          await write(`line,reason,detail\n${rows.join('')}`);
          return readFile;
        });
  });
  if (result.problem !== undefined) throw new AppError('invalid_request', { detail: result.problem });
  return result as { dataset: Dataset; report: FileReport };
}

/**
 * @throws AppError `not_found` if there is no earlier data set, `version_conflict` if another process has changed it
 */
export async function rollback(terminal: Terminal): Promise<UsedDataset> {
  return withStorage(terminal.source, ({ store }) => rollbackIn(store));
}

async function rollbackIn(store: Store): Promise<UsedDataset> {
  const stored = createStoredDatasets({ store, clock: Date.now });
  const used = usedDatasets(await stored.versions(), builtInDataset);
  if (!used) throw new AppError('not_found', { detail: 'There is no earlier data set: import one.' });
  const { current, previous } = used;
  const facts = { from: current.source, to: previous.source };
  return auditedByOperator(store, [{ event: 'bin_dataset.rolled_back', facts }], async () => {
    if (await stored.rollback(previous.id)) return previous;
    const detail = 'The BIN data was changed at the same time: check it, and run this again.';
    throw new AppError('version_conflict', { detail });
  });
}
