/** Serves `GET /relay/connections`: the state of the connections that a relay token may see, without their tokens. */
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { listOf, pageQuery } from '../../shared/http/list-schema.ts';
import { type DescribedHandler, operation } from '../../shared/http/operation.ts';
import { decodeCursor, encodeCursor, pageOf } from '../../shared/storage/paging.ts';
import { isoOrNull } from '../../shared/time.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import type { ListedConnection } from '../grants/connection-index.ts';
import { connectionJson, connectionSchema } from '../grants/connection-view.ts';
import type { Grants } from '../grants/grants.ts';
import type { RelayCaller, RelayGate } from './gate.ts';
import { SUBJECT_ID } from './policy.ts';
import { callerOf, USER_ASSERTION } from './routes.ts';

const query = pageQuery.extend({
  user: z.string().regex(SUBJECT_ID).optional().describe('a user id: for a relay token with assertUser'),
  app: z
    .string()
    .max(40)
    .optional()
    .describe('id of a connected app; may be left out with a user, or if the relay token names one app'),
});

const connectionOfUser = z.object({
  userId: z.string(),
  ...connectionSchema.omit({ appName: true, account: true, connectUrl: true }).shape,
  connectedAt: z.iso.datetime().nullable(),
  refreshedAt: z.iso.datetime().nullable().describe('when the provider last issued an access token'),
  connectUrl: z
    .string()
    .nullable()
    .describe(
      'where the user can reconnect; null while the connection is active, lacks no scope and needs no stronger sign-in',
    ),
});

export function relayConnections(parts: {
  gate: RelayGate;
  apps: Pick<CurrentApps, 'find'>;
  grants: Pick<Grants, 'index' | 'connections'>;
  publicHref: string;
}): DescribedHandler {
  const { gate, apps, grants, publicHref } = parts;

  const view = async ({ userId, appId }: ListedConnection): Promise<z.output<typeof connectionOfUser>[]> => {
    const connection = await grants.connections.find(userId, appId);
    if (!connection) return [];
    const { connectUrl, ...json } = connectionJson(connection, apps.find(appId), publicHref);
    const { connectedAt, refreshedAt } = connection;
    return [
      {
        ...json,
        userId,
        connectedAt: isoOrNull(connectedAt),
        refreshedAt: isoOrNull(refreshedAt),
        connectUrl:
          json.health === 'active' && json.missingScopes.length === 0 && !json.stepUpRequired ? null : connectUrl,
      },
    ];
  };

  const page = async (
    { token: { users, apps: allowed } }: RelayCaller,
    { limit, after, user, app }: z.output<typeof query>,
  ) =>
    user === undefined && app !== undefined && typeof users !== 'string'
      ? pageOfListed(users, app, { after, limit })
      : grants.index.page({ after, limit, userId: user, appId: app, apps: allowed });

  return operation(
    {
      summary:
        'The state of the connections that the relay token may see: of a user, of an app, or of both; newest first',
      query,
      headers: USER_ASSERTION,
      response: listOf(connectionOfUser),
    },
    async ({ req, query: request }) => {
      const caller = callerOf(req);
      const scope = 'connections:read';
      const namedUser = await gate.readUser(req, caller, request.user, scope);
      const [firstApp, ...otherApps] = caller.token.apps;
      const app = request.app ?? (namedUser || otherApps.length > 0 ? undefined : firstApp);
      if (!namedUser && app === undefined)
        throw new AppError('invalid_request', { detail: 'Name a user, an app, or both.' });
      const subject = namedUser && (await gate.loadSubject(namedUser));
      const access = { scope, app, subject, everyUser: !subject } as const;
      gate.authorize(caller, access);

      const mayList = async ({ userId, appId }: ListedConnection) => {
        const owner = subject ?? (await gate.loadSubject({ kind: 'user', id: userId, proven: false }));
        return gate.allows(caller, { scope, app: appId, subject: owner });
      };
      const { items, ...paging } = await page(caller, { ...request, user: namedUser?.id, app });
      const views = await Promise.all(items.map(async (item) => ((await mayList(item)) ? view(item) : [])));
      gate.count(caller, access, 'succeeded');
      return { items: views.flat(), ...paging };
    },
  );
}

/** Returns a page of the users whom the relay token lists, as connections to the app, which may not exist. */
function pageOfListed(
  users: readonly string[],
  appId: string,
  { after, limit }: { after: string | undefined; limit: number },
) {
  const lastUserId = after === undefined ? '' : decodeCursor(after).member;
  const remaining = [...new Set(users)].filter((id) => id > lastUserId).toSorted();
  const { items, ...paging } = pageOf(remaining, limit, (member) => encodeCursor({ score: 0, member }));
  return { items: items.map((userId) => ({ userId, appId })), ...paging };
}
