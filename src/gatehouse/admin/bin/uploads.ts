/** Routes for uploads of BIN data: an administrator checks what a file would change, and imports or discards it. */
import { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import { operation } from '../../../shared/http/operation.ts';
import { assertUploadSize } from '../../../shared/http/upload.ts';
import { containsCardNumber } from '../../../shared/observability/card-numbers.ts';
import { type FormView, formHandler } from '../../../shared/pages/form.ts';
import { cutText } from '../../../shared/text.ts';
import { datasetChange } from '../../bin/dataset-change.ts';
import { columnsIn, fileColumns } from '../../bin/file-columns.ts';
import { conflictsJson, faultJson, faultView, notUnderstoodJson, reasonJson, reasonView } from '../../bin/overview.ts';
import type { Replaced, StagedDataset } from '../../bin/stored-dataset.ts';
import { MAX_UPLOAD_BYTES } from '../guards.ts';
import type { AdminPageData, PageRequest } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { stagedUploads } from './staged-uploads.ts';
import { isFileInUse, noticeOf, versionJson, versionView } from './version.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/bin/import': AdminPageData & { form: FormView<typeof uploadForm>; maxMegabytes: number };
    'admin/bin/upload': AdminPageData & {
      upload: UploadView;
      replaces: Replaced;
      /** True if `BIN_DATASET_FILE` is set, so that an imported data set is stored but not used. */
      isFileInUse: boolean;
    };
  }
}

const sourceText = z
  .string()
  .trim()
  .max(200)
  .refine((text) => !containsCardNumber(text), { error: 'Remove the card number.' });
const asOf = z.iso.date('Enter a date such as 2026-11-21.');

const uploadForm = z.object({
  asOf,
  source: sourceText,
  licence: sourceText,
  columns: z
    .string()
    .trim()
    .transform((text, context) => (text === '' ? undefined : columnsIn(text, context))),
  /** The field to which faults of the file belong. */
  file: z.string(),
});

const uploadQuery = z.strictObject({
  asOf: asOf.describe('the date of the data, such as 2026-11-21'),
  source: sourceText.min(1).describe('where the data comes from; shown on pages'),
  licence: sourceText.min(1).optional().describe('default: a note that the file states none'),
  columns: fileColumns.optional().describe('for a file of another format, such as start=LOW,end=HIGH,country=ISO'),
});

const uploadJson = z.object({
  id: z.string(),
  source: z.string(),
  asOf: z.iso.date(),
  licence: z.string(),
  shape: z.string().describe('the format that was recognized'),
  rows: z.int(),
  badRows: z.int().describe('rows that an import would leave out'),
  faults: z.array(faultJson).describe('the first hundred of those rows, without their digits'),
  reasons: z.array(reasonJson).describe('why rows would be left out, each with its first line'),
  conflicts: conflictsJson.describe(
    'BINs that come more than once with different facts, which keep what their rows share; with the lines',
  ),
  notUnderstood: notUnderstoodJson.describe(
    'values of network, type, prepaid, length and check digit that are left out',
  ),
  bins: datasetChange,
  expiresAt: z.iso.datetime(),
});

type UploadView = z.output<typeof uploadJson>;

export function binUploadRoutes(parts: AdminParts) {
  const { bins, pages, publicUrl } = parts;
  const { stage, find, importStaged, discard } = stagedUploads(parts);
  const home = `${publicUrl.basePath}/admin/bin`;

  const newPage = pages.page(
    'admin/bin/import',
    async ({ form = EMPTY_FORM }: PageRequest<FormView<typeof uploadForm>>) => ({
      title: 'Import BIN data',
      faults: form.faults,
      form,
      maxMegabytes: MAX_UPLOAD_BYTES / 2 ** 20,
    }),
  );

  const preview = pages.page('admin/bin/upload', async ({ req }) => {
    const staged = await find(req);
    return {
      title: 'Check the new BIN data',
      upload: uploadView(staged),
      replaces: staged.replaces,
      isFileInUse: isFileInUse(bins),
    };
  });

  return {
    newPage: newPage.handler,
    uploadByForm: formHandler({
      pages,
      schema: uploadForm,
      async work(req, { file: _file, source, ...about }) {
        const { upload } = req.context;
        // Browsers send a file without a name if no file was chosen.
        if (!upload?.name) throw fileFault('Choose a file.');
        if (containsCardNumber(upload.name)) throw fileFault('The file name contains a card number. Rename the file.');
        const { version } = await stage(req, upload.bytes, { ...about, source: source || cutText(upload.name, 200) });
        return { url: `${home}/uploads/${version.id}`, flash: {} };
      },
      page: (_req, form) => newPage.at(`${home}/import`, form),
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
        summary: 'Upload a BIN data set: it is checked and stored for an hour, and not used before it is imported',
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
    read: operation(
      { summary: 'Read what an uploaded BIN data set would change', response: uploadJson },
      async ({ req }) => uploadView(await find(req)),
    ),
    import: operation(
      { summary: 'Import an uploaded BIN data set: every process uses it', response: versionJson },
      async ({ req }) => versionView(await importStaged(req)),
    ),
    discard: operation({ summary: 'Discard an uploaded BIN data set' }, ({ req }) => discard(req)),
  };
}

const EMPTY_FORM: FormView<typeof uploadForm> = {
  values: { asOf: '', source: '', licence: '', columns: '', file: '' },
  faults: [],
};

function uploadView({ version, change, expiresAt }: StagedDataset): UploadView {
  const { id, source, asOf, licence, report } = version;
  const { shape, taken: rows, skipped: badRows, conflicts, notUnderstood } = report;
  const [faults, reasons] = [report.faults.map(faultView), report.reasons.map(reasonView)];
  const about = { id, source, asOf, licence, shape, rows, badRows };
  return { ...about, faults, reasons, conflicts, notUnderstood, bins: change, expiresAt };
}

function fileFault(detail: string): AppError {
  return new AppError('invalid_request', { detail, faults: [{ pointer: '#/file', rule: 'invalid', detail }] });
}
