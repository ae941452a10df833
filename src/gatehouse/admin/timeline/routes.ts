/** Timelines in the admin API. */
import { operation } from '../../../shared/http/operation.ts';
import type { AdminParts } from '../parts.ts';
import { throwUnknown } from '../resource.ts';
import { createTimelines } from './timeline.ts';
import { timelineJson, timelineQuery } from './view.ts';

export function timelineRoutes(parts: AdminParts) {
  const { users, connectedApps, relay } = parts;
  const timelines = createTimelines(parts);
  const list = { query: timelineQuery, response: timelineJson };
  return {
    ofUser: operation(
      { summary: 'What happened to a user: sign-ins, consents, health of connections, calls of services', ...list },
      async ({ req, query }) => {
        const user = await users.store.find(String(req.params.id));
        return timelines.ofUser(user ?? throwUnknown('user'), query);
      },
    ),
    ofApp: operation(
      { summary: 'What happened to a connected app: sign-ins, consents, changes, calls of services', ...list },
      async ({ req, query }) =>
        timelines.ofApp(connectedApps.apps.find(String(req.params.id)) ?? throwUnknown('connected app'), query),
    ),
    ofToken: operation(
      { summary: 'What happened to a relay token: changes, calls by the hour and refusals', ...list },
      async ({ req, query }) => {
        const token = await relay.tokens.find(String(req.params.id));
        return timelines.ofToken(token ?? throwUnknown('relay token'), query);
      },
    ),
  };
}
