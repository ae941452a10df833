/** Restores the BIN data set from before the last import, if it is still the one on the confirmation page. */
import type { Request } from 'express';
import { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import { formField } from '../../../shared/http/body.ts';
import { operation } from '../../../shared/http/operation.ts';
import { type UsedDataset, usedDatasets } from '../../bin/rollback.ts';
import { audited } from '../change.ts';
import { confirmation } from '../confirmation.ts';
import type { AdminParts } from '../parts.ts';
import { noticeOf, versionJson, versionView } from './version.ts';

const rollbackQuery = z.strictObject({
  to: z
    .string()
    .max(60)
    .optional()
    .describe('the id of the previous data set; refused with 409 if another data set is the previous one by now'),
});

export function binRollbackRoutes(parts: AdminParts) {
  const { bins, audit, publicUrl } = parts;
  const { stored } = bins;

  const versions = async () => {
    const datasets = usedDatasets(await stored.versions(), bins.builtIn);
    if (!datasets) throw new AppError('not_found', { detail: 'There is no earlier data set. Import one first.' });
    return datasets;
  };

  /** @throws AppError `not_found`, or `version_conflict` if the previous data set is not `to` */
  const rollback = async (req: Request, to: string | undefined): Promise<UsedDataset> => {
    const { current, previous } = await versions();
    const facts = { from: current.source, to: previous.source };
    const target = to ?? previous.id;
    await audited(audit, req, { event: 'bin_dataset.rolled_back', facts }, async () => {
      const isRolledBack = await stored.rollback(target);
      if (!isRolledBack) throw new AppError('version_conflict', { detail: CHANGED });
    });
    await bins.dataset.refresh();
    return previous;
  };

  const confirmationOfRollback = confirmation(parts, {
    menuPath: 'bin',
    find: versions,
    questionFor: ({ current, previous }) => ({
      action: 'Roll back to the previous BIN data',
      consequences: [
        `Lookups use ${describe(previous)} again, instead of ${describe(current)}.`,
        'You can switch back in the same way.',
      ],
      verb: 'Roll back',
      version: previous.id,
    }),
    home: () => 'bin',
    async work(req) {
      const { source } = await rollback(req, formField(req.body, 'version') ?? '');
      const notice = noticeOf(bins, `Rolled back to ${source}.`);
      return { url: `${publicUrl.basePath}/admin/bin`, flash: { notice } };
    },
  });

  return {
    page: confirmationOfRollback.page,
    byForm: confirmationOfRollback.form,
    byApi: operation(
      {
        summary: 'Restore the BIN data set from before the last import',
        query: rollbackQuery,
        response: versionJson,
      },
      async ({ req, query }) => versionView(await rollback(req, query.to)),
    ),
  };
}

const CHANGED = 'The BIN data has changed since you opened this page. Check what will happen now, and confirm again.';

const describe = ({ source, asOf, size }: UsedDataset) =>
  `${source} (as of ${asOf}, ${size.toLocaleString('en-GB')} ${size === 1 ? 'row' : 'rows'})`;
