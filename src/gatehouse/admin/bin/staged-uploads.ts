/** Uploads of BIN data: a file is checked, stored for an hour, and then imported or discarded. */
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Request } from 'express';
import type { FileReport } from '../../../shared/bin/dataset-file.ts';
import type { FileColumns } from '../../../shared/bin/record.ts';
import { AppError } from '../../../shared/errors.ts';
import { keys } from '../../../shared/storage/keys.ts';
import { createLeases } from '../../../shared/storage/lease.ts';
import type { DatasetVersion, StagedDataset } from '../../bin/stored-dataset.ts';
import { checkUpload } from '../../bin/upload.ts';
import { audited } from '../change.ts';
import type { AdminParts } from '../parts.ts';

/** Unpacking a file of this size takes less than the 60 seconds that nginx waits (docs/deploy.md). */
const MAX_UNPACKED_BYTES = 96 * 2 ** 20;
const SHAPE_ADVICE = 'For another file, name its columns.';
const LEASE_MS = 15_000;
/** If a form is sent twice, the browser aborts the first request, which then ends at once. */
const MAX_WAIT_MS = 2_000;
const POLL_MS = 100;
const CHANGED = 'The BIN data in use has changed since this file was uploaded, so an import would change other BINs.';

interface FileDescription {
  source: string;
  asOf: string;
  licence?: string | undefined;
  columns?: FileColumns | undefined;
}

export function stagedUploads({ bins, storage, audit }: Pick<AdminParts, 'bins' | 'storage' | 'audit'>) {
  const { stored } = bins;
  // Only one upload is checked at a time, so that it needs no more memory than an import by the command.
  const leases = createLeases({ store: storage.store, milliseconds: LEASE_MS });

  /** Checks a file. @throws AppError `invalid_request` for a file that cannot be used */
  const check = async (req: Request, bytes: Readable, { source, asOf, licence, columns }: FileDescription) => {
    const about = { source, asOf, ...(licence ? { licence } : {}) };
    // The id is read first: if another import finishes meanwhile, this upload names an older data set and is refused.
    const id = await stored.currentId();
    await bins.dataset.refresh();
    const { packed, ...currentDataset } = bins.dataset.current() ?? bins.builtIn();
    const inUse = bins.dataset.current() && packed;
    const upload = { about, columns, maxBytes: MAX_UNPACKED_BYTES, shapeAdvice: SHAPE_ADVICE, inUse };
    const disconnected = new AbortController();
    req.res?.once('close', () => disconnected.abort());
    const checkedUpload = await checkUpload(bytes, upload, disconnected.signal).catch((cause: unknown) => {
      if (req.complete && !disconnected.signal.aborted) throw cause;
      throw new AppError('invalid_request', { detail: 'The upload was interrupted. Send the file again.', cause });
    });
    if (checkedUpload.problem !== undefined) throw new AppError('invalid_request', { detail: checkedUpload.problem });
    return {
      ...checkedUpload,
      replaces: { id, source: currentDataset.source, asOf: currentDataset.asOf, size: currentDataset.size },
    };
  };

  const stage = async (req: Request, bytes: Readable, description: FileDescription): Promise<StagedDataset> => {
    const deadline = performance.now() + MAX_WAIT_MS;
    for (;;) {
      const result = await leases.hold(keys.taskLease('bin-upload'), async () => {
        const upload = await check(req, bytes, description);
        const entry = { event: 'bin_dataset.uploaded', facts: factsOf(description.source, upload.report) } as const;
        return audited(audit, req, entry, () => stored.stage(upload));
      });
      if (result) return result.value;
      if (performance.now() > deadline) throw busy();
      await sleep(POLL_MS);
    }
  };

  /** Finds an upload even if the data in use has changed since. */
  const findAny = async (req: Request): Promise<StagedDataset> => {
    const staged = await stored.findStaged(String(req.params.id));
    if (!staged) throw uploadGone();
    return staged;
  };

  /** Finds an upload. @throws AppError `version_conflict` if the data in use has changed since the upload */
  const find = async (req: Request): Promise<StagedDataset> => {
    const staged = await findAny(req);
    if ((await stored.currentId()) === staged.replaces.id) return staged;
    throw new AppError('version_conflict', { detail: CHANGED, words: { advice: 'Upload the file again.' } });
  };

  const importStaged = async (req: Request): Promise<DatasetVersion> => {
    const { version } = await find(req);
    const facts = factsOf(version.source, version.report);
    const imported = await audited(audit, req, { event: 'bin_dataset.imported', facts }, async () => {
      const dataset = await stored.importStaged(version.id);
      if (dataset) return dataset;
      await find(req);
      throw uploadGone();
    });
    await bins.dataset.refresh();
    return imported;
  };

  const discard = async (req: Request): Promise<void> => {
    const { version } = await findAny(req);
    const facts = factsOf(version.source, version.report);
    await audited(audit, req, { event: 'bin_dataset.discarded', facts }, async () => {
      if (!(await stored.discardStaged(version.id))) throw uploadGone();
    });
  };

  return { stage, find, importStaged, discard };
}

/** Returns the facts for the audit entry. */
const factsOf = (source: string, { taken, skipped }: FileReport) => ({ source, rows: taken, bad: skipped });

const busy = () =>
  new AppError('overloaded', {
    detail: 'Another upload is being checked. Try again in a moment.',
    retryAfterSeconds: 10,
  });

const uploadGone = () =>
  new AppError('not_found', {
    detail: 'This upload was imported, discarded or replaced, or is older than an hour. Upload the file again.',
  });
