/** The guards and the budget of the routes of the relay, and the handler of the current thread. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { queryField } from '../../shared/http/body.ts';
import { type Credentials, described, type Operation, requiring } from '../../shared/http/description.ts';
import { passResponse } from '../../shared/http/pass-response.ts';
import type { RateLimits } from '../../shared/http/rate-limit.ts';
import { addHeaders } from '../../shared/http/response-head.ts';
import type { Budget, FastPathGuard, FastPathHandler } from '../../shared/http/route-table.ts';
import type { CurrentApps, ThreadApp } from '../connected-apps/current-apps.ts';
import type { GrantStore } from '../grants/grant-store.ts';
import { type PlatformCalls, threadCall } from '../platform/platform-call.ts';
import type { ApiRoutes } from '../platform/routed-request.ts';
import type { NamedSubject, RelayAccess, RelayCaller, RelayGate } from './gate.ts';
import type { RelayScope } from './policy.ts';

declare module '../../shared/http/request-context.ts' {
  interface RequestContext {
    /** The service that the guard has authenticated. */
    relayCaller?: RelayCaller | undefined;
  }
}

export interface RelayGuards {
  /** Authenticates the service. Works with and without Express. */
  authenticate: FastPathGuard;
  /** `authenticate` as Express middleware. */
  serviceGuard: RequestHandler;
  /**
   * Counts the requests of each relay token. Its outgoing calls have a share of each provider's slots (R134), its uses
   * are stored as counts, and it has a limited number of audit entries a minute.
   */
  budget: Budget;
  /**
   * This guard and the next ones run after `authenticate`. They refuse a token without the scope before the user or
   * service account is read.
   */
  currentThreadGuard: FastPathGuard;
  /** For one BIN. Works with and without Express. */
  binGuard: FastPathGuard;
  /** For several BINs. */
  binsGuard: RequestHandler;
  /** For the routes of platforms. */
  apiGuard: RequestHandler;
  connectionsGuard: RequestHandler;
  connectLinksGuard: RequestHandler;
  /** Refuses forms: the handlers accept them, since pages send them. */
  jsonOnly: RequestHandler;
}

/** The guards, and the handlers that are only for services. Lookups of BINs use the handlers of browsers. */
export interface RelayRoutes extends RelayGuards {
  currentThread: FastPathHandler;
  api: ApiRoutes;
  connections: RequestHandler;
  connectLinks: RequestHandler;
  /** Authenticates the service with errors in the form of OAuth. */
  clientGuard: RequestHandler;
  exchangeToken: RequestHandler;
}

export function relayGuards(parts: { gate: RelayGate; limits: Pick<RateLimits, 'take' | 'headers'> }): RelayGuards {
  const { gate, limits } = parts;

  const authenticate = async (req: IncomingMessage): Promise<void> => {
    req.context.relayCaller = await gate.authenticate(req);
  };

  const scopeGuard = (scope: RelayScope): RequestHandler =>
    requiring<RequestHandler>(relayToken(scope), (req, _res, next) => {
      gate.authorize(callerOf(req), { scope });
      next();
    });

  /**
   * Authorizes a BIN lookup, and counts it once the response is sent or the caller has disconnected: the handler also
   * serves browsers, and does not count.
   */
  const authorizeBin = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const access: RelayAccess = { scope: 'bin:read' };
    const caller = callerOf(req);
    gate.authorize(caller, access);
    res.once('close', () => {
      gate.count(caller, access, res.statusCode < 400 ? 'succeeded' : 'failed');
    });
  };

  return {
    authenticate,
    serviceGuard: (req, _res, next) => void authenticate(req).then(() => next(), next),

    budget: {
      take(req, res) {
        const { token } = callerOf(req);
        addHeaders(req, res, limits.headers('relay-token', limits.take('relay-token', token.id)));
      },
    },

    currentThreadGuard: requiring<FastPathGuard>(relayToken('threads:read'), async (req) =>
      gate.authorize(callerOf(req), { scope: 'threads:read' }),
    ),

    binGuard: requiring(relayToken('bin:read'), authorizeBin),

    binsGuard: requiring<RequestHandler>(relayToken('bin:read'), (req, res, next) =>
      authorizeBin(req, res).then(() => next(), next),
    ),

    apiGuard: scopeGuard('api:call'),
    connectionsGuard: scopeGuard('connections:read'),
    connectLinksGuard: scopeGuard('connect_links:create'),

    jsonOnly(req, _res, next) {
      const detail = 'Send the body as JSON, with "Content-Type: application/json".';
      next(req.is('application/json') ? undefined : new AppError('invalid_request', { detail }));
    },
  };
}

