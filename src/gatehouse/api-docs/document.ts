/** Builds the OpenAPI 3.1 document from the route table and the schemas that validate requests. */
import { z } from 'zod';
import {
  type Content,
  type Credentials,
  credentialsOf,
  json,
  type Operation,
  PAGE,
  type SecurityScheme,
} from '../../shared/http/description.ts';
import { isDescribed } from '../../shared/http/operation.ts';
import { problemSchema } from '../../shared/http/problem-document.ts';
import { flatten, type Route } from '../../shared/http/route-table.ts';
import { sessionCookieName } from '../../shared/sessions/browser-sessions.ts';

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
  parameters: { name: string; in: string; required: boolean; description?: string; schema: unknown }[];
  requestBody?: { required: true; content: Record<string, { schema: unknown }> };
  responses: Record<string, { description: string; content?: Record<string, { schema: unknown }> }>;
  security: Credentials;
}

export function apiDocument(routes: readonly Route[], publicHref: string): ApiDocument {
  const paths: ApiDocument['paths'] = {};
  for (const [method, pattern, guards, handler] of routes) {
    if (!isDescribed(handler)) continue;
    const { operation } = handler;
    const path = pattern.replace(/[:*](\w+)/g, '{$1}');
    const names = [...pattern.matchAll(/[:*](\w+)/g)].map(([, name = '']) => name);
    const inPath = names.map((name) => ({ name, in: 'path', required: true, schema: { type: 'string' } }));
    const requestBody = requestBodyOf(operation);
    paths[path] = {
      ...paths[path],
      [method.toLowerCase()]: {
        summary: operation.summary,
        tags: [tagOf(pattern)],
        operationId: `${method.toLowerCase()}${pattern.replace(/[^A-Za-z0-9]+(\w?)/g, (_all, next: string) => next.toUpperCase())}`,
        parameters: [
          ...inPath,
          ...parametersOf('query', operation.query),
          ...parametersOf('header', operation.headers),
        ],
        ...(requestBody ? { requestBody } : {}),
        responses: responsesOf(operation),
        security: credentialsOf([...flatten<object>(guards), operation]),
      },
    };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Gatehouse', version: '1', description: DESCRIPTION },
    servers: [{ url: publicHref }],
    paths,
    components: {
      schemas: { Problem: schemaOf(problemSchema, 'output') },
      securitySchemes: securitySchemes(publicHref),
    },
  };
}

function parametersOf(location: 'query' | 'header', schema: z.ZodType | undefined): ApiOperation['parameters'] {
  if (!schema) return [];
  const { properties = {}, required = [] } = schemaOf(schema, 'input') as {
    properties?: Record<string, { description?: string }>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, { description, ...plain }]) => ({
    name,
    in: location,
    required: required.includes(name),
    schema: plain,
    ...(description === undefined ? {} : { description }),
  }));
}

function requestBodyOf({ body, form, file }: Operation): ApiOperation['requestBody'] | undefined {
  if (!body && !form && !file) return undefined;
  const content = { ...(body && json(body)), ...(form && { 'application/x-www-form-urlencoded': form }), ...file };
  return { required: true, content: contentOf(content, 'input') };
}

function responsesOf({ responses }: Operation): ApiOperation['responses'] {
  const documented = Object.entries(responses).map(([status, content]) => {
    if (Number(status) >= 400)
      return [status, { description: 'Refused', content: { ...contentOf(content, 'output'), ...REFUSAL.content } }];
    const body = Object.keys(content).length > 0 ? { content: contentOf(content, 'output') } : {};
    return [status, { description: status === '303' ? 'Redirect' : 'Done', ...body }];
  });
  return { ...Object.fromEntries(documented), default: REFUSAL };
}

function contentOf(content: Content, io: 'input' | 'output'): Record<string, { schema: unknown }> {
  return Object.fromEntries(Object.entries(content).map(([type, schema]) => [type, { schema: schemaOf(schema, io) }]));
}

function schemaOf(schema: z.ZodType, io: 'input' | 'output'): unknown {
  const { $schema: _, ...plain } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    // `readonly` of a TypeScript type does not make a field read-only for clients.
    override: ({ jsonSchema }) => delete jsonSchema.readOnly,
  });
  return plain;
}

function tagOf(pattern: string): string {
  const [, first = '', second = '', third = ''] = pattern.split('/');
  if (first !== 'admin') return TAGS[first] ?? 'General';
  const resource = second === 'api' ? third : second;
  return `Administration: ${ADMIN_TAGS[resource] ?? resource.replaceAll('-', ' ')}`;
}

/** Names that differ from the path. */
const ADMIN_TAGS: Readonly<Record<string, string>> = {
  bin: 'BIN data',
  'callback-urls': 'callback URLs',
  policy: 'test a call',
  'sign-ins': 'sign-ins',
  audit: 'audit trail',
  'register-at-provider': 'registration at a provider',
};

const TAGS: Readonly<Record<string, string>> = {
  'sign-in': 'Signing in',
  'sign-out': 'Signing in',
  oauth: 'Signing in',
  session: 'Signing in',
  sessions: 'Signing in',
  connections: 'Connections',
  threads: 'Platforms',
  api: 'Platforms',
  bin: 'BINs',
  relay: 'Relay for back-end services',
};

const securitySchemes = (publicHref: string): Record<SecurityScheme, object> => ({
  session: { type: 'apiKey', in: 'cookie', name: sessionCookieName(publicHref), description: 'the browser session' },
  csrf: { type: 'apiKey', in: 'header', name: 'X-CSRF-Token', description: 'csrfToken from GET /session' },
  relayToken: { type: 'http', scheme: 'bearer', description: 'a relay token (gthr_…), only in this header' },
  relayTokenAsPassword: { type: 'http', scheme: 'basic', description: 'the id of a relay token, and the relay token' },
  adminToken: { type: 'http', scheme: 'bearer', description: 'an admin token (gtha_…), only in this header' },
});

const DESCRIPTION =
  'Errors are problem documents (RFC 9457) with a fixed code, which /problems/{code} explains. Request bodies need a ' +
  'Content-Length. Lists are {"items", "next"}: send "next" as "after" to get the next page. Unknown parameters and fields are ' +
  'refused. The length of a text counts UTF-16 units, like String.length in JavaScript: an emoji has two or more.';

const REFUSAL = {
  description: 'A problem document, or a page for a browser',
  content: {
    'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } },
    ...contentOf(PAGE, 'output'),
  },
};
