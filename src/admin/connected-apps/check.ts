/** The doctor in the administration: checks an app before users sign in with it, by page and by API. */
import type { Request } from 'express';
import { z } from 'zod';
import { CHECKS, type CheckName, type Finding } from '../../connected-apps/finding.ts';
import { operation } from '../../http/operation.ts';
import type { AdminParts } from '../admin.ts';
import { audited } from '../change.ts';
import type { AdminPageData } from '../page.ts';
import { throwUnknown } from '../resource.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/connected-app-check': AdminPageData & {
      app: { id: string; name: string };
      findings: readonly (Finding & { title: string })[];
      problems: number;
    };
  }
}

const findingJson = z.object({
  check: z.enum(Object.keys(CHECKS) as [CheckName, ...CheckName[]]),
  title: z.string(),
  result: z.enum(['fine', 'problem', 'cannot_tell']),
  detail: z.string(),
  advice: z.string().optional(),
  pointer: z.string().optional().describe('the field of the registration that causes it'),
});

export function connectedAppCheckRoutes({ connectedApps, audit, pages }: AdminParts) {
  const { apps, check } = connectedApps;

  const run = async (req: Request) => {
    const app = apps.find(String(req.params.id)) ?? throwUnknown('connected app');
    const target = { kind: 'connected_app', id: app.id, name: app.name };
    const found = await audited(audit.trail, req, { event: 'connected_app.checked', target }, () => check.run(app));
    const findings = found.map((finding) => ({ ...finding, title: CHECKS[finding.check] }));
    return { app, findings, problems: findings.filter(({ result }) => result === 'problem').length };
  };

  const result = pages.page('admin/connected-app-check', async ({ req }) => {
    const { app, findings, problems } = await run(req);
    return { title: `Check of ${app.name}`, app: { id: app.id, name: app.name }, findings, problems };
  });

  return {
    checkByForm: result.handler,

    check: operation(
      {
        summary: 'Check a connected app: make the calls of a sign-in without a user, and report a finding for each',
        response: z.object({ ok: z.boolean(), findings: z.array(findingJson) }),
      },
      async ({ req }) => {
        const { findings, problems } = await run(req);
        return { ok: problems === 0, findings };
      },
    ),
  };
}
