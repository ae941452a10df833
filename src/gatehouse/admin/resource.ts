/**
 * What resources with stored records have in common: lookup by id, the list, audited changes, and the JSON calls. Admin
 * tokens, connect links, relay tokens, service accounts and webhooks use it. Connected apps do not, since some stand in
 * a file; nor do users, sessions, connections and sign-ins, which other modules store and list by their own indexes.
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
import type { PageList } from './list.ts';
import { type ListQuery, listQuery, matches } from './listing.ts';
import type { AdminParts } from './parts.ts';
import { type Finder, findByText, listWith } from './search/finder.ts';
import { type Selection, selectionOf, withGone, workOnEach } from './selection.ts';

/** The item that a call created or changed, and members that only this response contains, such as a new secret. */
type Changed<T, Added extends z.ZodRawShape> = { item: T } & z.output<z.ZodObject<Added>>;

interface ChangeCall<T, Body extends z.ZodType, Added extends z.ZodRawShape> {
  summary: string;
  body: Body;
  /** Members of the response beside those of the item. */
  added?: Added;
  work(req: Request, body: z.output<Body>): Promise<Changed<T, Added>>;
}

/** A parameter of the list. `accepts` is asked about every item, so it suits short lists. */
interface Filter<T> {
  schema: z.ZodType<string, string>;
  accepts(item: T, value: string): boolean;
}

interface RemovalCall {
  summary: string;
  event: AuditEvent;
  /** On the button: "Revoke" or "Delete". */
  verb: string;
  /** Sentences for the question; that it cannot be undone follows. */
  consequences: readonly string[];
  /** Afterwards. */
  notice(count: number): string;
  /** Returns false if the item was already gone. */
  work(id: string): Promise<boolean>;
}

export interface Resource<T extends { id: string }, S extends z.ZodObject> {
  /** The address of the page with the list. */
  home: string;
  /** The item that the path names. @throws AppError `not_found` */
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
  /** As `AdminPages.list`. */
  pageFor(
    req: Request,
    res: Response,
    columns: Columns<z.output<S>, never>,
  ): Promise<{ items: z.output<S>[]; list: PageList } | undefined>;
  /** For the search of the administration. */
  finder: Finder;
  list: DescribedHandler;
  one: DescribedHandler;
  create<B extends z.ZodType, A extends z.ZodRawShape>(call: ChangeCall<T, B, A>): DescribedHandler;
  change<B extends z.ZodType, A extends z.ZodRawShape>(call: ChangeCall<T, B, A>): DescribedHandler;
  /** Removes the item that the path names, or, on pages, those that were selected in the list. */
  removal(call: RemovalCall): { byApi: DescribedHandler; ask: RequestHandler; byForm: RequestHandler };
}

