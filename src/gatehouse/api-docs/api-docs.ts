/** Serves the description of the HTTP API as an OpenAPI document and as a page, and the guides beside it. */
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { compressed, type SendCompressed } from '../../shared/http/compressed.ts';
import { described, json, type Operation, type SecurityScheme } from '../../shared/http/description.ts';
import type { Route } from '../../shared/http/route-table.ts';
import type { Pages } from '../../shared/pages/pages.ts';
import type { Html } from '../../shared/pages/show.ts';
import { capitalised } from '../../shared/text.ts';
import { curlLine } from './curl.ts';
import { type ApiDocument, type ApiOperation, apiDocument } from './document.ts';
import { readGuides } from './guides.ts';
import { fieldsOf, type JsonSchema, type SchemaField, typeOf } from './schema-fields.ts';

declare module '../../shared/pages/page-data.ts' {
  interface PageData {
    'docs/guide': { page: PageFrame; menu: DocsMenu; html: Html };
    'docs/api': {
      page: PageFrame;
      menu: DocsMenu;
      description: string;
      count: number;
      groups: readonly DocumentedGroup[];
    };
  }
}

/** The links at the side of each page, in groups. */
type DocsMenu = readonly {
  title: string;
  entries: readonly { label: string; icon?: string; path: string; current: string }[];
}[];

/** A schema as a table of its fields. */
interface SchemaTable {
  type: string;
  fields: readonly SchemaField[];
}

interface DocumentedCall {
  /** Also the anchor of the call on the page. */
  id: string;
  method: string;
  path: string;
  summary: string;
  /** Alternatives, each with the credentials to send together. */
  authentication: string[];
  curl: string;
  parameters: readonly SchemaField[];
  body: (SchemaTable & { mediaType: string }) | undefined;
  status: string;
  response: SchemaTable | undefined;
}

interface DocumentedGroup {
  id: string;
  name: string;
  calls: readonly DocumentedCall[];
}

/** All receive the route table as a function, since the table contains their handlers. */
export interface ApiDocs {
  document(routes: () => readonly Route[]): RequestHandler;
  page(routes: () => readonly Route[]): RequestHandler;
  guide(routes: () => readonly Route[]): RequestHandler;
}

const DOCUMENT: Operation = {
  summary: 'Get this OpenAPI document',
  responses: { 200: json(z.looseObject({ openapi: z.string() })) },
};

export function createApiDocs({ pages, publicHref }: { pages: Pages; publicHref: string }): ApiDocs {
  let cached: { document: ApiDocument; groups: readonly DocumentedGroup[] } | undefined;
  const documentationOf = (routes: () => readonly Route[]) => {
    if (!cached) {
      const document = apiDocument(routes(), publicHref);
      cached = { document, groups: groupsOf(document) };
    }
    return cached;
  };
  // Each has the same content for everyone until the process ends.
  const contents = new Map<string, SendCompressed>();
  const send = (req: Request, res: Response, name: string, draw: () => string) => {
    const sendContent = contents.get(name) ?? compressed(Buffer.from(draw()));
    contents.set(name, sendContent);
    res.set('Cache-Control', 'no-cache');
    sendContent(req, res);
  };

  return {
    document: (routes) =>
      described<RequestHandler>(DOCUMENT, (req, res) => {
        res.type('json');
        send(req, res, '/openapi.json', () => JSON.stringify(documentationOf(routes).document));
      }),
    page: (routes) => (req, res) => {
      pages.prepare(res);
      send(req, res, '', () => {
        const { document, groups } = documentationOf(routes);
        return pages.render('docs/api', {
          page: pages.frame(req, 'API reference'),
          menu: menuOf(groups),
          description: document.info.description,
          count: groups.reduce((sum, { calls }) => sum + calls.length, 0),
          groups,
        });
      });
    },
    guide: (routes) => (req, res) => {
      const guide = readGuides().get(String(req.params.guide));
      if (!guide) throw new AppError('not_found', { detail: 'There is no guide with this name.' });
      // Otherwise its relative links would lead below it.
      if (req.path.endsWith('/')) return res.redirect(308, `../${guide.name}`);
      pages.prepare(res);
      send(req, res, guide.name, () => {
        const menu = menuOf(documentationOf(routes).groups, guide.name);
        return pages.render('docs/guide', { page: pages.frame(req, guide.title), menu, html: guide.html });
      });
    },
  };
}

