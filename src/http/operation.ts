/** Handlers of the JSON API with their description: the schemas that check query and body also document them. */
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { ADVICE, inputFaults } from '../config/input-faults.ts';
import { AppError } from '../errors.ts';
import { type Content, described, json, type Operation } from './description.ts';

export type DescribedHandler = RequestHandler & { readonly operation: Operation };

export interface Call<Query, Body> {
  req: Request;
  res: Response;
  query: Query;
  body: Body;
}

const NOTHING = z.strictObject({});

/**
 * Makes a handler that refuses input outside the schemas and responds with what `handle` returns. A `handle` that sends the
 * response itself returns undefined.
 */
export function operation<Q extends z.ZodType = typeof NOTHING, B extends z.ZodType = typeof NOTHING>(
  parts: {
    summary: string;
    query?: Q;
    /** For the documentation only. */
    headers?: z.ZodType;
    body?: B;
    /** A file that is the body: `handle` reads it from the request. */
    file?: Content;
    /** The body of the response; members that it does not name are left out. Undefined: no body. */
    response?: z.ZodType;
    status?: 200 | 201 | 202 | 204;
    /** The status of the response without a body that `handle` sends itself if it has nothing to return. */
    emptyStatus?: 204;
    /** Of a response that `handle` sends itself in place of JSON. */
    mediaType?: string;
  },
  handle: (call: Call<z.output<Q>, z.output<B>>) => Promise<unknown>,
): DescribedHandler {
  const { response, status = response ? 200 : 204, emptyStatus, mediaType, ...input } = parts;
  const handler: RequestHandler = async (req, res) => {
    const query = checked(parts.query ?? NOTHING, queryOf(req)) as z.output<Q>;
    const body = (parts.body ? checked(parts.body, bodyOf(req)) : {}) as z.output<B>;
    const result = await handle({ req, res, query, body });
    if (res.headersSent) return;
    res.status(status);
    if (response) res.json(response.parse(result));
    else res.end();
  };
  const content: Content = { ...(response && json(response)), ...(mediaType && { [mediaType]: z.unknown() }) };
  const empty = emptyStatus ? { [emptyStatus]: {} } : {};
  return described({ ...input, responses: { [status]: content, ...empty } }, handler);
}

export function isDescribed<H extends object>(handler: H): handler is H & { readonly operation: Operation } {
  return 'operation' in handler;
}

/** @throws AppError `invalid_request` with every fault */
export function checked<T extends z.ZodType>(schema: T, input: unknown): z.output<T> {
  const parsed = schema.safeParse(input, ADVICE);
  if (parsed.success) return parsed.data;
  throw new AppError('invalid_request', {
    detail: 'The request is not valid: "errors" says where and why.',
    faults: inputFaults(parsed.error),
  });
}

/** Parses the query here, because Express would accept a repeated parameter. */
function queryOf(req: Request): Record<string, string> {
  const start = req.url.indexOf('?');
  const parameters = [...new URLSearchParams(start < 0 ? '' : req.url.slice(start))];
  const query = Object.fromEntries(parameters);
  if (Object.keys(query).length === parameters.length) return query;
  throw new AppError('invalid_request', { detail: 'Give each parameter of the address once.' });
}

/** Refuses forms: their fields are all strings, so the schemas would report faults that have nothing to do with the cause. */
function bodyOf(req: Request): unknown {
  if (req.is('application/json')) return req.body;
  throw new AppError('invalid_request', { detail: 'Send the body as JSON, with "Content-Type: application/json".' });
}
