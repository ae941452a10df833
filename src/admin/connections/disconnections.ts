/** Disconnecting by an administrator: one connection, or everyone from an app, by form and by API. */
import type { Request, RequestHandler } from 'express';
import { z } from 'zod';
import type { AuditEvent } from '../../audit/kinds.ts';
import type { AuditTrail } from '../../audit/trail.ts';
import type { AppStore } from '../../connected-apps/app-store.ts';
import { AppError } from '../../errors.ts';
import type { ConnectionIndex } from '../../grants/connection-index.ts';
import { disconnectedAnswer, disconnectedJson } from '../../grants/connection-view.ts';
import type { Connections, Disconnected, DisconnectResult } from '../../grants/connections.ts';
import type { DisconnectEveryone, DisconnectProgress } from '../../grants/disconnect-everyone.ts';
import { queryField } from '../../http/body.ts';
import { type DescribedHandler, operation } from '../../http/operation.ts';
import type { Pages } from '../../pages/pages.ts';
import { actorOf } from '../../sessions/actor.ts';
import { isoOrNull, isoTime } from '../../time.ts';
import { audited } from '../change.ts';
import { splitId } from '../person-view.ts';
import { disconnectedNotice } from './disconnect-notice.ts';

export interface DisconnectionRoutes {
  endByForm: RequestHandler;
  endAllByForm: RequestHandler;
  end: DescribedHandler;
  endAll: DescribedHandler;
  progress: DescribedHandler;
}

const endedAnswer = z.object({ id: z.string(), ...disconnectedAnswer });

const progressAnswer = z.object({
  app: z.string(),
  startedAt: z.iso.datetime(),
  finishedAt: z.iso.datetime().nullable(),
  total: z.number().int(),
  done: z.number().int(),
  answers: z.record(z.string(), z.number()).describe('how often the provider answered what'),
});

export type ProgressView = z.output<typeof progressAnswer>;

export function disconnectionRoutes(parts: {
  index: ConnectionIndex;
  connections: Connections;
  everyone: DisconnectEveryone;
  apps: AppStore;
  trail: AuditTrail;
  pages: Pages;
  basePath: string;
}): DisconnectionRoutes {
  const { index, connections, everyone, apps, trail, pages, basePath } = parts;

  const end = async (req: Request): Promise<Disconnected> => {
    const id = String(req.params.id);
    const { userId, what: appId } = splitId(id);
    const { actor: by, address, requestId } = actorOf(req);
    if (!(await connections.find(userId, appId))) throw connectionGone();
    const context = { by, origin: { address, requestId }, audited: true };
    const app = apps.find(appId);
    const facts = {
      event: 'connection.removed' as const,
      target: { kind: 'connection', id: `${userId}/${appId}` },
      userId,
    };
    const ended = await audited(trail, req, facts, () =>
      app ? connections.end(userId, app, context) : connections.forget(userId, appId, context),
    );
    if (ended === undefined) throw connectionGone();
    const { revocation, said } = ended;
    const event = REVOCATION_EVENTS[revocation];
    const answered = { status: said?.status, error: said?.error };
    if (event) await trail.append({ ...facts, event, outcome: revocation, facts: answered, ...actorOf(req) });
    return ended;
  };

  const endAll = async (req: Request): Promise<DisconnectProgress> => {
    const appId = String(req.params.id);
    const app = apps.find(appId);
    if (!app && (await index.count(appId)) === 0) throw unknownApp();
    const target = { kind: 'connected_app', id: appId, name: app?.name };
    const facts = { connections: await index.count(appId) };
    return audited(trail, req, { event: 'connection.everyone_removed', target, facts }, () =>
      everyone.start(appId, actorOf(req).actor),
    );
  };

  return {
    async endByForm(req, res) {
      const ended = await end(req);
      const { userId } = splitId(String(req.params.id));
      const back = queryField(req, 'back') === 'user' ? `users/${userId}` : 'connections';
      await pages.redirect(req, res, `${basePath}/admin/${back}`, { notice: disconnectedNotice(ended) });
    },

    async endAllByForm(req, res) {
      const { app } = await endAll(req);
      res.redirect(303, `${basePath}/admin/connections?app=${app}`);
    },

    end: operation(
      { summary: 'Disconnect: deleted here at once, revoked at the provider', answer: endedAnswer },
      async ({ req }) => {
        return { id: String(req.params.id), ...disconnectedJson(await end(req)) };
      },
    ),
    endAll: operation(
      { summary: 'Disconnect everyone from an app, in the background', answer: progressAnswer, status: 202 },
      async ({ req }) => progressView(await endAll(req)),
    ),
    progress: operation(
      { summary: 'How far disconnecting everyone from an app is', answer: progressAnswer },
      async ({ req }) => {
        const progress = await everyone.progress(String(req.params.id));
        if (!progress) throw new AppError('not_found', { detail: 'Nobody has asked for that, or it was long ago.' });
        return progressView(progress);
      },
    ),
  };
}

/** What the trail says once the provider has answered; the disconnection itself stands in it before. */
const REVOCATION_EVENTS: Partial<Record<DisconnectResult, AuditEvent>> = {
  revoked: 'revocation.confirmed',
  pending: 'revocation.pending',
};

export function progressView({ app, startedAt, finishedAt, total, done, answers }: DisconnectProgress): ProgressView {
  const told = Object.fromEntries(
    Object.entries(answers).filter((pair): pair is [string, number] => pair[1] !== undefined),
  );
  return {
    app,
    startedAt: isoTime(startedAt),
    finishedAt: isoOrNull(finishedAt),
    total,
    done,
    answers: told,
  };
}

export const connectionGone = () =>
  new AppError('not_found', { detail: 'There is no such connection, or it has been ended.' });
const unknownApp = () => new AppError('not_found', { detail: 'There is no connected app with this id.' });
