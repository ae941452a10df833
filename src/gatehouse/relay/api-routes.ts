/** Serves `/relay/api/{app}/…`: the declared routes of platforms, for services. */
import type { RequestHandler } from 'express';
import { described } from '../../shared/http/description.ts';
import { bodyLength, type JsonBytes } from '../../shared/http/json-bytes.ts';
import { operation } from '../../shared/http/operation.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import { routesOf } from '../connected-apps/route-match.ts';
import type { GrantStore } from '../grants/grant-store.ts';
import type { PlatformCalls } from '../platform/platform-call.ts';
import {
  type ApiRoutes,
  callOperation,
  namedApp,
  passCall,
  routedRequest,
  routeListJson,
} from '../platform/routed-request.ts';
import type { RelayAccess, RelayGate } from './gate.ts';
import { callerOf, SUBJECT } from './routes.ts';

/** Returns the handlers of declared routes. */
export function relayApi(parts: {
  gate: RelayGate;
  apps: CurrentApps;
  grants: Pick<GrantStore, 'prefetch'>;
  /** As for `relayCurrentThread`. */
  userCalls: PlatformCalls;
  accountCalls: PlatformCalls;
  bodies: JsonBytes;
  basePath: string;
}): ApiRoutes {
  const { gate, apps, grants, userCalls, accountCalls, bodies, basePath } = parts;

  const call: RequestHandler = async (req, res) => {
    const caller = callerOf(req);
    const relayTokenId = caller.token.id;
    const named = await gate.readSubject(req, caller, 'api:call');
    const appId = namedApp(req, basePath);
    // Started together with the read of the user, so that both take one round trip to the store. A body takes its time
    // to arrive, and the connection may end meanwhile.
    const isPrefetched = named.kind === 'user' && bodyLength(req) === 0 && apps.find(appId) !== undefined;
    const prefetched = isPrefetched ? grants.prefetch(named.id, appId) : undefined;
    const subject = await gate.loadSubject(named);
    const access: RelayAccess = { scope: 'api:call', app: appId, subject };
    // Before the route is looked up, so that a token that may not call the app gets the same refusal for each path.
    gate.authorize(caller, access);
    const app = apps.threadApp(appId);
    const request = routedRequest(req, app, basePath);
    gate.authorize(caller, { ...access, route: request.route });
    const calls = subject.kind === 'user' ? userCalls : accountCalls;
    try {
      await passCall(req, res, request, {
        bodies,
        caller: relayTokenId,
        open: (platformCall, stop) =>
          calls.stream({ ownerId: subject.id, app, call: platformCall, prefetched, relayTokenId }, stop),
      });
    } catch (error) {
      gate.count(caller, access, 'failed');
      throw error;
    }
    gate.count(caller, access, 'succeeded');
  };

  return {
    list: operation(
      { summary: 'The calls of an app’s platform that the relay token may make', response: routeListJson },
      async ({ req }) => {
        const caller = callerOf(req);
        const app = String(req.params.app);
        const access: RelayAccess = { scope: 'api:call', app };
        gate.authorize(caller, access);
        const routes = routesOf(apps.threadApp(app));
        return { items: routes.filter((route) => gate.allows(caller, { ...access, route })) };
      },
    ),
    read: described<RequestHandler>(callOperation(true, SUBJECT), (req, res, next) => call(req, res, next)),
    write: described<RequestHandler>(callOperation(false, SUBJECT), (req, res, next) => call(req, res, next)),
  };
}
