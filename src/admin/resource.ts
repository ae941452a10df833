/** What resources with stored records have in common: lookup by id, the list, audited changes, and the JSON calls. */
import type { Request } from 'express';
import type { z } from 'zod';
import type { AuditEntry, AuditEvent } from '../audit/kinds.ts';
import type { AuditTrail } from '../audit/trail.ts';
import { AppError } from '../errors.ts';
import { operation } from '../http/operation.ts';
import type { Records } from '../storage/records.ts';
import { audited } from './change.ts';
import { type ListQuery, listOf, listQuery, listRequest, matches, pageOptions } from './listing.ts';

/** The item that a call created or changed, and what only the response to this call holds, such as a new secret. */
type Changed<T, Added extends z.ZodRawShape> = { item: T } & z.output<z.ZodObject<Added>>;

interface ChangeCall<T, Body extends z.ZodType, Added extends z.ZodRawShape> {
  summary: string;
  body: Body;
  /** Members of the response beside those of the item. */
  added?: Added;
  work(req: Request, body: z.output<Body>): Promise<Changed<T, Added>>;
}

export type Resource<T extends { id: string }, S extends z.ZodObject> = ReturnType<typeof createResource<T, S>>;

export function createResource<T extends { id: string }, S extends z.ZodObject>(parts: {
  /** With its article, such as "a webhook". */
  name: string;
  /** In the audit trail. */
  kind: string;
  /** Of the list in the API. */
  url: string;
  records: Pick<Records<unknown, T>, 'find' | 'page'>;
  /** The texts that `q` is searched in. */
  textsOf(item: T): readonly string[];
  schema: S;
  toJson(item: T): z.output<S> | Promise<z.output<S>>;
  trail: Pick<AuditTrail, 'append'>;
}) {
  const { name, kind, url, records, textsOf, schema, toJson, trail } = parts;

  /** The item that the path names. @throws AppError `not_found` */
  const find = async (req: Request): Promise<T> => (await records.find(String(req.params.id))) ?? throwUnknown(name);

  const listed = async (query: ListQuery) => {
    const isMeant = (item: T) => matches(query.q, ...textsOf(item));
    const { items, ...rest } = await records.page({ ...pageOptions(query), isMeant });
    return { items: await Promise.all(items.map(toJson)), ...rest };
  };

  const answerOf = <A extends z.ZodRawShape>(added: A | undefined) => (added ? schema.extend(added) : schema);
  const answer = async <A extends z.ZodRawShape>({ item, ...added }: Changed<T, A>) => ({
    ...(await toJson(item)),
    ...added,
  });

  return {
    find,
    toJson,

    /** The part of the list that the query of an HTML page asks for. */
    async listedFor(req: Request) {
      const query = listRequest(req);
      const { items, next } = await listed(query);
      return { items, next, q: query.q };
    },

    /**
     * Writes the audit entry, then makes the change.
     * @param change undefined if the item is gone
     * @throws AppError `not_found`
     */
    async audited<R>(
      req: Request,
      event: AuditEvent,
      target: { id: string; name: string },
      change: () => Promise<R | undefined>,
      facts?: AuditEntry['facts'],
    ): Promise<R> {
      const entry = { event, target: { kind, id: target.id, name: target.name }, facts };
      return (await audited(trail, req, entry, change)) ?? throwUnknown(name);
    },

    list: operation(
      { summary: `List ${plain(name)}s, the newest first`, query: listQuery, answer: listOf(schema) },
      ({ query }) => listed(query),
    ),

    one: operation({ summary: `Read ${name}`, answer: schema }, async ({ req }) => toJson(await find(req))),

    create<B extends z.ZodType, A extends z.ZodRawShape>({ summary, body, added, work }: ChangeCall<T, B, A>) {
      return operation({ summary, body, answer: answerOf(added), status: 201 }, async (call) => {
        const changed = await work(call.req, call.body);
        call.res.set('Location', `${url}/${changed.item.id}`);
        return answer(changed);
      });
    },

    change<B extends z.ZodType, A extends z.ZodRawShape>({ summary, body, added, work }: ChangeCall<T, B, A>) {
      return operation({ summary, body, answer: answerOf(added) }, async (call) =>
        answer(await work(call.req, call.body)),
      );
    },
  };
}

/** @param name with its article, such as "a webhook". @throws AppError `not_found` */
export function throwUnknown(name: string): never {
  throw new AppError('not_found', { detail: `There is no ${plain(name)} with this id.` });
}

const plain = (name: string) => name.replace(/^an? /, '');