export function createResource<T extends { id: string }, S extends z.ZodObject>(
  parts: Pick<AdminParts, 'audit' | 'pages' | 'publicUrl'>,
  about: {
    /** Such as "relay token": `relay_token` in the audit trail, `relay-tokens` in paths. */
    name: string;
    records: Pick<Records<unknown, T>, 'find' | 'page'> & Partial<Pick<Records<unknown, T>, 'count'>>;
    /** The name of an item in the audit trail. */
    nameOf(item: T): string;
    /** The name of an item in the question before it is removed; that of the audit trail unless given. */
    shownAs?(item: T): string;
    /** An item in the results of the search: its name in the audit trail and its id unless given. */
    foundAs?(item: T): { name: string; detail?: string };
    /** Of tokens, such as `gtha_`, before the id of an item: the search takes the id with it or without. */
    prefix?: string;
    /** Each item has a page of its own, to which the search leads. */
    hasPage?: boolean;
    /** The texts that `q` is searched in. */
    textsOf(item: T): readonly string[];
    /** By parameter. */
    filters?: Readonly<Record<string, Filter<T>>>;
    schema: S;
    toJson(item: T): z.output<S> | Promise<z.output<S>>;
  },
): Resource<T, S> {
  const { audit, pages, publicUrl } = parts;
  const { name, records, nameOf, shownAs = nameOf, foundAs = (item) => ({ name: nameOf(item) }) } = about;
  const { prefix = '', hasPage = false, textsOf, filters = {}, schema, toJson } = about;
  const path = `${name.replaceAll(' ', '-')}s`;
  const home = `${publicUrl.basePath}/admin/${path}`;

  const find = async (req: Request): Promise<T> => (await records.find(String(req.params.id))) ?? throwUnknown(name);

  const listed = async ({ after, limit, q, ...values }: ListQuery & Readonly<Record<string, unknown>>) => {
    const set = Object.entries(filters).flatMap(([key, { accepts }]) => {
      const value = values[key];
      return typeof value === 'string' && value !== '' ? [(item: T) => accepts(item, value)] : [];
    });
    const filter = (item: T) => matches(q, ...textsOf(item)) && set.every((accepts) => accepts(item));
    const { items, ...rest } = await records.page({ after, limit, filter });
    return { items: await Promise.all(items.map(toJson)), ...rest };
  };
  const filterParameters = Object.fromEntries(
    Object.entries(filters).map(([key, one]) => [key, one.schema.optional()]),
  );
  // TypeScript cannot tell that names which it does not know differ from those of every list.
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

  const schemaWith = <A extends z.ZodRawShape>(added: A | undefined) => (added ? schema.extend(added) : schema);
  const changedJson = async <A extends z.ZodRawShape>({ item, ...added }: Changed<T, A>) => ({
    ...(await toJson(item)),
    ...added,
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
        foundAs,
        pathOf: hasPage ? (id) => `/admin/${path}/${id}` : listWith(path),
      }),
      list: listWith(path),
    },

    pageFor: (req, res, columns) =>
      pages.list(req, res, {
        name: path,
        fields: ['q', ...Object.keys(filters)],
        columns,
        read: listed,
        count: (values) => (Object.values(values).every((value) => value === '') ? records.count?.() : undefined),
      }),

    list: operation(
      { summary: `List ${name}s, newest first`, query: parameters, response: listOf(schema) },
      ({ query }) => listed(query),
    ),

    one: operation({ summary: `Read ${withArticle(name)}`, response: schema }, async ({ req }) =>
      toJson(await find(req)),
    ),

    create<B extends z.ZodType, A extends z.ZodRawShape>({ summary, body, added, work }: ChangeCall<T, B, A>) {
      return operation({ summary, body, response: schemaWith(added), status: 201 }, async (call) => {
        const changed = await work(call.req, call.body);
        call.res.set('Location', `${publicUrl.basePath}/admin/api/${path}/${changed.item.id}`);
        return changedJson(changed);
      });
    },

    change<B extends z.ZodType, A extends z.ZodRawShape>({ summary, body, added, work }: ChangeCall<T, B, A>) {
      return operation({ summary, body, response: schemaWith(added) }, async (call) =>
        changedJson(await work(call.req, call.body)),
      );
    },

    removal({ summary, event, verb, consequences, notice, work }) {
      const removeOne = (req: Request, item: T) =>
        auditedChange(req, event, { id: item.id, name: nameOf(item) }, async () => (await work(item.id)) || undefined);
      const { page, form } = confirmation<Selection<T>>(parts, {
        menuPath: path,
        find: (req) => selectionOf(req, records.find, () => throwUnknown(name)),
        ask({ items }) {
          const [first] = items;
          const what = items.length === 1 ? `the ${name}` : `${items.length} ${name}s`;
          return {
            action: `${verb} ${what}`,
            consequences: [...consequences, 'This cannot be undone.'],
            ...(items.length === 1 && first ? { name: shownAs(first) } : { names: items.map(shownAs) }),
            verb: `${verb} ${items.length === 1 ? name : what}`,
          };
        },
        home: () => path,
        async work(req, selection) {
          const result = await workOnEach(selection, (item) => removeOne(req, item));
          const text = withGone(result, () => notice(result.done.length));
          return { url: home, flash: { notice: { tone: 'success', text } } };
        },
      });
      return {
        byApi: operation({ summary }, async ({ req }) => {
          await removeOne(req, await find(req));
        }),
        ask: page,
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
