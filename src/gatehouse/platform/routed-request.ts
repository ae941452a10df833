/** Turns a request to `/api/{app}/…` or `/relay/api/{app}/…` into the call of a declared route. */
import type { IncomingMessage } from 'node:http';
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { holdsCardNumber } from '../../shared/http/card-numbers.ts';
import { type Content, json, type Operation } from '../../shared/http/description.ts';
import { bodyLength, type JsonBytes } from '../../shared/http/json-bytes.ts';
import type { DescribedHandler } from '../../shared/http/operation.ts';
import { type PassedResponse, passResponse } from '../../shared/http/pass-response.ts';
import type { StopSwitch } from '../../shared/outbound/stop.ts';
import { appRouteSchema } from '../../shared/provider/app-routes.ts';
import type { CurrentApps, ThreadApp } from '../connected-apps/current-apps.ts';
import { type MatchedCall, matchCall } from '../connected-apps/route-match.ts';
import { rewrittenLinks } from './links.ts';
import type { PlatformCall } from './platform-call.ts';

/** The target of a request: `prefix` and the id of an app, then the platform's own path and query. */
interface ApiTarget {
  prefix: string;
  appId: string;
  target: string;
}

/**
 * Reads the target as it was sent: Express decodes paths, and what a segment decodes to must not be decoded again.
 * @param originalUrl path and query, or an absolute URL (RFC 9112 section 3.2.2)
 */
function apiTargetOf(originalUrl: string, basePath: string): ApiTarget | undefined {
  const local = originalUrl.replace(/^https?:\/\/[^/?#]*/i, '');
  if (!local.startsWith(`${basePath}/`)) return undefined;
  const [, prefix, appId, target] = /^\/(api|relay\/api)\/([^/?]+)(\/.*)$/s.exec(local.slice(basePath.length)) ?? [];
  return prefix === undefined || appId === undefined || target === undefined
    ? undefined
    : { prefix: `${basePath}/${prefix}`, appId, target };
}

/** Returns a function that tells whether a request calls a declared route, whose parameters may hold long numbers. */
export function isDeclaredCall(apps: Pick<CurrentApps, 'threadApps'>, basePath: string): (req: Request) => boolean {
  return ({ method, originalUrl }) => {
    const api = apiTargetOf(originalUrl, basePath);
    const app = api && apps.threadApps().find(({ id }) => id === api.appId);
    if (!app) return false;
    try {
      return matchCall(app, method, api.target) !== undefined;
    } catch {
      return false;
    }
  };
}

export interface RoutedRequest extends MatchedCall {
  app: ThreadApp;
  /** The path below which the caller finds the platform. */
  prefix: string;
}

/** Returns the id of the app that a request names, which may not exist. */
export function namedApp(req: Request, basePath: string): string {
  return apiTargetOf(req.originalUrl, basePath)?.appId ?? '';
}

/**
 * Returns the declared route that a request calls.
 * @throws AppError `not_found`, `method_not_allowed`, `invalid_request`
 */
export function routedRequest(req: Request, app: ThreadApp, basePath: string): RoutedRequest {
  const { prefix = '', target = '' } = apiTargetOf(req.originalUrl, basePath) ?? {};
  const matched = matchCall(app, req.method, target);
  const { method, path } = matched.route;
  req.context.platformRoute = `${method} ${path}`;
  if (method === 'GET' && bodyLength(req) > 0) {
    throw new AppError('invalid_request', { detail: 'Leave the body out: this route accepts none.' });
  }
  return { ...matched, app, prefix: `${prefix}/${app.id}` };
}

/**
 * Reads the body, makes the call, and passes the response on.
 * @param parts `caller`: whose share of the memory for bodies is used; `open`: makes the call
 */
export function passCall(
  req: Request,
  res: Response,
  request: RoutedRequest,
  parts: {
    bodies: JsonBytes;
    caller: string;
    open: (call: PlatformCall, stop: StopSwitch) => Promise<PassedResponse>;
  },
): Promise<void> {
  // The memory of a body is in use until the response is complete: undici keeps the request until then.
  return parts.bodies.use(req, res, parts.caller, (body) =>
    passResponse(req, res, (stop) => parts.open(callOf(req, request, body), stop)),
  );
}

function callOf(req: Request, { app, prefix, route, path }: RoutedRequest, body: Buffer | undefined): PlatformCall {
  const sent = sentHeaders(req, body !== undefined);
  const headers = ['accept-encoding', 'identity', 'user-agent', 'Gatehouse', ...sent.flat()];
  return {
    method: route.method,
    path,
    headers,
    body,
    neededScopes: route.scopes,
    isConditional: sent.some(([name]) => name === 'if-none-match'),
    rewriteLink: (link, apiUrl) => rewrittenLinks(app, link, apiUrl, prefix),
  };
}

/**
 * Returns the only headers of the caller's request that are forwarded (R75), without card numbers (R86).
 * @throws AppError `invalid_request` for a write whose validators or content type cannot be forwarded: without them, it
 *   would do something else
 */
function sentHeaders(
  { headers, method }: IncomingMessage,
  hasBody: boolean,
): (readonly [name: string, value: string])[] {
  const forConnection = (headers.connection ?? '').split(',').map((name) => name.trim().toLowerCase());
  const isWrite = method !== 'GET' && method !== 'HEAD';
  const names = ['accept', 'if-match', 'if-none-match', ...(hasBody ? ['content-type'] : [])];
  const defaults: Readonly<Record<string, string>> = { accept: 'application/json' };
  return names.flatMap((name) => {
    const sent = headers[name];
    const fault = typeof sent === 'string' ? headerFault(name, sent, forConnection) : undefined;
    if (fault !== undefined && isWrite && name !== 'accept') throw new AppError('invalid_request', { detail: fault });
    const value = typeof sent === 'string' && fault === undefined ? sent : defaults[name];
    return value === undefined ? [] : [[name, value] as const];
  });
}

/** Returns why a header is not forwarded, as advice. @param forConnection what the header `Connection` names */
function headerFault(name: string, value: string, forConnection: readonly string[]): string | undefined {
  if (forConnection.includes(name)) return `Remove "${name}" from the header Connection.`;
  return holdsCardNumber(value) ? `Remove the digits of a card from the header ${name}.` : undefined;
}

/** The handlers of declared routes. They match the method themselves, so those of reads and writes are one. */
export interface ApiRoutes {
  list: DescribedHandler;
  read: RequestHandler;
  write: RequestHandler;
}

/** The list of the routes of an app. */
export const routeListJson = z.object({
  // Not the rule for names in a registration, where that of the current thread is reserved.
  items: z
    .array(appRouteSchema.extend({ name: z.string() }))
    .describe('the calls that the caller may make; "current-thread" is that of threadPath'),
});

/** The description of a call of a declared route. */
export function callOperation(isRead: boolean, headers?: z.ZodType): Operation {
  const anything: Content = {
    '*/*': z
      .unknown()
      .describe('the platform’s response, unchanged: at most 32 MiB in 60 s, and its headers within 15 s'),
  };
  return {
    summary: isRead
      ? 'Read from the platform by a declared route'
      : 'Write to the platform by a declared route, with a JSON body of at most 1 MiB',
    ...(headers && { headers }),
    ...(!isRead && { file: json(z.unknown().describe('JSON, passed on unchanged')) }),
    responses: { 200: anything },
    ignoresUnknown: 'the declared route says which parameters a call may have',
  };
}
