/**
 * The context of a request: its id, its reference for users, its address and its route. shared/sessions/session.ts adds
 * `session`, gatehouse/relay/routes.ts adds `relayCaller`, and upload.ts adds `upload`.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { containsCardNumber } from '../observability/card-numbers.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { ClientAddress } from './client-address.ts';

export interface RequestContext {
  /** `X-Request-Id` of the response. */
  id: string;
  /** The last 8 characters of the id, shown on error pages and in sign-in records. */
  reference: string;
  /** The pattern of the route, never the path, which may hold user input. */
  route: string;
  /** The method and pattern of the declared route of a platform that is called. */
  platformRoute?: string | undefined;
  /** Whether a path without the base path is that of a route, but not of one with GET. Set by the route table. */
  isWithoutGet?: ((path: string) => boolean) | undefined;
  address: string;
  /** The headers of every response, which the fast path sends with the head. Names and values alternate. */
  unsentHeaders?: readonly string[] | undefined;
  /** Additional headers of this response on the fast path, in the same form. */
  addedHeaders?: string[] | undefined;
  /** The admin token of a call to the admin API; set by its guard. */
  adminToken?: { id: string; name: string } | undefined;
}

declare module 'node:http' {
  interface IncomingMessage {
    context: RequestContext;
  }
}

const ID_FORM = /^[A-Za-z0-9-]{8,64}$/;

/** Describes a request that has ended. */
export interface EndedRequest {
  method: string;
  /** Pattern of the route; `none` if none matched. */
  route: string;
  /** As in `RequestContext`. */
  platformRoute?: string | undefined;
  status: number;
  seconds: number;
  /** The response is incomplete: the caller disconnected, or the platform's response broke off. */
  incomplete?: true;
}

const incompleteMember = (res: ServerResponse): { incomplete?: true } =>
  res.writableFinished ? {} : { incomplete: true };

export interface BeginRequest {
  /** Creates the context of the request, and sets its id and the common headers on the response. */
  inExpress(req: IncomingMessage, res: ServerResponse): void;
  /** Creates the context on the fast path, where `sendHead` sends the common headers. */
  onFastPath(req: IncomingMessage, res: ServerResponse, route: string): void;
  /** Sets the unsent headers of a request that leaves the fast path. */
  fallBackToExpress(req: IncomingMessage, res: ServerResponse): void;
}

/** @param parts `isTrusted`: whether to use this peer's `X-Request-Id`; `headers`: the headers of every response */
export function requestContext(parts: {
  metrics: Metrics;
  /** Called with the id of each request. */
  onBegin?: ((id: string) => void) | undefined;
  /** Called in the request's async context, once the response has ended or the caller has disconnected. */
  onEnd?: ((ended: EndedRequest) => void) | undefined;
  isTrusted: (address: string) => boolean;
  addressOf: ClientAddress;
  headers: ReadonlyMap<string, string>;
}): BeginRequest {
  const { metrics, onBegin, onEnd, isTrusted, addressOf, headers } = parts;

  const idOf = (req: IncomingMessage): string => {
    const sentId = req.headers['x-request-id'];
    const isWellFormed = typeof sentId === 'string' && ID_FORM.test(sentId) && !containsCardNumber(sentId);
    return isWellFormed && isTrusted(req.socket.remoteAddress ?? '') ? sentId : randomUUID();
  };

  const dataHeaders = [...headers].flat();

  const start = (req: IncomingMessage, res: ServerResponse, route: string): RequestContext => {
    const id = idOf(req);
    const context: RequestContext = { id, reference: id.slice(-8), route, address: addressOf(req) };
    req.context = context;
    onBegin?.(id);
    const startedAt = performance.now();
    const end = () => {
      const seconds = (performance.now() - startedAt) / 1000;
      const status = `${Math.floor(res.statusCode / 100)}xx`;
      metrics.requests.observe({ route: context.route, method: req.method ?? '', status }, seconds);
      onEnd?.({
        method: req.method ?? '',
        route: context.route,
        ...(context.platformRoute !== undefined && { platformRoute: context.platformRoute }),
        status: res.statusCode,
        seconds,
        ...incompleteMember(res),
      });
    };
    // Node emits `close` in the context of the connection.
    res.on('close', onEnd ? AsyncLocalStorage.bind(end) : end);
    return context;
  };
  const setHeaders = (res: ServerResponse, id: string): void => {
    res.setHeaders(headers as Map<string, string>);
    res.setHeader('X-Request-Id', id);
  };

  return {
    inExpress(req, res) {
      setHeaders(res, start(req, res, 'none').id);
    },

    onFastPath(req, res, route) {
      start(req, res, route).unsentHeaders = dataHeaders;
    },

    fallBackToExpress({ context }, res) {
      if (!context.unsentHeaders) return;
      const { addedHeaders = [] } = context;
      context.unsentHeaders = undefined;
      context.addedHeaders = undefined;
      if (res.headersSent) return;
      setHeaders(res, context.id);
      for (let index = 0; index < addedHeaders.length; index += 2)
        res.setHeader(addedHeaders[index] ?? '', addedHeaders[index + 1] ?? '');
    },
  };
}