/** @param current the name of the current guide; the API reference if undefined */
function menuOf(groups: readonly DocumentedGroup[], current?: string): DocsMenu {
  const guides = [...readGuides().values()].map(({ name, title }) => ({
    label: title,
    path: `/docs/${name}`,
    current: name === current ? 'page' : '',
  }));
  const [ofAdministration = [], others = []] = [true, false].map((isOfAdministration) =>
    groups
      .filter(({ name }) => name.startsWith(ADMINISTRATION) === isOfAdministration)
      .map(({ id, name }) => ({ label: labelOf(name), path: `/docs#${id}`, current: '' })),
  );
  const all = { label: 'All calls', path: '/docs', current: current === undefined ? 'page' : '' };
  return [
    { title: 'Guides', entries: guides },
    { title: 'API reference', entries: [all, ...others] },
    { title: 'Administration', entries: ofAdministration },
  ];
}

const ADMINISTRATION = 'Administration: ';
const labelOf = (name: string) => capitalised(name.replace(ADMINISTRATION, ''));

/** Groups the operations by tag, in the order of their first occurrence. */
function groupsOf({ paths, servers }: ApiDocument): DocumentedGroup[] {
  const url = servers[0]?.url ?? '';
  const calls = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({
      tag: operation.tags[0] ?? 'General',
      call: callOf(method, path, operation, url),
    })),
  );
  return [...Map.groupBy(calls, ({ tag }) => tag)].map(([name, callsOfTag]) => ({
    id: name.toLowerCase().replace(/[^a-z]+/g, '-'),
    name,
    calls: callsOfTag.map(({ call }) => call),
  }));
}

function callOf(method: string, path: string, operation: ApiOperation, url: string): DocumentedCall {
  const { summary, operationId, parameters, requestBody, responses, security } = operation;
  const statuses = Object.keys(responses).filter((status) => status !== 'default');
  const [mediaType, body] = Object.entries(requestBody?.content ?? {})[0] ?? [];
  const [, content] = Object.entries(responses[statuses[0] ?? '']?.content ?? {})[0] ?? [];
  return {
    id: operationId,
    method: method.toUpperCase(),
    path,
    summary,
    authentication: security.map((schemes) =>
      Object.entries(schemes)
        .map(([scheme, scopes]) => [SCHEME_NAMES[scheme as SecurityScheme], ...scopes].join(' with '))
        .join(' and '),
    ),
    curl: curlLine(method, url, path, operation),
    parameters: parameters.flatMap(({ name, in: location, required, description, schema }) =>
      fieldsOf({
        properties: { [name]: { ...(schema as JsonSchema), ...(description && { description }) } },
        required: required ? [name] : [],
      }).map((field) => ({ ...field, notes: [`in the ${location}`, ...field.notes] })),
    ),
    body: body && { mediaType: mediaType ?? '', ...tableOf(body.schema as JsonSchema) },
    status: statuses.join(' or '),
    response:
      content && Object.keys(content.schema as object).length > 0 ? tableOf(content.schema as JsonSchema) : undefined,
  };
}

const tableOf = (schema: JsonSchema): SchemaTable => ({ type: typeOf(schema), fields: fieldsOf(schema) });

const SCHEME_NAMES: Readonly<Record<SecurityScheme, string>> = {
  session: 'session cookie',
  csrf: 'CSRF token',
  relayToken: 'relay token',
  relayTokenAsPassword: 'relay token as the password of its id',
  adminToken: 'admin token',
};