/** Returns the handler that sends the current thread. It works with and without Express. */
export function relayCurrentThread(parts: {
  gate: RelayGate;
  apps: CurrentApps;
  grants: Pick<GrantStore, 'prefetch'>;
  /** Calls with users' tokens. Like those below, they use the services' share of the provider's budget. */
  userCalls: PlatformCalls;
  /** Calls with the API tokens of service accounts. */
  accountCalls: PlatformCalls;
}): FastPathHandler {
  const { gate, apps, grants, userCalls, accountCalls } = parts;

  const appFor = (id: string | undefined, { token }: RelayCaller): ThreadApp => {
    if (id !== undefined) return apps.threadApp(id);
    const [firstApp, ...otherApps] = apps.threadApps().filter((app) => token.apps.includes(app.id));
    return firstApp && otherApps.length === 0 ? firstApp : apps.threadApp(undefined);
  };

  const subjectOf = async (req: IncomingMessage, named: NamedSubject, caller: RelayCaller) => {
    const appId = queryField(req, 'app');
    if (named.kind === 'user') {
      const app = appFor(appId, caller);
      // Started together with the read of the user, so that both take one round trip to the store.
      const prefetched = grants.prefetch(named.id, app.id);
      return { app: app.id, prefetched, subject: await gate.loadSubject(named) };
    }
    const subject = await gate.loadSubject(named);
    // A service account belongs to one app, so the request need not name one.
    return { app: appId ?? (subject.kind === 'service_account' ? subject.app : undefined), subject };
  };

  return described<FastPathHandler>(CURRENT_THREAD, async (req, res) => {
    const caller = callerOf(req);
    const named = await gate.readSubject(req, caller, 'threads:read');
    const { app: appId, prefetched, subject } = await subjectOf(req, named, caller);
    const access: RelayAccess = { scope: 'threads:read', app: appId, subject };
    gate.authorize(caller, access);
    const app = apps.threadApp(appId);
    const calls = subject.kind === 'user' ? userCalls : accountCalls;
    try {
      await passResponse(req, res, (stop) =>
        calls.stream(
          { ownerId: subject.id, app, call: threadCall(app), prefetched, relayTokenId: caller.token.id },
          stop,
        ),
      );
    } catch (error) {
      gate.count(caller, access, 'failed');
      throw error;
    }
    gate.count(caller, access, 'succeeded');
  });
}

export const USER_ASSERTION = z.object({
  'Gatehouse-User-Assertion': z.string().optional().describe('a JWT from GET /session/verify, to act for its user'),
});

/** The headers that name the subject of a call. */
export const SUBJECT = z.object({
  ...USER_ASSERTION.shape,
  'Gatehouse-User': z.string().optional().describe('a user id: for a relay token with assertUser'),
  'Gatehouse-Service-Account': z.string().optional().describe('id of a service account'),
});

const CURRENT_THREAD: Operation = {
  summary: 'The current thread of a user or a service account',
  query: z.object({
    app: z
      .string()
      .optional()
      .describe(
        'id of a connected app; may be left out if the relay token names one app, or only one app serves threads',
      ),
  }),
  headers: SUBJECT,
  responses: {
    200: {
      '*/*': z
        .unknown()
        .describe('the platform’s JSON, unchanged: at most 32 MiB in 60 s, and its headers within 15 s'),
    },
  },
};

const relayToken = (scope: RelayScope): Credentials => [{ relayToken: [scope] }];

/** Returns the service that the guard has authenticated. @throws AppError `relay_token_invalid` */
export function callerOf(req: IncomingMessage): RelayCaller {
  const { relayCaller } = req.context;
  if (!relayCaller) throw new AppError('relay_token_invalid');
  return relayCaller;
}
