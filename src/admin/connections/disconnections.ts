/** Disconnecting by an administrator: one connection, or all users of an app, by form and by API. */
import type { Request, Response } from 'express';
import { z } from 'zod';
import type { AuditEvent } from '../../audit/kinds.ts';
import { AppError } from '../../errors.ts';
import { disconnectedFields, disconnectedJson } from '../../grants/connection-view.ts';
import type { Disconnected, DisconnectResult } from '../../grants/connections.ts';
import type { DisconnectProgress } from '../../grants/disconnect-everyone.ts';
import { queryField } from '../../http/body.ts';
import { operation } from '../../http/operation.ts';
import { actorOf } from '../../sessions/actor.ts';
import type { AdminParts } from '../admin.ts';
import { audited } from '../change.ts';
import { throwUnknown } from '../resource.ts';
import { splitId } from '../users/view.ts';
import { disconnectedNotice } from './disconnect-notice.ts';
import { progressJson, progressView } from './view.ts';

const endedJson = z.object({ id: z.string(), ...disconnectedFields });

export function disconnectionRoutes({ grants, connectedApps, audit, pages, publicUrl }: AdminParts) {
  const { index, connections, everyone } = grants;
  const { apps } = connectedApps;
  const { trail } = audit;
  const { basePath } = publicUrl;

  const end = async (req: Request): Promise<Disconnected> => {
    const { userId, rest: appId } = splitId(String(req.params.id));
    const { actor: by, ...origin } = actorOf(req);
    if (!(await connections.find(userId, appId))) throw connectionGone();
    const target = { kind: 'connection', id: `${userId}/${appId}` };
    const ended = await audited(trail, req, { event: 'connection.removed', target, userId }, () =>
      connections.end(userId, appId, { by, origin, audited: true }),
    );
    if (ended === undefined) throw connectionGone();
    const { revocation, said } = ended;
    const event = REVOCATION_EVENTS[revocation];
    const facts = { status: said?.status, error: said?.error };
    if (event) await trail.append({ event, target, userId, outcome: revocation, facts, ...actorOf(req) });
    return ended;
  };

  const endAll = async (req: Request): Promise<DisconnectProgress> => {
    const appId = String(req.params.id);
    const app = apps.find(appId);
    const count = await index.count(appId);
    if (!app && count === 0) throwUnknown('connected app');
    const target = { kind: 'connected_app', id: appId, name: app?.name };
    const entry = { event: 'connection.everyone_removed', target, facts: { connections: count } } as const;
    return audited(trail, req, entry, () => everyone.start(appId, actorOf(req).actor));
  };

  return {
    endByForm: pages.button(async (req) => {
      const ended = await end(req);
      const { userId } = splitId(String(req.params.id));
      const back = queryField(req, 'back') === 'user' ? `users/${userId}` : 'connections';
      return { url: `${basePath}/admin/${back}`, flash: { notice: disconnectedNotice(ended) } };
    }),

    async endAllByForm(req: Request, res: Response) {
      const { app } = await endAll(req);
      res.redirect(303, `${basePath}/admin/connections?app=${app}`);
    },

    end: operation(
      { summary: 'Disconnect: deleted here at once, revoked at the provider', response: endedJson },
      async ({ req }) => ({ id: String(req.params.id), ...disconnectedJson(await end(req)) }),
    ),
    endAll: operation(
      { summary: 'Disconnect all users from an app, in the background', response: progressJson, status: 202 },
      async ({ req }) => progressView(await endAll(req)),
    ),
    progress: operation(
      { summary: 'Progress of disconnecting all users from an app', response: progressJson },
      async ({ req }) => {
        const progress = await everyone.progress(String(req.params.id));
        if (!progress)
          throw new AppError('not_found', {
            detail: 'This app has no such disconnection, or it was started more than 30 days ago.',
          });
        return progressView(progress);
      },
    ),
  };
}

/** Written once the provider has responded. The disconnection itself has an entry of its own, before it. */
const REVOCATION_EVENTS: Partial<Record<DisconnectResult, AuditEvent>> = {
  revoked: 'revocation.confirmed',
  pending: 'revocation.pending',
};

export const connectionGone = () =>
  new AppError('not_found', { detail: 'There is no such connection, or it has been ended.' });
