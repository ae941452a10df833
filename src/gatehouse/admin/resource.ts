/**
 * Common parts of resources with stored records: lookup by id, the list, audited changes, and the JSON calls. Admin
 * tokens, connect links, relay tokens, service accounts and webhooks use it. Connected apps do not, because some of
 * them are in a file. Users, sessions, connections and sign-ins do not, because other modules store them with their own
 * indexes.
 */
import type { Request, RequestHandler, Response } from 'express';
import type { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { listOf } from '../../shared/http/list-schema.ts';
import { type DescribedHandler, operation } from '../../shared/http/operation.ts';
import type { Records } from '../../shared/storage/records.ts';
import { capitalised } from '../../shared/text.ts';
import type { AuditEntry, AuditEvent } from '../audit/kinds.ts';
import { audited } from './change.ts';
import type { Columns } from './columns.ts';
import { confirmation } from './confirmation.ts';
import type { IsKnown, PageList } from './list.ts';
import { type ListQuery, listQuery, matches } from './listing.ts';
import type { AdminParts } from './parts.ts';
import { type Finder, findByText, listWith } from './search/finder.ts';
import { type Selection, selectionOf, withGone, workOnEach } from './selection.ts';

/** The created or changed item, and members that only this response contains, such as a new secret. */
type Changed<T, Added extends z.ZodRawShape> = { item: T } & z.output<z.ZodObject<Added>>;

interface ChangeCall<T, Body extends z.ZodType, Added extends z.ZodRawShape> {
  summary: string;
  body: Body;
  /** Members of the response in addition to those of the item. */
  addedMembers?: Added;
  work(req: Request, body: z.output<Body>): Promise<Changed<T, Added>>;
}

/** A parameter of the list. `accepts` is called for every item, which suits short lists. */
interface Filter<T> {
  schema: z.ZodType<string, string>;
  accepts(item: T, value: string): boolean;
  isKnown?: IsKnown;
}

interface RemovalCall {
  summary: string;
  event: AuditEvent;
  /** The label of the button: "Revoke" or "Delete". */
  verb: string;
  /** Sentences before "This cannot be undone." */
  consequences: readonly string[];
  /** Returns the text of the notice after the removal. */
  notice(count: number): string;
  /** Removes an item. @returns false if the item was already gone */
  work(id: string): Promise<boolean>;
}

export interface Resource<T extends { id: string }, S extends z.ZodObject> {
  /** The address of the page with the list. */
  home: string;
  /** Finds the item that the path names. @throws AppError `not_found` */
  find(req: Request): Promise<T>;
  toJson(item: T): z.output<S> | Promise<z.output<S>>;
  /**
   * Writes the audit entry, then makes the change.
   * @param change returns undefined if the item is gone
   * @throws AppError `not_found`
   */
  audited<R>(
    req: Request,
    event: AuditEvent,
    item: { id: string; name: string },
    change: () => Promise<R | undefined>,
    facts?: AuditEntry['facts'],
  ): Promise<R>;
  /** Like `AdminPages.list`. */
  pageFor(
    req: Request,
    res: Response,
    columns: Columns<z.output<S>, never>,
  ): Promise<{ items: z.output<S>[]; list: PageList } | undefined>;
  /** Finds items for the search of the administration. */
  finder: Finder;
  list: DescribedHandler;
  read: DescribedHandler;
  create<B extends z.ZodType, A extends z.ZodRawShape>(call: ChangeCall<T, B, A>): DescribedHandler;
  change<B extends z.ZodType, A extends z.ZodRawShape>(call: ChangeCall<T, B, A>): DescribedHandler;
  /** Removes the item that the path names or, on pages, the items selected in the list. */
  removal(call: RemovalCall): { byApi: DescribedHandler; page: RequestHandler; byForm: RequestHandler };
}

export function createResource<T extends { id: string }, S extends z.ZodObject>(
  parts: Pick<AdminParts, 'audit' | 'pages' | 'publicUrl'>,
  definition: {
    /** Such as "relay token": `relay_token` in the audit trail, `relay-tokens` in paths. */
    name: string;
    records: Pick<Records<unknown, T>, 'find' | 'page'> & Partial<Pick<Records<unknown, T>, 'count'>>;
    /** Returns the name of an item in the audit trail. */
    nameOf(item: T): string;
    /** Returns the name of an item in the question before its removal. The default is the name in the audit trail. */
    labelOf?(item: T): string;
    /** Returns the texts of an item in search results. The default is the name in the audit trail and the id. */
    searchResultOf?(item: T): { name: string; detail?: string };
    /** The prefix of tokens, such as `gtha_`. The search accepts ids with and without it. */
    prefix?: string;
    /** Search results lead to the page of the item instead of the list. */
    hasPage?: boolean;
    /** Returns the texts that are searched for `q`. */
    textsOf(item: T): readonly string[];
    filters?: Readonly<Record<string, Filter<T>>>;
    schema: S;
    toJson(item: T): z.output<S> | Promise<z.output<S>>;
  },
): Resource<T, S> {
  const { audit, pages, publicUrl } = parts;
  const { name, records, nameOf, labelOf = nameOf, searchResultOf = (item) => ({ name: nameOf(item) }) } = definition;
  const { prefix = '', hasPage = false, textsOf, filters = {}, schema, toJson } = definition;
  const path = `${name.replaceAll(' ', '-')}s`;
  const home = `${publicUrl.basePath}/admin/${path}`;

  const find = async (req: Request): Promise<T> => (await records.find(String(req.params.id))) ?? throwUnknown(name);

  const readPage = async ({ after, limit, q, ...values }: ListQuery & Readonly<Record<string, unknown>>) => {
    const predicates = Object.entries(filters).flatMap(([key, { accepts }]) => {
      const value = values[key];
      return typeof value === 'string' ? [(item: T) => accepts(item, value)] : [];
    });
    const filter = (item: T) => matches(q, ...textsOf(item)) && predicates.every((accepts) => accepts(item));
    const { items, ...rest } = await records.page({ after, limit, filter });
    return { items: await Promise.all(items.map(toJson)), ...rest };
  };
  const filterParameters = Object.fromEntries(
    Object.entries(filters).map(([key, filter]) => [key, filter.schema.optional()]),
  );
  // TypeScript cannot know that the names of the filters differ from those of `listQuery`.
  const parameters = listQuery.extend(filterParameters) as z.ZodType as z.ZodType<ListQuery>;

  const auditedChange = async <R>(
    req: Request,
    event: AuditEvent,
    { id, name: label }: { id: string; name: string },
    change: () => Promise<R | undefined>,
    facts?: AuditEntry['facts'],
  ): Promise<R> => {
    const target = { kind: name.replaceAll(' ', '_'), id, name: label };
    return audited(audit, req, { event, target, facts }, async () => (await change()) ?? throwUnknown(name));
  };

  const schemaWith = <A extends z.ZodRawShape>(addedMembers: A | undefined) =>
    addedMembers ? schema.extend(addedMembers) : schema;
  const changedJson = async <A extends z.ZodRawShape>({ item, ...addedMembers }: Changed<T, A>) => ({
    ...(await toJson(item)),
    ...addedMembers,
  });

  return {
    home,
    find,
    toJson,
    audited: auditedChange,

    finder: {
      kind: name.replaceAll(' ', '_'),
      title: capitalised(`${name}s`),
      find: findByText({
        records,
        prefix,
        searchResultOf,
        pathOf: hasPage ? (id) => `/admin/${path}/${id}` : listWith(path),
      }),
      list: listWith(path),
    },

    pageFor: (req, res, columns) =>
      pages.list(req, res, {
        name: path,
        fields: ['q', ...Object.keys(filters)],
        query: parameters,
        isKnown: Object.fromEntries(
          Object.entries(filters).flatMap(([key, { isKnown }]) => (isKnown ? [[key, isKnown]] : [])),
        ),
        columns,
        read: readPage,
        count: ({ after: _after, limit: _limit, ...entered }) =>
          Object.keys(entered).length === 0 ? records.count?.() : undefined,
      }),

    list: operation(
      { summary: `List ${name}s, newest first`, query: parameters, response: listOf(schema) },
      ({ query }) => readPage(query),
    ),

    read: operation({ summary: `Read ${withArticle(name)}`, response: schema }, async ({ req }) =>
      toJson(await find(req)),
    ),

    create<B extends z.ZodType, A extends z.ZodRawShape>({ summary, body, addedMembers, work }: ChangeCall<T, B, A>) {
      return operation({ summary, body, response: schemaWith(addedMembers), status: 201 }, async (call) => {
        const changed = await work(call.req, call.body);
        call.res.set('Location', `${publicUrl.basePath}/admin/api/${path}/${changed.item.id}`);
        return changedJson(changed);
      });
    },

    change<B extends z.ZodType, A extends z.ZodRawShape>({ summary, body, addedMembers, work }: ChangeCall<T, B, A>) {
      return operation({ summary, body, response: schemaWith(addedMembers) }, async (call) =>
        changedJson(await work(call.req, call.body)),
      );
    },

    removal({ summary, event, verb, consequences, notice, work }) {
      const removeOne = (req: Request, item: T) =>
        auditedChange(req, event, { id: item.id, name: nameOf(item) }, async () => (await work(item.id)) || undefined);
      const { page, form } = confirmation<Selection<T>>(parts, {
        menuPath: path,
        find: (req) => selectionOf(req, records.find, () => throwUnknown(name)),
        questionFor({ items }) {
          const [first] = items;
          const object = items.length === 1 ? `the ${name}` : `${items.length} ${name}s`;
          return {
            action: `${verb} ${object}`,
            consequences: [...consequences, 'This cannot be undone.'],
            ...(items.length === 1 && first ? { name: labelOf(first) } : { names: items.map(labelOf) }),
            verb: `${verb} ${items.length === 1 ? name : object}`,
          };
        },
        home: () => path,
        async work(req, selection) {
          const result = await workOnEach(selection, (item) => removeOne(req, item));
          const text = withGone(result, () => notice(result.results.length));
          return { url: home, flash: { notice: { tone: 'success', text } } };
        },
      });
      return {
        byApi: operation({ summary }, async ({ req }) => {
          await removeOne(req, await find(req));
        }),
        page,
        byForm: form,
      };
    },
  };
}

/** @throws AppError `not_found` */
export function throwUnknown(name: string): never {
  throw new AppError('not_found', { detail: `There is no ${name} with this id.` });
}

const withArticle = (name: string) => `${/^[aeiou]/.test(name) ? 'an' : 'a'} ${name}`;
