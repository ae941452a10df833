/**
 * What resources with stored records have in common: lookup by id, the list, audited changes, and the JSON calls. Admin
 * tokens, relay tokens, service accounts and webhooks use it. Connected apps do not, since some stand in a file; nor do users,
 * sessions, connections and sign-ins, which other rooms store and list by their own indexes.
 */
import type { Request } from 'express';
import type { z } from 'zod';
import type { AuditEntry, AuditEvent } from '../audit/kinds.ts';
import { AppError } from '../errors.ts';
import { listOf } from '../http/list-schema.ts';
import { operation } from '../http/operation.ts';
import type { Records } from '../storage/records.ts';
import type { AdminParts } from './admin.ts';
import { audited } from './change.ts';
import { type ListQuery, listQuery, listRequest, matches, pageOptions } from './listing.ts';

/** The item that a call created or changed, and members that only this response contains, such as a new secret. */
type Changed<T, Added extends z.ZodRawShape> = { item: T } & z.output<z.ZodObject<Added>>;

interface ChangeCall<T, Body extends z.ZodType, Added extends z.ZodRawShape> {
  summary: string;
  body: Body;
  /** Members of the response beside those of the item. */
  added?: Added;
  work(req: Request, body: z.output<Body>): Promise<Changed<T, Added>>;
}

interface RemovalCall {
  summary: string;
  event: AuditEvent;
  /** After the button of the page. */
  notice: string;
  work(id: string): Promise<unknown>;
}

export type Resource<T extends { id: string }, S extends z.ZodObject> = ReturnType<typeof createResource<T, S>>;

export function createResource<T extends { id: string }, S extends z.ZodObject>(
  { audit, pages, publicUrl }: Pick<AdminParts, 'audit' | 'pages' | 'publicUrl'>,
  about: {
    /** Such as "relay token": `relay_token` in the audit trail, `relay-tokens` in paths. */
    name: string;
    records: Pick<Records<unknown, T>, 'find' | 'page'>;
    /** The name of an item in the audit trail. */
    nameOf(item: T): string;
    /** The texts that `q` is searched in. */
    textsOf(item: T): readonly string[];
    schema: S;
    toJson(item: T): z.output<S> | Promise<z.output<S>>;
  },
) {
  const { name, records, nameOf, textsOf, schema, toJson } = about;
  const path = `${name.replaceAll(' ', '-')}s`;
  /** Of the page with the list. */
  const home = `${publicUrl.basePath}/admin/${path}`;

  /** The item that the path names. @throws AppError `not_found` */
  const find = async (req: Request): Promise<T> => (await records.find(String(req.params.id))) ?? throwUnknown(name);

  const listed = async (query: ListQuery) => {
    const filter = (item: T) => matches(query.q, ...textsOf(item));
    const { items, ...rest } = await records.page({ ...pageOptions(query), filter });
    return { items: await Promise.all(items.map(toJson)), ...rest };
  };

  /**
   * Writes the audit entry, then makes the change.
   * @param change returns undefined if the item is gone
   * @throws AppError `not_found`
   */
  const auditedChange = async <R>(
    req: Request,
    event: AuditEvent,
    { id, name: label }: { id: string; name: string },
    change: () => Promise<R | undefined>,
    facts?: AuditEntry['facts'],
  ): Promise<R> => {
    const target = { kind: name.replaceAll(' ', '_'), id, name: label };
    return (await audited(audit.trail, req, { event, target, facts }, change)) ?? throwUnknown(name);
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

    /** The part of the list that the query of an HTML page asks for. */
    async listedFor(req: Request) {
      const query = listRequest(req);
      const { items, next } = await listed(query);
      return { items, next, q: query.q };
    },

    list: operation(
      { summary: `List ${name}s, newest first`, query: listQuery, response: listOf(schema) },
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

    /** Removes the item that the path names. */
    removal({ summary, event, notice, work }: RemovalCall) {
      const remove = async (req: Request): Promise<void> => {
        const item = await find(req);
        await auditedChange(req, event, { id: item.id, name: nameOf(item) }, () => work(item.id));
      };
      return {
        byApi: operation({ summary }, ({ req }) => remove(req)),
        byForm: pages.button(async (req) => {
          await remove(req);
          return { url: home, flash: { notice: { tone: 'success', text: notice } } };
        }),
      };
    },
  };
}

/** @throws AppError `not_found` */
export function throwUnknown(name: string): never {
  throw new AppError('not_found', { detail: `There is no ${name} with this id.` });
}

const withArticle = (name: string) => `${/^[aeiou]/.test(name) ? 'an' : 'a'} ${name}`;
