/** Owns the description of the HTTP interface towards programs (OpenAPI) and people (a page). */
import type { RequestHandler } from 'express';
import type { Pages } from '../http/pages.ts';
import type { Route } from '../http/route-table.ts';
import { type ApiDocument, type ApiOperation, apiDocument } from './document.ts';

declare module '../http/page-data.ts' {
  interface AdminPageData {
    'docs/api': {
      page: PageFrame;
      about: string;
      groups: readonly { name: string; calls: readonly ReturnType<typeof callOf>[] }[];
    };
  }
}

/** Both are given the table that they stand in themselves. */
export interface ApiDocs {
  document(routes: () => readonly Route[]): RequestHandler;
  page(routes: () => readonly Route[]): RequestHandler;
}

export function apiDocs({ pages, publicHref }: { pages: Pages; publicHref: string }): ApiDocs {
  let made: ApiDocument | undefined;
  const documentOf = (routes: () => readonly Route[]): ApiDocument => {
    made ??= apiDocument(routes(), publicHref);
    return made;
  };

  return {
    document: (routes) => (_req, res) => void res.json(documentOf(routes)),
    page: (routes) => (req, res) => {
      const document = documentOf(routes);
      pages.sendAdmin(res, 'docs/api', {
        page: pages.frame(req, 'HTTP API'),
        about: document.info.description,
        groups: groupsOf(document),
      });
    },
  };
}

/** By tag, in the order in which the tags come. */
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
  const { summary, operationId, parameters = [], requestBody, responses, security } = operation;
  const [status = '', answer] = Object.entries(responses)[0] ?? [];
  const [bodyType, body] = Object.entries(requestBody?.content ?? {})[0] ?? [];
  const [, answered] = Object.entries(answer?.content ?? {})[0] ?? [];
  return {
    id: operationId,
    method: method.toUpperCase(),
    path,
    summary,
    by: security.map((ways) => Object.keys(ways).map((way) => WAYS[way] ?? way)).map((ways) => ways.join(' and ')),
    parameters: parameters.map(({ name, in: place, description }) => ({ name, place, description })),
    body: body && { type: bodyType ?? '', schema: body.schema },
    status,
    answer: answered && Object.keys(answered.schema as object).length > 0 ? answered.schema : undefined,
  };
}

const WAYS: Readonly<Record<string, string>> = {
  session: 'session cookie',
  csrf: 'CSRF token',
  relayToken: 'relay token',
  adminToken: 'admin token',
};
