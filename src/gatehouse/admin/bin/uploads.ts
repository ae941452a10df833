/** BIN data by upload: a file is checked and kept for an hour, an administrator sees what it would change, and imports or discards it. */
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Request } from 'express';
import { z } from 'zod';
import type { FileReport } from '../../../shared/bin/dataset-file.ts';
import type { FileColumns } from '../../../shared/bin/record.ts';
import { AppError } from '../../../shared/errors.ts';
import { operation } from '../../../shared/http/operation.ts';
import { assertUploadSize } from '../../../shared/http/upload.ts';
import { containsCardNumber } from '../../../shared/observability/card-numbers.ts';
import { type FormView, formHandler } from '../../../shared/pages/form.ts';
import { keys } from '../../../shared/storage/keys.ts';
import { createLeases } from '../../../shared/storage/lease.ts';
import { datasetChange } from '../../bin/dataset-change.ts';
import { columnsIn, fileColumns } from '../../bin/file-columns.ts';
import type { DatasetVersion, Replaced, StagedDataset } from '../../bin/stored-dataset.ts';
import { checkUpload } from '../../bin/upload.ts';
import { audited } from '../change.ts';
import { MAX_UPLOAD_BYTES } from '../guards.ts';
import type { AdminPageData, PageRequest } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { isFileInUse, noticeOf, versionJson, versionView } from './version.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/bin/import': AdminPageData & { form: FormView<typeof uploadForm>; maxMegabytes: number };
    'admin/bin/upload': AdminPageData & {
      upload: UploadView;
      replaces: Replaced;
      /** `BIN_DATASET_FILE` is set, so that an import is kept without being used. */
      isFileInUse: boolean;
    };
  }
}

/** Takes less than the 60 seconds for which nginx waits (docs/deploy.md). */
const MAX_UNPACKED_BYTES = 96 * 2 ** 20;
const SHAPE_ADVICE = 'For another file, name its columns.';
const LEASE_MS = 15_000;
/** A form that is sent twice: the browser gives the first one up, which ends at once. */
const MAX_WAIT_MS = 2_000;
const POLL_MS = 100;
const CHANGED = 'The BIN data in use has changed since this file was uploaded, so an import would change other BINs.';

const shownText = z
  .string()
  .trim()
  .max(200)
  .refine((text) => !containsCardNumber(text), { error: 'Leave the card number out.' });
const date = z.iso.date('Enter a date such as 2026-11-21.');

const uploadForm = z.object({
  date,
  source: shownText,
  licence: shownText,
  columns: z
    .string()
    .trim()
    .transform((text, context) => (text === '' ? undefined : columnsIn(text, context))),
  /** Stands for the file in lists of faults. */
  file: z.string(),
});

const uploadQuery = z.strictObject({
  date: date.describe('of the facts, such as 2026-11-21'),
  source: shownText.min(1).describe('where the data comes from; shown on pages'),
  licence: shownText.min(1).optional().describe('default: that the file states none'),
  columns: fileColumns.optional().describe('for a file of another format, such as start=LOW,end=HIGH,country=ISO'),
});

const uploadJson = z.object({
  id: z.string(),
  source: z.string(),
  asOf: z.string(),
  licence: z.string(),
  shape: z.string().describe('the format that was recognized'),
  rows: z.int(),
  badRows: z.int().describe('rows that an import would leave out'),
  faults: z
    .array(z.object({ line: z.int(), reason: z.string() }))
    .describe('the first hundred of those rows, without their digits'),
  bins: datasetChange,
  expiresAt: z.iso.datetime(),
});

type UploadView = z.output<typeof uploadJson>;

interface About {
  source: string;
  date: string;
  licence?: string | undefined;
  columns?: FileColumns | undefined;
}

