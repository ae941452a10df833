/** The user's own erasure: a page that asks for confirmation, and the deletion of everything stored about the user. */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { wantsPage } from '../../shared/http/accept.ts';
import { described, json, type Operation } from '../../shared/http/description.ts';
import type { Pages } from '../../shared/pages/pages.ts';
import { actorOf } from '../../shared/sessions/actor.ts';
import { sessionOf } from '../../shared/sessions/guards.ts';
import type { Sessions } from '../../shared/sessions/sessions.ts';
import { auditChange, type ChangeTrail } from '../audit/audit-change.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import { disconnectedFields, disconnectedJson } from '../grants/connection-view.ts';
import type { DisconnectResult } from '../grants/connections.ts';
import type { UserLifecycle } from '../users/users.ts';

const erasedSchema = z.object({
  connections: z.array(z.object({ app: z.string(), ...disconnectedFields })),
});

const ERASE: Operation = {
  summary: 'Delete everything stored about the user, after revoking the connections',
  responses: { 200: json(erasedSchema), 303: {} },
};

export interface ErasureRoutes {
  /** The page that asks for confirmation. */
  ask: RequestHandler;

  erase: RequestHandler;

  /** The page after the deletion. Without its one-time data it leads to the start page. */
  erased: RequestHandler;
}

export function erasureRoutes(parts: {
  lifecycle: Pick<UserLifecycle, 'beginErasure' | 'erase'>;
  apps: Pick<CurrentApps, 'nameOf'>;
  audit: ChangeTrail;
  sessions: Pick<Sessions, 'browser'>;
  pages: Pages;
  basePath: string;
}): ErasureRoutes {
  const { lifecycle, apps, audit, sessions, pages, basePath } = parts;

  return {
    ask(req, res) {
      pages.send(res, 'sign-in/erase', { page: pages.signedInFrame(req, 'Delete all data about you') });
    },

    erase: described<RequestHandler>(ERASE, async (req, res) => {
      const { user } = sessionOf(req);
      const { actor: by, ...origin } = actorOf(req);
      const target = { kind: 'user', id: user.id };
      const entry = { event: 'user.deletion_started', actor: by, target, ...origin } as const;
      await auditChange(audit, entry, () => lifecycle.beginErasure(user.id));
      const disconnectResults = await lifecycle.erase(user.id, { by, origin });
      sessions.browser.clearCookies(req, res);
      if (!wantsPage(req)) {
        const disconnected = disconnectResults.map((result) => ({ app: result.app, ...disconnectedJson(result) }));
        res.json({ connections: disconnected } satisfies z.output<typeof erasedSchema>);
        return;
      }
      // The user has no session any more, and the page is read without one.
      req.context.session = undefined;
      const disconnected = disconnectResults.map(({ app, revocation }) => ({
        name: apps.nameOf(app),
        words: REVOCATION_WORDS[revocation],
      }));
      await pages.redirect(req, res, `${basePath}/account/deleted`, { disconnected });
    }),

    async erased(req, res) {
      const { disconnected } = await pages.flashOf(req);
      if (!disconnected) return res.redirect(303, `${basePath}/`);
      pages.send(res, 'sign-in/erased', { page: pages.frame(req, 'Deleted'), connections: disconnected });
    },
  };
}

const REVOCATION_WORDS: Record<DisconnectResult, string> = {
  revoked: 'the provider has confirmed that our access is withdrawn',
  unsupported:
    'deleted here; this provider has no way to withdraw access from here, so remove it in your account there as well',
  unconfirmed: 'deleted here; we could not ask the provider, so remove our access in your account there as well',
  pending: 'deleted here; the provider has not confirmed yet, and we ask again for 7 days',
};
