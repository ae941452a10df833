/** The calls of the platform's API. Some are an invention of the sandbox, and are marked as such. */
import type { Request, Response } from 'express';
import { z } from 'zod';
import type { Account } from './accounts.ts';
import { refuse } from './authorization.ts';
import { FULL_SCOPE, READ_SCOPE } from './scopes.ts';
import { pageOf } from './thread-list.ts';
import type { ThreadDocument, Threads } from './threads.ts';

export interface PlatformCall {
  method: 'GET' | 'POST';
  /** A segment in braces is a parameter, as in OpenAPI. */
  path: string;
  summary: string;
  /** One of them is needed. The first is the one that refusals name. */
  scopes: readonly string[];
  /** Whether the call is an invention of the sandbox. At another platform, expect another path and another response. */
  isInvented: boolean;
  /** The most bytes of a JSON body; only with POST. */
  maxBodyBytes?: number;
  respond(req: Request, res: Response, account: Account): void;
}

const MAX_RECENT = 50;
const MAX_LISTED = 50;

const text = (max: number) => z.string().min(1, 'must not be empty').max(max, `must be ${max} characters or less`);
const newDocumentSchema = z.object({ title: z.string().trim().pipe(text(200)), content: text(100_000) });
const newMessageSchema = z.object({ text: z.string().trim().pipe(text(1_000_000)) });

/** @param baseUrl the origin of the platform, for `Link` */
export function createPlatformCalls({ threads, baseUrl }: { threads: Threads; baseUrl: string }): PlatformCall[] {
  const read = { method: 'GET', scopes: [READ_SCOPE, FULL_SCOPE], isInvented: false } as const;
  const write = { method: 'POST', scopes: [FULL_SCOPE], isInvented: false } as const;
  return [
    {
      ...read,
      path: '/1/users/current',
      summary: 'The user of the token',
      respond: (_req, res, account) => void res.json(userOf(account)),
    },
    {
      ...read,
      path: '/1/threads/current',
      summary: 'The thread that the user works on',
      respond(_req, res, account) {
        const thread = threads.currentOf(account.id);
        if (thread === undefined) return refuse(res, 404, 'not_found', 'This user has no current thread.');
        res.json(thread);
      },
    },
    {
      ...read,
      path: '/1/threads/recent',
      summary: 'The latest threads, changed last first (count)',
      respond(req, res, account) {
        const count = countOf(req, res, 'count', MAX_RECENT);
        if (count === undefined) return;
        const recent = threads.recentOf(account.id).slice(0, count);
        res.json(Object.fromEntries(recent.map((document) => [document.thread.id, document])));
      },
    },
    {
      ...write,
      path: '/1/threads/new-document',
      summary: 'Create a document (title, content)',
      maxBodyBytes: 200 * 1024,
      respond(req, res, account) {
        const body = bodyOf(req, res, newDocumentSchema);
        if (body) res.json(threads.add({ author: account, ...body }));
      },
    },
    {
      ...read,
      path: '/1/threads/{id}',
      summary: 'A thread. With If-None-Match: 304 while it is unchanged',
      isInvented: true,
      respond(req, res, account) {
        const thread = threadOf(req, res, account);
        // Express adds the ETag, and responds with 304.
        if (thread) res.json(thread);
      },
    },
    {
      ...read,
      path: '/1/threads',
      summary: 'The threads without their content, newest first (limit, cursor); Link names the pages beside',
      isInvented: true,
      respond(req, res, account) {
        const limit = countOf(req, res, 'limit', MAX_LISTED);
        if (limit === undefined) return;
        const cursor = req.query.cursor;
        const page =
          cursor === undefined || typeof cursor === 'string'
            ? pageOf(threads.listOf(account.id), limit, cursor)
            : undefined;
        if (page === undefined) {
          return refuse(res, 400, 'invalid_request', 'cursor must be one that a Link of an earlier response contains.');
        }
        const { next, prev } = page;
        if (next) res.links({ next: urlOf(limit, next) });
        if (prev) res.links({ prev: urlOf(limit, prev) });
        res.json({ threads: page.threads.map(({ thread }) => thread) });
      },
    },
    {
      ...write,
      path: '/1/threads/{id}/messages',
      summary: 'Add a message to a thread (text), at the end of its content',
      isInvented: true,
      maxBodyBytes: 1024 * 1024,
      respond(req, res, account) {
        const thread = threadOf(req, res, account);
        const body = thread && bodyOf(req, res, newMessageSchema);
        if (body) res.status(201).json(threads.addMessage(thread, account, body.text));
      },
    },
  ];

  function urlOf(limit: number, cursor: string): string {
    return `${baseUrl}/1/threads?${new URLSearchParams({ limit: String(limit), cursor })}`;
  }

  /** Sends the refusal if there is no such thread. It is the same if the thread belongs to others. */
  function threadOf(req: Request, res: Response, account: Account): ThreadDocument | undefined {
    const thread = threads.find(String(req.params.id), account.id);
    if (thread === undefined) refuse(res, 404, 'not_found', 'There is no such thread, or it is not shared with you.');
    return thread;
  }
}

/** Sends the refusal if the parameter is not a whole number from 1 to `max`. Default: 10. */
function countOf(req: Request, res: Response, name: string, max: number): number | undefined {
  const { [name]: value = '10' } = req.query;
  const count = typeof value === 'string' && /^\d{1,3}$/.test(value) ? Number(value) : 0;
  if (count >= 1 && count <= max) return count;
  refuse(res, 400, 'invalid_request', `${name} must be a whole number from 1 to ${max}.`);
  return undefined;
}

/** Sends the refusal if the body does not match. */
function bodyOf<T>(req: Request, res: Response, schema: z.ZodType<T>): T | undefined {
  const parsed = schema.safeParse(req.is('json') ? req.body : undefined);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'the body'}: ${message}`);
  refuse(res, 400, 'invalid_request', `${faults.join('; ')}.`);
  return undefined;
}

function userOf({ id, name, login, kind }: Account) {
  return { id, name, emails: kind === 'person' ? [login] : [], is_robot: kind === 'service', affinity: 0 };
}