export function binUploadRoutes(parts: AdminParts) {
  const { bins, storage, audit, pages, publicUrl } = parts;
  const { stored } = bins;
  const home = `${publicUrl.basePath}/admin/bin`;
  // One at a time, so that uploads take no more memory than an import by the command.
  const leases = createLeases({ store: storage.store, milliseconds: LEASE_MS });

  /** @throws AppError `invalid_request` for a file that cannot be used */
  const check = async (req: Request, bytes: Readable, { source, date: asOf, licence, columns }: About) => {
    const about = { source, asOf, ...(licence ? { licence } : {}) };
    // Read first: if another import comes in between, the upload says that it replaces an older one, and is refused.
    const id = await stored.currentId();
    await bins.dataset.refresh();
    const { packed, ...used } = bins.dataset.current() ?? bins.builtIn();
    const inUse = bins.dataset.current() && packed;
    const upload = { about, columns, maxBytes: MAX_UNPACKED_BYTES, shapeAdvice: SHAPE_ADVICE, inUse };
    const left = new AbortController();
    req.res?.once('close', () => left.abort());
    const checked = await checkUpload(bytes, upload, left.signal).catch((cause: unknown) => {
      if (req.complete && !left.signal.aborted) throw cause;
      throw new AppError('invalid_request', { detail: 'The upload was interrupted: send the file again.', cause });
    });
    if (checked.problem !== undefined) throw new AppError('invalid_request', { detail: checked.problem });
    return { ...checked, replaces: { id, source: used.source, asOf: used.asOf, size: used.size } };
  };

  const stage = async (req: Request, bytes: Readable, about: About): Promise<StagedDataset> => {
    const deadline = performance.now() + MAX_WAIT_MS;
    for (;;) {
      const held = await leases.hold(keys.choreLease('bin-upload'), async () => {
        const upload = await check(req, bytes, about);
        const entry = { event: 'bin_dataset.uploaded', facts: factsOf(about.source, upload.report) } as const;
        return audited(audit, req, entry, () => stored.stage(upload));
      });
      if (held) return held.value;
      if (performance.now() > deadline) throw busy();
      await sleep(POLL_MS);
    }
  };

  const find = async (req: Request): Promise<StagedDataset> => {
    const staged = await stored.staged(String(req.params.id));
    if (!staged) throw uploadGone();
    return staged;
  };

  /** @throws AppError `version_conflict` if an import would no longer change what the upload says */
  const findValid = async (req: Request): Promise<StagedDataset> => {
    const staged = await find(req);
    if ((await stored.currentId()) === staged.replaces.id) return staged;
    throw new AppError('version_conflict', { detail: CHANGED, words: { nextStep: 'Upload the file again.' } });
  };

  const importStaged = async (req: Request): Promise<DatasetVersion> => {
    const { version } = await findValid(req);
    const facts = factsOf(version.source, version.report);
    const imported = await audited(audit, req, { event: 'bin_dataset.imported', facts }, async () => {
      const made = await stored.importStaged(version.id);
      if (made) return made;
      await findValid(req);
      throw uploadGone();
    });
    await bins.dataset.refresh();
    return imported;
  };

  const discard = async (req: Request): Promise<void> => {
    const { version } = await find(req);
    const facts = factsOf(version.source, version.report);
    await audited(audit, req, { event: 'bin_dataset.discarded', facts }, async () => {
      if (!(await stored.discardStaged(version.id))) throw uploadGone();
    });
  };

  const newPage = pages.page(
    'admin/bin/import',
    async ({ form = EMPTY }: PageRequest<FormView<typeof uploadForm>>) => ({
      title: 'Import BIN data',
      faults: form.faults,
      form,
      maxMegabytes: MAX_UPLOAD_BYTES / 2 ** 20,
    }),
  );

  const preview = pages.page('admin/bin/upload', async ({ req }) => {
    const staged = await findValid(req);
    const shown = { upload: uploadView(staged), replaces: staged.replaces, isFileInUse: isFileInUse(bins) };
    return { title: 'Check the new BIN data', ...shown };
  });

  return {
    newPage: newPage.handler,
    uploadByForm: formHandler({
      pages,
      schema: uploadForm,
      async work(req, { file: _file, source, ...about }) {
        const { upload } = req.context;
        // Browsers send a file without a name where none was chosen.
        if (!upload?.name) throw fileFault('Choose a file.');
        if (containsCardNumber(upload.name)) throw fileFault('The file name contains a card number. Rename the file.');
        const { version } = await stage(req, upload.bytes, { ...about, source: source || upload.name.slice(0, 200) });
        return { url: `${home}/uploads/${version.id}`, flash: {} };
      },
      show: newPage.show,
    }),
    preview: preview.handler,
    importByForm: pages.button(async (req) => {
      const { source, report } = await importStaged(req);
      const rows = report.taken.toLocaleString('en-GB');
      return {
        url: home,
        flash: { notice: noticeOf(bins, `Imported ${rows} ${report.taken === 1 ? 'row' : 'rows'} of ${source}.`) },
      };
    }),
    discardByForm: pages.button(async (req) => {
      await discard(req);
      return { url: home, flash: { notice: { tone: 'success', text: 'Upload discarded. Nothing was changed.' } } };
    }),

    upload: operation(
      {
        summary: 'Upload a BIN data set: it is checked and kept for an hour, and not used before it is imported',
        query: uploadQuery,
        file: {
          'text/csv': z.string().meta({ format: 'binary' }),
          'application/gzip': z.string().meta({ format: 'binary' }),
        },
        response: uploadJson,
        status: 201,
      },
      async ({ req, query }) => {
        assertUploadSize(req, MAX_UPLOAD_BYTES);
        return uploadView(await stage(req, req, query));
      },
    ),
    one: operation(
      { summary: 'Read what an uploaded BIN data set would change', response: uploadJson },
      async ({ req }) => uploadView(await findValid(req)),
    ),
    import: operation(
      { summary: 'Import an uploaded BIN data set: every process uses it', response: versionJson },
      async ({ req }) => versionView(await importStaged(req)),
    ),
    discard: operation({ summary: 'Discard an uploaded BIN data set' }, ({ req }) => discard(req)),
  };
}

const EMPTY: FormView<typeof uploadForm> = {
  values: { date: '', source: '', licence: '', columns: '', file: '' },
  faults: [],
};

function uploadView({ version, change, expiresAt }: StagedDataset): UploadView {
  const { id, source, asOf, licence, report } = version;
  const { shape, taken: rows, skipped: badRows, faults } = report;
  return { id, source, asOf, licence, shape, rows, badRows, faults, bins: change, expiresAt };
}

/** Of an entry in the audit trail. */
const factsOf = (source: string, { taken, skipped }: FileReport) => ({ source, rows: taken, bad: skipped });

function fileFault(detail: string): AppError {
  return new AppError('invalid_request', { detail, faults: [{ pointer: '#/file', rule: 'invalid', detail }] });
}

const busy = () =>
  new AppError('overloaded', {
    detail: 'Another upload is being checked. Try again in a moment.',
    retryAfterSeconds: 10,
  });

const uploadGone = () =>
  new AppError('not_found', {
    detail:
      'This upload was imported, discarded or replaced by another one, or is older than an hour: upload the file again.',
  });
