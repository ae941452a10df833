/** Owns what a person does to have everything deleted that is kept about them: asked once more, then done at once. */
import type { RequestHandler } from 'express';
import type { AuditTrail } from '../audit/trail.ts';
import type { AppStore } from '../connected-apps/app-store.ts';
import type { DisconnectAnswer } from '../grants/connections.ts';
import { actorOf } from '../http/actor.ts';
import type { Pages } from '../http/pages.ts';
import type { Sessions } from '../http/session.ts';
import { viewerOf, wantsPage } from '../http/viewer.ts';
import type { People } from '../users/people.ts';

export interface ErasureRoutes {
  ask: RequestHandler;
  erase: RequestHandler;
}

export function erasureRoutes(parts: {
  people: Pick<People, 'erase'>;
  apps: Pick<AppStore, 'find'>;
  trail: Pick<AuditTrail, 'append'>;
  cookie: Sessions['cookie'];
  pages: Pages;
}): ErasureRoutes {
  const { people, apps, trail, cookie, pages } = parts;

  return {
    async ask(req, res) {
      pages.send(res, 'erase', { page: pages.signedInFrame(req, 'Delete everything kept about you') });
    },

    async erase(req, res) {
      const { user } = viewerOf(req);
      const { actor: by, address, requestId } = actorOf(req);
      await trail.append({
        event: 'user.deleted',
        actor: by,
        target: { kind: 'user', id: user.id },
        address,
        requestId,
      });
      const ended = await people.erase(user.id, { by, origin: { address, requestId } });
      res.clearCookie(cookie.name, cookie.options);
      if (!wantsPage(req)) {
        res.json({ deleted: true, connections: ended.map(({ said, ...one }) => ({ ...one, provider: said ?? null })) });
        return;
      }
      req.context.viewer = undefined;
      pages.send(res, 'erased', {
        page: pages.frame(req, 'Deleted'),
        connections: ended.map(({ app, revocation }) => ({
          name: apps.find(app)?.name ?? app,
          words: WORDS[revocation],
        })),
      });
    },
  };
}

const WORDS: Record<DisconnectAnswer, string> = {
  revoked: 'the provider has confirmed that our access is withdrawn',
  unsupported:
    'deleted here; this provider offers no way to withdraw access from here, so remove it in your account there as well',
  unconfirmed: 'deleted here; we could not ask the provider, so remove our access in your account there as well',
  pending: 'deleted here; the provider has not confirmed yet, and we keep asking until it does',
};
