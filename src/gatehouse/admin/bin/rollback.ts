/** Goes back to the BIN data set from before the last import, if that is still the one that the administrator was shown. */
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
    .describe('the id of "previous": refused with 409 if another data set is the previous one by now'),
});

export function binRollbackRoutes(parts: AdminParts) {
  const { bins, audit, publicUrl } = parts;
  const { stored } = bins;

  const versions = async () => {
    const used = usedDatasets(await stored.versions(), bins.builtIn);
    if (!used) throw new AppError('not_found', { detail: 'There is no earlier data set: import one.' });
    return used;
  };

  /** @throws AppError `not_found`, or `version_conflict` if the previous data set is not `to` */
  const rollback = async (req: Request, to: string | undefined): Promise<UsedDataset> => {
    const { current, previous } = await versions();
    const facts = { from: current.source, to: previous.source };
    const target = to ?? previous.id;
    await audited(audit, req, { event: 'bin_dataset.rolled_back', facts }, async () => {
      const made = await stored.rollback(target);
      if (!made) throw new AppError('version_conflict', { detail: CHANGED });
    });
    await bins.dataset.refresh();
    return previous;
  };

  const asked = confirmation(parts, {
    menuPath: 'bin',
    find: versions,
    ask: ({ current, previous }) => ({
      action: 'Roll back to the previous BIN data',
      consequences: [
        `Look-ups use ${described(previous)} again, in place of ${described(current)}.`,
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
    ask: asked.page,
    byForm: asked.form,
    byApi: operation(
      {
        summary: 'Use the BIN data set from before the last import again',
        query: rollbackQuery,
        response: versionJson,
      },
      async ({ req, query }) => versionView(await rollback(req, query.to)),
    ),
  };
}

const CHANGED =
  'The BIN data has changed since you opened this page. Read what would happen now, and confirm it again.';

const described = ({ source, asOf, size }: UsedDataset) =>
  `${source} (as of ${asOf}, ${size.toLocaleString('en-GB')} ${size === 1 ? 'row' : 'rows'})`;
