/** Handlers of the JSON API with their descriptions: the schemas that check the input also document it. */
import type { IncomingMessage } from 'node:http';
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { ADVICE, inputFaults } from '../config/input-faults.ts';
import { AppError } from '../errors.ts';
import { wantsPage } from './accept.ts';
import { type Content, described, json, type Operation } from './description.ts';

export type DescribedHandler = RequestHandler & { readonly operation: Operation };

export interface Call<Query, Body> {
  req: Request;
  res: Response;
  query: Query;
  body: Body;
}

const EMPTY_SCHEMA = z.strictObject({});

/**
 * Creates a handler that refuses input outside the schemas and responds with the result of `handle`. A `handle` that
 * sends the response itself returns undefined.
 */
export function operation<Q extends z.ZodType = typeof EMPTY_SCHEMA, B extends z.ZodType = typeof EMPTY_SCHEMA>(
  parts: {
    summary: string;
    query?: Q;
    /** The schema of the headers, only for the documentation. */
    headers?: z.ZodType;
    body?: B;
    /** The body is a file, which `handle` reads from the request. */
    file?: Content;
    /** The body of the response. Members outside the schema are dropped. Undefined: no body. */
    response?: z.ZodType;
    status?: 200 | 201 | 202 | 204;
    /** The status of an empty response that `handle` sends itself. */
    emptyStatus?: 204;
    /** The media type of a response that `handle` sends itself instead of JSON. */
    mediaType?: string;
  },
  handle: (call: Call<z.output<Q>, z.output<B>>) => Promise<unknown>,
): DescribedHandler {
  const { response, status = response ? 200 : 204, emptyStatus, mediaType, ...input } = parts;
  const handler: RequestHandler = async (req, res) => {
    const query = parseInput(parts.query ?? EMPTY_SCHEMA, queryOf(req)) as z.output<Q>;
    if (!parts.body && !parts.file) assertNoMembers(req);
    const body = (parts.body ? parseInput(parts.body, bodyOf(req)) : {}) as z.output<B>;
    const result = await handle({ req, res, query, body });
    if (res.headersSent) return;
    res.status(status);
    if (response) res.json(response.parse(result));
    else res.end();
  };
  const content: Content = { ...(response && json(response)), ...(mediaType && { [mediaType]: z.unknown() }) };
  const emptyResponse = emptyStatus ? { [emptyStatus]: {} } : {};
  return described({ ...input, responses: { [status]: content, ...emptyResponse } }, handler);
}

/**
 * Creates the check of a described handler that serves data. It refuses unknown parameters and members, which may be
 * misspelt. Pages ignore unknown parameters, because portals and mail programs add their own to links.
 */
export function unknownInput(handler: object): ((req: IncomingMessage) => void) | undefined {
  const operation = isDescribed(handler) ? handler.operation : undefined;
  if (!operation || operation.ignoresUnknown || !servesData(operation)) return undefined;
  const query = schemaOfNames(namesIn(operation.query));
  const acceptsBody = [operation.body, operation.form, operation.file].some((schema) => schema !== undefined);
  const body = schemaOfNames([...namesIn(operation.body), ...namesIn(operation.form), '_csrf']);
  const servesPages = Object.entries(operation.responses).some(
    ([status, content]) => status === '303' || 'text/html' in content,
  );
  return (req) => {
    // Only on Express, which parses the Accept header.
    if (servesPages && 'accepts' in req && wantsPage(req as Request)) return;
    if (req.url?.includes('?')) parseInput(query, queryOf(req));
    if (!acceptsBody) assertNoMembers(req);
    else if (!isStrict(operation.body) && 'body' in req && isJson(req)) parseInput(body, req.body);
  };
}

/** Returns true if a successful response is not a redirect and not only HTML. */
function servesData({ responses }: Operation): boolean {
  return Object.entries(responses).some(([status, content]) => {
    const types = Object.keys(content);
    return Number(status) < 300 && (types.length === 0 || types.some((type) => type !== 'text/html'));
  });
}

/** Returns true for a schema whose own check reports unknown members together with all other faults. */
const isStrict = (schema: z.ZodType | undefined) =>
  schema instanceof z.ZodObject && schema.def.catchall instanceof z.ZodNever;

function namesIn(schema: z.ZodType | undefined): string[] {
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
}

const schemaOfNames = (names: readonly string[]) =>
  z.strictObject(Object.fromEntries(names.map((name) => [name, z.unknown().optional()])));

export function isDescribed<H extends object>(handler: H): handler is H & { readonly operation: Operation } {
  return 'operation' in handler;
}

/** Checks input by a schema. @throws AppError `invalid_request` with every fault */
export function parseInput<T extends z.ZodType>(schema: T, input: unknown): z.output<T> {
  const parsed = schema.safeParse(input, ADVICE);
  if (parsed.success) return parsed.data;
  throw new AppError('invalid_request', {
    detail: 'The request is not valid: "errors" says where and why.',
    faults: inputFaults(parsed.error),
  });
}

/** Parses the query, because Express would accept a repeated parameter. */
function queryOf({ url = '' }: IncomingMessage): Record<string, string> {
  const start = url.indexOf('?');
  const parameters = [...new URLSearchParams(start < 0 ? '' : url.slice(start))];
  const query = Object.fromEntries(parameters);
  if (Object.keys(query).length === parameters.length) return query;
  throw new AppError('invalid_request', { detail: 'Send each parameter of the URL once.' });
}

/**
 * Checks a call that accepts no body. `{}` and forms with only the CSRF token count as no body.
 * @throws AppError `invalid_request` for any other body, because the caller expects it to have an effect
 */
function assertNoMembers(req: IncomingMessage & { body?: unknown }): void {
  // Content of a GET has no meaning (RFC 9110 section 9.3.1). A proxy's subrequest may have the original's content.
  if (req.method === 'GET' || req.method === 'HEAD' || Number(req.headers['content-length'] ?? 0) === 0) return;
  const isForm = /^application\/x-www-form-urlencoded\b/i.test(req.headers['content-type'] ?? '');
  if (req.body !== undefined && (isForm || isJson(req))) parseInput(NO_MEMBERS, req.body);
  else throw new AppError('invalid_request', { detail: 'Leave the body out: this call accepts none.' });
}

const NO_MEMBERS = z.strictObject({ _csrf: z.unknown().optional() });

const isJson = ({ headers }: IncomingMessage) => /^application\/json\b/i.test(headers['content-type'] ?? '');

/** Returns a JSON body. Refuses forms: their fields are all strings, so the schemas would report misleading faults. */
function bodyOf(req: Request): unknown {
  if (req.is('application/json')) return req.body;
  throw new AppError('invalid_request', { detail: 'Send the body as JSON, with "Content-Type: application/json".' });
}
