/** Serves the description of the HTTP API as an OpenAPI document and as a page. */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { described, json, type Operation, type SecurityScheme } from '../http/description.ts';
import type { Route } from '../http/route-table.ts';
import type { Pages } from '../pages/pages.ts';
import { type ApiDocument, type ApiOperation, apiDocument } from './document.ts';

declare module '../pages/page-data.ts' {
  interface PageData {
    'docs/api': {
      page: PageFrame;
      about: string;
      groups: readonly { name: string; calls: readonly ReturnType<typeof callOf>[] }[];
    };
  }
}

/** Both take the route table as a function, because the table contains them. */
export interface ApiDocs {
  document(routes: () => readonly Route[]): RequestHandler;
  page(routes: () => readonly Route[]): RequestHandler;
}

const DOCUMENT: Operation = {
  summary: 'This description',
  responses: { 200: json(z.looseObject({ openapi: z.string() })) },
};

export function createApiDocs({ pages, publicHref }: { pages: Pages; publicHref: string }): ApiDocs {
  let cached: ApiDocument | undefined;
  const documentOf = (routes: () => readonly Route[]): ApiDocument => {
    cached ??= apiDocument(routes(), publicHref);
    return cached;
  };

  return {
    document: (routes) => described<RequestHandler>(DOCUMENT, (_req, res) => void res.json(documentOf(routes))),
    page: (routes) => (req, res) => {
      const document = documentOf(routes);
      pages.send(res, 'docs/api', {
        page: pages.frame(req, 'HTTP API'),
        about: document.info.description,
        groups: groupsOf(document),
      });
    },
  };
}

/** Groups the operations by tag, in the order of their first occurrence. */
function groupsOf({ paths }: ApiDocument) {
  const groups = new Map<string, ReturnType<typeof callOf>[]>();
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const [tag = 'General'] = operation.tags;
      groups.set(tag, [...(groups.get(tag) ?? []), callOf(method, path, operation)]);
    }
  }
  return [...groups].map(([name, calls]) => ({ name, calls }));
}

function callOf(method: string, path: string, operation: ApiOperation) {
  const { summary, operationId, parameters, requestBody, responses, security } = operation;
  const statuses = Object.keys(responses).filter((status) => status !== 'default');
  const response = responses[statuses[0] ?? ''];
  const [bodyType, body] = Object.entries(requestBody?.content ?? {})[0] ?? [];
  const [, content] = Object.entries(response?.content ?? {})[0] ?? [];
  return {
    id: operationId,
    method: method.toUpperCase(),
    path,
    summary,
    by: security.map((schemes) =>
      Object.entries(schemes)
        .map(([scheme, scopes]) => [SCHEME_NAMES[scheme as SecurityScheme], ...scopes].join(' with '))
        .join(' and '),
    ),
    parameters: parameters.map(({ name, in: place, description }) => ({ name, place, description })),
    body: body && { type: bodyType ?? '', schema: body.schema },
    status: statuses.join(' or '),
    response: content && Object.keys(content.schema as object).length > 0 ? content.schema : undefined,
  };
}

const SCHEME_NAMES: Readonly<Record<SecurityScheme, string>> = {
  session: 'session cookie',
  csrf: 'CSRF token',
  relayToken: 'relay token',
  relayTokenAsPassword: 'relay token as the password of its id',
  adminToken: 'admin token',
};
