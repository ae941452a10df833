/** Lets administrators disconnect users from apps, by form and by API. */
import type { Request } from 'express';
import { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import { operation } from '../../../shared/http/operation.ts';
import type { Notice } from '../../../shared/pages/page-data.ts';
import { actorOf } from '../../../shared/sessions/actor.ts';
import { appendOrNote } from '../../audit/audit-change.ts';
import type { AuditEvent } from '../../audit/kinds.ts';
import { disconnectedFields, disconnectedJson } from '../../grants/connection-view.ts';
import type { Disconnected, DisconnectResult } from '../../grants/connections.ts';
import type { DisconnectProgress } from '../../grants/disconnect-everyone.ts';
import { audited } from '../change.ts';
import { confirmation } from '../confirmation.ts';
import type { AdminParts } from '../parts.ts';
import { throwUnknown } from '../resource.ts';
import { type Selection, selectionOf, workOnEach } from '../selection.ts';
import { displayName } from '../users/view.ts';
import { disconnectedNotice } from './disconnect-notice.ts';
import { connectionFinder } from './find.ts';
import { progressJson, progressView } from './view.ts';

const endedJson = z.object(disconnectedFields);

/** A connection on a confirmation page. */
interface SelectedConnection {
  /** The id in the request. */
  id: string;
  user: string;
  app: string;
}

export function disconnectionRoutes(parts: AdminParts) {
  const { grants, users, connectedApps, audit, publicUrl } = parts;
  const { index, connections, everyone } = grants;
  const { apps } = connectedApps;
  const { basePath } = publicUrl;

  const find = connectionFinder(connections);

  const findSelected = async (id: string): Promise<SelectedConnection | undefined> => {
    const result = await find(id);
    if (!result) return undefined;
    const { userId, connection } = result;
    const user = displayName(await users.store.find(userId)) ?? userId;
    return { id, user, app: apps.nameOf(connection.app) };
  };

  const end = async (req: Request, id: string, deadline?: AbortSignal): Promise<Disconnected> => {
    const { userId, connection } = (await find(id)) ?? throwGone();
    const { actor: by, ...origin } = actorOf(req);
    const { app: appId } = connection;
    const target = { kind: 'connection', id: `${userId}/${appId}` };
    const entry = { event: 'connection.removed', target, userId, facts: { connection: connection.id } } as const;
    const disconnected = await audited(audit, req, entry, async () => {
      const options = { by, origin, audited: true, only: connection };
      return (await connections.end(userId, appId, options, deadline)) ?? throwGone();
    });
    const { revocation, reply } = disconnected;
    const event = REVOCATION_EVENTS[revocation];
    const facts = { connection: disconnected.id, status: reply?.status, error: reply?.error };
    if (event) await appendOrNote(audit, { event, target, userId, outcome: revocation, facts, ...actorOf(req) });
    return disconnected;
  };

  const endAll = async (req: Request): Promise<DisconnectProgress> => {
    const appId = String(req.params.id);
    const app = apps.find(appId);
    const count = await index.count(appId);
    if (!app && count === 0) throwUnknown('connected app');
    const target = { kind: 'connected_app', id: appId, name: app?.name };
    const entry = { event: 'connection.all_removed', target, facts: { connections: count } } as const;
    return audited(audit, req, entry, () => everyone.start(appId, actorOf(req).actor));
  };

  const disconnection = confirmation<Selection<SelectedConnection>>(parts, {
    menuPath: 'connections',
    home: () => 'connections',
    find: (req) => selectionOf(req, findSelected, throwGone),
    questionFor({ items }) {
      const [first] = items;
      const count = items.length;
      return {
        ...(count === 1 && first
          ? { action: `Disconnect ${first.app} from`, name: first.user }
          : { action: `Disconnect ${count} connections`, names: items.map(({ user, app }) => `${user}, ${app}`) }),
        consequences: [
          'Disconnecting revokes the tokens at the provider and deletes them here. This cannot be undone.',
          'Services can no longer act for the user with this app until the user connects again.',
        ],
        verb: count === 1 ? 'Disconnect' : `Disconnect ${count} connections`,
      };
    },
    async work(req, selection) {
      const deadline = AbortSignal.timeout(MAX_WAIT_MS);
      const result = await workOnEach(selection, ({ id }) => end(req, id, deadline));
      return { url: `${basePath}/admin/connections`, flash: { notice: disconnectedNotice(result) } };
    },
  });

  const fullDisconnection = confirmation(parts, {
    menuPath: 'connections',
    home: ({ id }) => `connections?app=${id}`,
    async find(req) {
      const id = String(req.params.id);
      const count = await index.count(id);
      const app = apps.find(id);
      if (!app && count === 0) throwUnknown('connected app');
      return { id, name: app?.name ?? id, count };
    },
    questionFor: ({ name, count }) => ({
      action: 'Disconnect everyone from',
      name,
      consequences: [
        `${count} connection${count === 1 ? '' : 's'} will be revoked at the provider and deleted here, in the background. This cannot be undone.`,
        'To use the app again, every user must connect again.',
      ],
      verb: `Disconnect all ${count}`,
      typedText: name,
    }),
    async work(req) {
      const { app } = await endAll(req);
      return { url: `${basePath}/admin/connections?app=${app}`, flash: { notice: STARTED } };
    },
  });

  return {
    endPage: disconnection.page,
    endByForm: disconnection.form,
    endAllPage: fullDisconnection.page,
    endAllByForm: fullDisconnection.form,

    end: operation(
      {
        summary:
          'End a connection, by its id or as USER.APP: its tokens are deleted here at once, and revoked at the provider',
        response: endedJson,
      },
      async ({ req }) => disconnectedJson(await end(req, String(req.params.id))),
    ),
    endAll: operation(
      { summary: 'Disconnect all users from an app, in the background', response: progressJson, status: 202 },
      async ({ req }) => progressView(await endAll(req)),
    ),
    progress: operation(
      { summary: 'Read the progress of disconnecting all users from an app', response: progressJson },
      async ({ req }) => {
        const progress = await everyone.progress(String(req.params.id));
        if (!progress)
          throw new AppError('not_found', {
            detail: 'Disconnecting all users from this app was not started within the last 30 days.',
          });
        return progressView(progress);
      },
    ),
  };
}

/** How long a form waits for providers. Revocations that are not confirmed by then are pending. */
const MAX_WAIT_MS = 5_000;

const STARTED: Notice = { tone: 'info', text: 'Everyone is being disconnected. The progress is shown below the list.' };

/** The audit event for each response of the provider. The disconnection itself already has an entry. */
const REVOCATION_EVENTS: Partial<Record<DisconnectResult, AuditEvent>> = {
  revoked: 'revocation.confirmed',
  pending: 'revocation.pending',
};

export function throwGone(): never {
  throw new AppError('not_found', { detail: 'There is no such connection, or it has ended.' });
}
