/** Admin tokens in the administration: list, create and revoke, by page and by API. */
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import type { AuditTrail } from '../../audit/trail.ts';
import { AppError } from '../../errors.ts';
import { queryField } from '../../http/body.ts';
import { type DescribedHandler, operation } from '../../http/operation.ts';
import { type FormView, formHandler, wholeNumber } from '../../pages/form.ts';
import type { Notice } from '../../pages/page-data.ts';
import type { Pages } from '../../pages/pages.ts';
import { newOpaqueTokenId } from '../../storage/opaque-token.ts';
import { DAY_MS, isoOrNull, isoTime } from '../../time.ts';
import { audited } from '../change.ts';
import { listOf, listQuery, matches, pageOptions } from '../listing.ts';
import { givenName } from '../name.ts';
import type { AdminToken, AdminTokens } from './admin-token.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/admin-tokens': {
      page: SignedInFrame;
      tokens: readonly AdminTokenView[];
      next: string | undefined;
      q: string | undefined;
      made?: MadeSecret | undefined;
      form: FormView<typeof tokenForm>;
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

const MAX_DAYS = 3650;

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
  name: givenName,
  scope: z.enum(['read', 'write']),
  expiresAt: z.iso.datetime({ offset: true, error: 'Give a time as in 2027-01-31T00:00:00Z.' }),
});

const tokenForm = z.object({
  name: givenName,
  scope: wantedToken.shape.scope,
  days: wholeNumber(1, MAX_DAYS, `Enter a number of days from 1 to ${MAX_DAYS}.`),
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
      createdAt: isoTime(token.createdAt),
      expiresAt: isoTime(token.expiresAt),
      expired: token.expiresAt <= clock(),
      lastUsedAt: isoOrNull(usedAt),
    };
  };

  const listed = async (query: z.output<typeof listQuery>) => {
    const isMeant = ({ id, name }: AdminToken) => matches(query.q, id, name);
    const { items, ...rest } = await tokens.page({ ...pageOptions(query), isMeant });
    return { items: await Promise.all(items.map(told)), ...rest };
  };

  const expiryOf = (expiresAt: string): number => {
    const time = Date.parse(expiresAt);
    if (time > clock() && time <= clock() + MAX_DAYS * DAY_MS) return time;
    const detail = 'Give a time in the future, at most ten years from now.';
    throw new AppError('invalid_request', { detail, faults: [{ pointer: '#/expiresAt', rule: 'invalid', detail }] });
  };

  const create = (req: Request, wanted: z.output<typeof wantedToken>) => {
    const expiresAt = expiryOf(wanted.expiresAt);
    const id = newOpaqueTokenId();
    const target = { kind: 'admin_token', id, name: wanted.name };
    const facts = { scope: wanted.scope, expiresAt: isoTime(expiresAt) };
    return audited(trail, req, { event: 'admin_token.created', target, facts }, () =>
      tokens.create({ ...wanted, id, expiresAt }),
    );
  };

  const revoke = async (req: Request, id: string) => {
    const token = await tokens.find(id);
    if (!token) throw new AppError('not_found', { detail: 'There is no admin token with this id.' });
    const target = { kind: 'admin_token', id, name: token.name };
    await audited(trail, req, { event: 'admin_token.revoked', target }, () => tokens.revoke(id));
  };

  const show = async (req: Request, res: Response, form: FormView<typeof tokenForm>) => {
    const q = queryField(req, 'q');
    const [{ items, next }, { notice, made }] = await Promise.all([
      listed({ after: queryField(req, 'after'), limit: 50, q }),
      pages.flashOf(req),
    ]);
    const page = pages.signedInFrame(req, 'Admin tokens', form.faults);
    pages.send(res, 'admin/admin-tokens', { page, tokens: items, next, q, form, notice, made });
  };

  const here = `${basePath}/admin/admin-tokens`;

  return {
    page: (req, res) => show(req, res, { values: { name: '', scope: 'read', days: '90' }, faults: [] }),

    make: formHandler({
      pages,
      schema: tokenForm,
      fieldOf: { expiresAt: 'days' },
      async work(req, { name, scope, days }) {
        const expiresAt = isoTime(clock() + days * DAY_MS);
        const { token, text } = await create(req, { name, scope, expiresAt });
        return { url: here, flash: { notice: CREATED, made: { name: token.name, text } } };
      },
      show,
    }),

    async revokeByForm(req, res) {
      await revoke(req, String(req.params.id));
      await pages.redirect(req, res, here, { notice: REVOKED });
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

const CREATED: Notice = { tone: 'success', text: 'Admin token created.' };
const REVOKED: Notice = { tone: 'success', text: 'Admin token revoked. Every call with it is refused.' };
