/** Owns the OpenAPI 3.1 document: made from the table of routes and the schemas that judge what is sent. Pure. */
import { z } from 'zod';
import { PROBLEMS } from '../errors.ts';
import { isDescribed, type Operation } from '../http/operation.ts';
import type { Route } from '../http/route-table.ts';
import { type Caller, PUBLIC_OPERATIONS, type PublicOperation } from './public-operations.ts';

export interface ApiDocument {
  openapi: '3.1.0';
  info: { title: string; version: string; description: string };
  servers: { url: string }[];
  paths: Record<string, Record<string, ApiOperation>>;
  components: { schemas: Record<string, unknown>; securitySchemes: Record<string, unknown> };
}

export interface ApiOperation {
  summary: string;
  tags: string[];
  operationId: string;
  parameters?: { name: string; in: string; required: boolean; description?: string; schema: unknown }[];
  requestBody?: { required: true; content: Record<string, { schema: unknown }> };
  responses: Record<string, { description: string; content?: Record<string, { schema: unknown }> }>;
  security: Record<string, string[]>[];
}

export function apiDocument(routes: readonly Route[], publicHref: string): ApiDocument {
  const paths: ApiDocument['paths'] = {};
  for (const [method, pattern, ...handlers] of routes) {
    const described = handlers.flat().find(isDescribed);
    const known = PUBLIC_OPERATIONS[`${method} ${pattern}`];
    const told = described ? adminOperation(method, described.operation) : known && publicOperation(known);
    if (!told) continue;
    const path = pattern.replace(/:(\w+)/g, '{$1}');
    const names = [...pattern.matchAll(/:(\w+)/g)].map(([, name = '']) => name);
    const inPath = names.map((name) => ({ name, in: 'path', required: true, schema: { type: 'string' } }));
    const parameters = [...inPath, ...(told.parameters ?? [])];
    paths[path] = {
      ...paths[path],
      [method.toLowerCase()]: {
        ...told,
        tags: [tagOf(pattern)],
        operationId: `${method.toLowerCase()}${pattern.replace(/[^A-Za-z0-9]+(\w?)/g, (_all, next: string) => next.toUpperCase())}`,
        ...(parameters.length > 0 ? { parameters } : {}),
      },
    };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Gatehouse', version: '1', description: ABOUT },
    servers: [{ url: publicHref }],
    paths,
    components: { schemas: { Problem: PROBLEM }, securitySchemes: SECURITY_SCHEMES },
  };
}

type Told = Omit<ApiOperation, 'tags' | 'operationId'>;

function adminOperation(method: string, { summary, query, body, answer, status, mediaType }: Operation): Told {
  const fields = query ? (schemaOf(query, 'input') as { properties?: Record<string, { description?: string }> }) : {};
  const parameters = Object.entries(fields.properties ?? {}).map(([name, { description, ...schema }]) => ({
    ...{ name, in: 'query', required: false, schema },
    ...(description === undefined ? {} : { description }),
  }));
  const content = mediaType
    ? { [mediaType]: { schema: {} } }
    : answer && { 'application/json': { schema: schemaOf(answer, 'output') } };
  return {
    summary,
    parameters,
    ...(body
      ? { requestBody: { required: true, content: { 'application/json': { schema: schemaOf(body, 'input') } } } }
      : {}),
    responses: { [status]: { description: 'Done', ...(content ? { content } : {}) }, default: REFUSAL },
    security:
      method === 'GET' ? [{ adminToken: [] }, { session: [] }] : [{ adminToken: [] }, { session: [], csrf: [] }],
  };
}

function publicOperation({
  summary,
  who,
  query = {},
  headers = {},
  body,
  form,
  status,
  answer,
  mediaType,
}: PublicOperation): Told {
  const named = (place: string, names: Readonly<Record<string, string>>) =>
    Object.entries(names).map(([name, description]) => {
      return { name, in: place, required: false, description, schema: { type: 'string' } };
    });
  const sent = body ?? form;
  const sentAs = body ? 'application/json' : 'application/x-www-form-urlencoded';
  const content = mediaType
    ? { [mediaType]: { schema: {} } }
    : answer && { 'application/json': { schema: schemaOf(answer, 'output') } };
  return {
    summary,
    parameters: [...named('query', query), ...named('header', headers)],
    ...(sent ? { requestBody: { required: true, content: { [sentAs]: { schema: schemaOf(sent, 'input') } } } } : {}),
    responses: {
      [status]: { description: status === 303 ? 'Go on there' : 'Done', ...(content ? { content } : {}) },
      default: REFUSAL,
    },
    security: SECURITY[who],
  };
}

function schemaOf(schema: z.ZodType, io: 'input' | 'output'): unknown {
  const { $schema: _, ...plain } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  return plain;
}

function tagOf(pattern: string): string {
  const [, first = '', second = '', third = ''] = pattern.split('/');
  return first === 'admin'
    ? `Administration: ${(second === 'api' ? third : second).replaceAll('-', ' ')}`
    : (TAGS[first] ?? 'General');
}

const TAGS: Readonly<Record<string, string>> = {
  'sign-in': 'Signing in',
  'sign-out': 'Signing in',
  oauth: 'Signing in',
  session: 'Signing in',
  sessions: 'Signing in',
  connections: 'Connections',
  threads: 'Threads',
  bin: 'BINs',
  relay: 'Relay for back-end services',
};

const SECURITY: Readonly<Record<Caller, ApiOperation['security']>> = {
  anyone: [],
  provider: [],
  session: [{ session: [] }],
  'session change': [{ session: [], csrf: [] }],
  'relay token': [{ relayToken: [] }],
};

const SECURITY_SCHEMES = {
  session: { type: 'apiKey', in: 'cookie', name: '__Host-gatehouse', description: 'the session of a browser' },
  csrf: { type: 'apiKey', in: 'header', name: 'X-CSRF-Token', description: 'the csrfToken of GET /session' },
  relayToken: { type: 'http', scheme: 'bearer', description: 'a relay token (gthr_…), in the header alone' },
  adminToken: { type: 'http', scheme: 'bearer', description: 'an admin token (gtha_…), in the header alone' },
};

const ABOUT =
  'Errors are problem documents (RFC 9457) with a fixed code; each code has a page at /problems/{code}. Request bodies need a ' +
  'Content-Length. Lists are {"items", "next"}: give "next" as "after" for the next page. Unknown fields are refused.';

const PROBLEM = {
  type: 'object',
  required: ['type', 'title', 'status', 'instance', 'code'],
  properties: {
    type: { type: 'string', format: 'uri' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    instance: { type: 'string' },
    code: { type: 'string', enum: Object.keys(PROBLEMS) },
    connectUrl: { type: 'string' },
    errors: {
      type: 'array',
      items: {
        type: 'object',
        required: ['pointer', 'rule', 'detail'],
        properties: { pointer: { type: 'string' }, rule: { type: 'string' }, detail: { type: 'string' } },
      },
    },
  },
};

const REFUSAL = {
  description: 'A problem',
  content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
};
