/** Owns what a call of the JSON interface is: the schemas that judge its query and body are those that describe it. */
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { inputFaults } from '../input-faults.ts';

export interface Operation {
  /** One line for the description of the interface. */
  summary: string;
  query?: z.ZodType;
  body?: z.ZodType;
  /** What is answered; what it does not name is left out of the answer. Undefined: nothing. */
  answer?: z.ZodType;
  status: 200 | 201 | 202 | 204;
  /** Where the answer is no JSON. */
  mediaType?: string;
}

/** A handler that can be described. */
export type DescribedHandler = RequestHandler & { readonly operation: Operation };

export interface Call<Query, Body> {
  req: Request;
  res: Response;
  query: Query;
  body: Body;
}

const NOTHING = z.strictObject({});

/**
 * Makes a handler that refuses whatever the schemas do not know, and answers what `handle` answers. A handler that has sent
 * the answer itself answers undefined.
 */
export function operation<Q extends z.ZodType = typeof NOTHING, B extends z.ZodType = typeof NOTHING>(
  described: {
    summary: string;
    query?: Q;
    body?: B;
    answer?: z.ZodType;
    status?: Operation['status'];
    mediaType?: string;
  },
  handle: (call: Call<z.output<Q>, z.output<B>>) => Promise<unknown>,
): DescribedHandler {
  const { answer, status = answer ? 200 : 204, ...rest } = described;
  const handler: RequestHandler = async (req, res) => {
    const query = checked(described.query ?? NOTHING, queryOf(req)) as z.output<Q>;
    const body = (described.body ? checked(described.body, bodyOf(req)) : {}) as z.output<B>;
    const told = await handle({ req, res, query, body });
    if (res.headersSent) return;
    res.status(status);
    if (answer) res.json(answer.parse(told));
    else res.end();
  };
  return Object.assign(handler, { operation: { ...rest, ...(answer ? { answer } : {}), status } });
}

export function isDescribed(handler: RequestHandler): handler is DescribedHandler {
  return 'operation' in handler;
}

/** @throws AppError `invalid_request` with every fault */
export function checked<T extends z.ZodType>(schema: T, given: unknown): z.output<T> {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  throw new AppError('invalid_request', {
    detail: 'What was sent is not as it should be: "errors" says where and why.',
    faults: inputFaults(parsed.error),
  });
}

/** Express parses no queries here: each parameter at most once. */
function queryOf(req: Request): Record<string, string> {
  const start = req.url.indexOf('?');
  const given = [...new URLSearchParams(start < 0 ? '' : req.url.slice(start))];
  const query = Object.fromEntries(given);
  if (Object.keys(query).length === given.length) return query;
  throw new AppError('invalid_request', { detail: 'Give each parameter of the address once.' });
}

/** A form's fields are all texts: taken for JSON they would be judged as something that nobody meant. */
function bodyOf(req: Request): unknown {
  if (req.is('application/json')) return req.body;
  throw new AppError('invalid_request', { detail: 'Send the body as JSON, with "Content-Type: application/json".' });
}
