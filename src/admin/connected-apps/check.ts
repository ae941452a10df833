/** The doctor in the administration: an app is tried before users do it, by page and by API. */
import type { Request, RequestHandler } from 'express';
import { z } from 'zod';
import type { AuditTrail } from '../../audit/trail.ts';
import type { AppStore } from '../../connected-apps/app-store.ts';
import type { AppCheck } from '../../connected-apps/check.ts';
import { CHECKS, type CheckName, type Finding } from '../../connected-apps/finding.ts';
import { AppError } from '../../errors.ts';
import { type DescribedHandler, operation } from '../../http/operation.ts';
import type { Pages } from '../../pages/pages.ts';
import { audited } from '../change.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/connected-app-check': {
      page: SignedInFrame;
      app: { id: string; name: string };
      findings: readonly (Finding & { title: string })[];
      problems: number;
    };
  }
}

export interface ConnectedAppCheckRoutes {
  check: DescribedHandler;
  checkByForm: RequestHandler;
}

const findingAnswer = z.object({
  check: z.enum(Object.keys(CHECKS) as [CheckName, ...CheckName[]]),
  title: z.string(),
  result: z.enum(['fine', 'problem', 'cannot_tell']),
  detail: z.string(),
  advice: z.string().optional(),
  pointer: z.string().optional().describe('the field of the registration that it hangs on'),
});

export function connectedAppCheckRoutes(parts: {
  apps: AppStore;
  appCheck: AppCheck;
  trail: Pick<AuditTrail, 'append'>;
  pages: Pages;
}): ConnectedAppCheckRoutes {
  const { apps, appCheck, trail, pages } = parts;

  const run = async (req: Request) => {
    const app = apps.find(String(req.params.id));
    if (!app) throw new AppError('not_found', { detail: 'There is no connected app with this id.' });
    const target = { kind: 'connected_app', id: app.id, name: app.name };
    const found = await audited(trail, req, { event: 'connected_app.checked', target }, () => appCheck.run(app));
    const findings = found.map((finding) => ({ ...finding, title: CHECKS[finding.check] }));
    return { app, findings, problems: findings.filter(({ result }) => result === 'problem').length };
  };

  return {
    check: operation(
      {
        summary: 'Try a connected app as a sign-in would, without a user, and say what is fine and what is not',
        answer: z.object({ ok: z.boolean(), findings: z.array(findingAnswer) }),
      },
      async ({ req }) => {
        const { findings, problems } = await run(req);
        return { ok: problems === 0, findings };
      },
    ),

    async checkByForm(req, res) {
      const { app, findings, problems } = await run(req);
      pages.send(res, 'admin/connected-app-check', {
        page: pages.signedInFrame(req, `Check of ${app.name}`),
        app: { id: app.id, name: app.name },
        findings,
        problems,
      });
    },
  };
}
