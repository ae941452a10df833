/** Owns admin tokens in the administration: listed, made, revoked, by page and by API. */
import type { RequestHandler, Response } from 'express';
import { z } from 'zod';
import type { AuditTrail } from '../audit/trail.ts';
import { AppError } from '../errors.ts';
import { formField, queryField } from '../http/body.ts';
import { checked, type DescribedHandler, operation } from '../http/operation.ts';
import type { Pages } from '../http/pages.ts';
import { newOpaqueTokenId } from '../storage/opaque-token.ts';
import type { AdminToken, AdminTokens } from './admin-token.ts';
import { audited } from './change.ts';
import { listOf, listQuery, matches, pageOptions } from './listing.ts';

declare module '../http/page-data.ts' {
  interface AdminPageData {
    'admin/admin-tokens': {
      page: SignedInFrame;
      tokens: readonly AdminTokenView[];
      next: string | undefined;
      /** The new one, on the only page that ever shows it. */
      made?: { name: string; text: string } | undefined;
      form: { name: string; scope: string; days: string; fault?: string | undefined };
      notice?: Notice | undefined;
    };
  }
}

type AdminTokenView = z.output<typeof tokenAnswer>;

export interface AdminTokenRoutes {
  page: RequestHandler;
  make: RequestHandler;
  revokeByForm: RequestHandler;
  list: DescribedHandler;
  one: DescribedHandler;
  create: DescribedHandler;
  revoke: DescribedHandler;
}

const MOST_DAYS = 3650;
const DAY_MILLISECONDS = 86_400_000;

const tokenAnswer = z.object({
  id: z.string(),
  name: z.string(),
  scope: z.enum(['read', 'write']).describe('"write" includes reading'),
  createdAt: z.iso.datetime(),
  expiresAt: z.iso.datetime(),
  expired: z.boolean(),
  lastUsedAt: z.iso.datetime().nullable(),
});

const wantedToken = z.strictObject({
  name: z.string().trim().min(1).max(100),
  scope: z.enum(['read', 'write']),
  expiresAt: z.iso.datetime({ offset: true, error: 'Give a time as in 2027-01-31T00:00:00Z.' }),
});

export function adminTokenRoutes(parts: {
  tokens: AdminTokens;
  trail: AuditTrail;
  pages: Pages;
  clock: () => number;
  basePath: string;
}): AdminTokenRoutes {
  const { tokens, trail, pages, clock, basePath } = parts;

  const told = async (token: AdminToken): Promise<AdminTokenView> => {
    const usedAt = await tokens.lastUse(token.id);
    return {
      ...token,
      createdAt: new Date(token.createdAt).toISOString(),
      expiresAt: new Date(token.expiresAt).toISOString(),
      expired: token.expiresAt <= clock(),
      lastUsedAt: usedAt === undefined ? null : new Date(usedAt).toISOString(),
    };
  };

  const listed = async (query: z.output<typeof listQuery>) => {
    const { tokens: found, next } = await tokens.page(pageOptions(query));
    const items = await Promise.all(found.filter(({ id, name }) => matches(query.q, id, name)).map(told));
    return next === undefined ? { items } : { items, next };
  };

  const expiryOf = (expiresAt: string): number => {
    const time = Date.parse(expiresAt);
    if (time > clock() && time <= clock() + MOST_DAYS * DAY_MILLISECONDS) return time;
    const detail = 'Give a time in the future, at most ten years from now.';
    throw new AppError('invalid_request', { detail, faults: [{ pointer: '#/expiresAt', rule: 'invalid', detail }] });
  };

  const create = (req: Parameters<RequestHandler>[0], wanted: z.output<typeof wantedToken>) => {
    const expiresAt = expiryOf(wanted.expiresAt);
    const id = newOpaqueTokenId();
    const target = { kind: 'admin_token', id, name: wanted.name };
    const facts = { scope: wanted.scope, expiresAt: new Date(expiresAt).toISOString() };
    return audited(trail, req, { event: 'admin_token.created', target, facts }, () =>
      tokens.create({ ...wanted, id, expiresAt }),
    );
  };

  const revoke = async (req: Parameters<RequestHandler>[0], id: string) => {
    const token = await tokens.find(id);
    if (!token) throw new AppError('not_found', { detail: 'There is no admin token with this id.' });
    const target = { kind: 'admin_token', id, name: token.name };
    await audited(trail, req, { event: 'admin_token.revoked', target }, () => tokens.revoke(id));
  };

  const show = async (
    req: Parameters<RequestHandler>[0],
    res: Response,
    more: Partial<{
      made: { name: string; text: string };
      form: { name: string; scope: string; days: string; fault?: string };
    }>,
  ) => {
    const { items, next } = await listed({ after: queryField(req, 'after'), limit: 50 });
    pages.sendAdmin(res, 'admin/admin-tokens', {
      page: pages.signedInFrame(req, 'Admin tokens'),
      tokens: items,
      next,
      form: { name: '', scope: 'read', days: '90' },
      notice: queryField(req, 'done') === 'revoked' ? { tone: 'success', text: REVOKED } : undefined,
      ...more,
    });
  };

  return {
    page: (req, res) => show(req, res, {}),

    async make(req, res) {
      const form = {
        name: formField(req.body, 'name') ?? '',
        scope: formField(req.body, 'scope') ?? '',
        days: formField(req.body, 'days') ?? '',
      };
      try {
        const days = /^\d{1,4}$/.test(form.days) ? Number(form.days) : 0;
        const expiresAt = new Date(clock() + days * DAY_MILLISECONDS).toISOString();
        const { token, text } = await create(
          req,
          checked(wantedToken, { name: form.name, scope: form.scope, expiresAt }),
        );
        await show(req, res, { made: { name: token.name, text } });
      } catch (error) {
        if (!(error instanceof AppError) || error.code !== 'invalid_request') throw error;
        res.status(error.status);
        await show(req, res, { form: { ...form, fault: FORM_FAULT } });
      }
    },

    async revokeByForm(req, res) {
      await revoke(req, String(req.params.id));
      res.redirect(303, `${basePath}/admin/admin-tokens?done=revoked`);
    },

    list: operation(
      { summary: 'List admin tokens, the newest first', query: listQuery, answer: listOf(tokenAnswer) },
      ({ query }) => listed(query),
    ),

    one: operation({ summary: 'Read an admin token', answer: tokenAnswer }, async ({ req }) => {
      const token = await tokens.find(String(req.params.id));
      if (!token) throw new AppError('not_found', { detail: 'There is no admin token with this id.' });
      return told(token);
    }),

    create: operation(
      {
        summary: 'Make an admin token; only this answer ever holds it',
        body: wantedToken,
        answer: tokenAnswer.extend({ token: z.string() }),
        status: 201,
      },
      async ({ req, res, body }) => {
        const { token, text } = await create(req, body);
        res.set('Location', `${basePath}/admin/api/admin-tokens/${token.id}`);
        return { ...(await told(token)), token: text };
      },
    ),

    revoke: operation({ summary: 'Revoke an admin token: no call with it is answered any more' }, ({ req }) =>
      revoke(req, String(req.params.id)),
    ),
  };
}

const REVOKED = 'The token is revoked. No call with it is answered any more.';
const FORM_FAULT = 'Give the token a name, choose what it may do, and for how many days: 1 to 3650.';
