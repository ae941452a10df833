/** Checks a connected app before users sign in with it, by page and by API. */
import type { Request } from 'express';
import { z } from 'zod';
import { queryField } from '../../../shared/http/body.ts';
import { operation } from '../../../shared/http/operation.ts';
import type { Notice } from '../../../shared/pages/page-data.ts';
import type { ConnectedApp } from '../../../shared/provider/connected-app.ts';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import { audited } from '../change.ts';
import type { AdminPageData, AdminPages } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { throwUnknown } from '../resource.ts';
import type { ConnectedAppReader } from './reader.ts';
import { type AppView, findingsJson, type LastCheckView, lastCheckView } from './view.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    /** `app` includes the findings of the last check. `isNew` is true right after the registration. */
    'admin/connected-apps/check-page': AdminPageData & { app: AppView; isNew: boolean };
  }
}

export type CheckNow = (req: Request, app: ConnectedApp) => Promise<Required<LastCheckView>>;

/** Checks an app, and stores the result. */
export function createCheckNow({ connectedApps, audit }: Pick<AdminParts, 'connectedApps' | 'audit'>): CheckNow {
  return async (req, app) => {
    const target = { kind: 'connected_app', id: app.id, name: app.name };
    const run = () => connectedApps.checks.run(app);
    return lastCheckView(await audited(audit, req, { event: 'connected_app.checked', target }, run));
  };
}

export function connectedAppCheckRoutes(parts: {
  reader: ConnectedAppReader;
  checkNow: CheckNow;
  apps: Pick<CurrentApps, 'find'>;
  pages: AdminPages;
  basePath: string;
}) {
  const { reader, checkNow, apps, pages, basePath } = parts;
  const appOf = (req: Request) => apps.find(String(req.params.id)) ?? throwUnknown('connected app');

  const result = pages.page('admin/connected-apps/check-page', async ({ req }) => {
    const app = await reader.read(String(req.params.id));
    return { title: `Check of ${app.name}`, app, isNew: queryField(req, 'registered') === 'yes' };
  });

  return {
    page: result.handler,

    checkByForm: pages.button(async (req) => {
      const app = appOf(req);
      await checkNow(req, app);
      return { url: checkPage(basePath, app.id), flash: { notice: CHECKED } };
    }),

    check: operation(
      {
        summary: 'Check a connected app: make the calls of a sign-in without a user, and report a finding for each',
        response: z.object({ ok: z.boolean(), findings: findingsJson }),
      },
      async ({ req }) => {
        const { failures, findings } = await checkNow(req, appOf(req));
        return { ok: failures === 0, findings };
      },
    ),
  };
}

export const checkPage = (basePath: string, appId: string): string => `${basePath}/admin/connected-apps/${appId}/check`;

const CHECKED: Notice = { tone: 'info', text: 'The app was checked just now.' };
