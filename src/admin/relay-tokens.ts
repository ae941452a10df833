/** Owns relay tokens in the administration: listed, made, changed, rotated and revoked, by page and by API. */
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import type { AuditTrail } from '../audit/trail.ts';
import type { AppStore } from '../connected-apps/app-store.ts';
import { AppError } from '../errors.ts';
import { formField, queryField } from '../http/body.ts';
import { checked, type DescribedHandler, operation } from '../http/operation.ts';
import type { Pages } from '../http/pages.ts';
import type { RelayToken, RelayTokens } from '../relay/relay-token.ts';
import type { HourOfUse, RelayUses } from '../relay/uses.ts';
import { listOf, listQuery, matches, pageOptions } from './listing.ts';
import { relayTokenChanges } from './relay-token-changes.ts';
import {
  emptyRelayTokenForm,
  formOfToken,
  type RelayTokenForm,
  readRelayTokenForm,
  rotationOfForm,
} from './relay-token-form.ts';
import {
  changedRelayToken,
  type RelayTokenView,
  relayTokenAnswer,
  relayTokenView,
  rotation,
  wantedRelayToken,
} from './relay-token-input.ts';

declare module '../http/page-data.ts' {
  interface AdminPageData {
    'admin/relay-tokens': {
      page: SignedInFrame;
      tokens: readonly RelayTokenView[];
      next: string | undefined;
      q: string | undefined;
      apps: readonly { id: string; name: string }[];
      form: RelayTokenForm;
      /** The new one, on the only page that ever shows it. */
      made?: { name: string; text: string } | undefined;
      notice?: Notice | undefined;
    };
    'admin/relay-token': {
      page: SignedInFrame;
      token: RelayTokenView;
      hours: readonly HourOfUse[];
      apps: readonly { id: string; name: string }[];
      form: RelayTokenForm;
      made?: { name: string; text: string } | undefined;
      notice?: Notice | undefined;
    };
  }
}

export interface RelayTokenRoutes {
  page: RequestHandler;
  onePage: RequestHandler;
  make: RequestHandler;
  changeByForm: RequestHandler;
  rotateByForm: RequestHandler;
  revokeByForm: RequestHandler;
  list: DescribedHandler;
  one: DescribedHandler;
  create: DescribedHandler;
  replace: DescribedHandler;
  rotate: DescribedHandler;
  revoke: DescribedHandler;
}

const withToken = relayTokenAnswer.extend({ token: z.string().describe('only this answer ever holds it') });

export function relayTokenRoutes(parts: {
  tokens: RelayTokens;
  uses: RelayUses;
  apps: AppStore;
  trail: AuditTrail;
  pages: Pages;
  clock: () => number;
  basePath: string;
}): RelayTokenRoutes {
  const { tokens, uses, apps, pages, clock, basePath } = parts;
  const { find, create, change, rotate, revoke } = relayTokenChanges(parts);
  const choices = () => apps.list().map(({ id, name }) => ({ id, name }));

  const told = async (token: RelayToken) => relayTokenView(token, await tokens.lastUse(token.id), clock());

  const listed = async (query: z.output<typeof listQuery>) => {
    const { tokens: found, next } = await tokens.page(pageOptions(query));
    const items = await Promise.all(found.filter(({ id, name }) => matches(query.q, id, name)).map(told));
    return next === undefined ? { items } : { items, next };
  };

  const show = async (
    req: Request,
    res: Response,
    more: { form?: RelayTokenForm; made?: { name: string; text: string } } = {},
  ) => {
    const q = queryField(req, 'q');
    const { items, next } = await listed({ after: queryField(req, 'after'), limit: 50, q });
    pages.sendAdmin(res, 'admin/relay-tokens', {
      page: pages.signedInFrame(req, 'Relay tokens'),
      ...{ tokens: items, next, q, form: emptyRelayTokenForm() },
      apps: choices(),
      notice: queryField(req, 'done') === 'revoked' ? { tone: 'success', text: REVOKED } : undefined,
      ...more,
    });
  };

  const showOne = async (
    req: Request,
    res: Response,
    token: RelayToken,
    more: { form?: RelayTokenForm; made?: { name: string; text: string } } = {},
  ) => {
    const [view, hours] = await Promise.all([told(token), uses.hoursOf(token.id)]);
    pages.sendAdmin(res, 'admin/relay-token', {
      page: pages.signedInFrame(req, token.name),
      ...{ token: view, hours: hours.slice(0, 48), apps: choices(), form: formOfToken(token) },
      notice: queryField(req, 'done') === 'changed' ? { tone: 'success', text: CHANGED } : undefined,
      ...more,
    });
  };

  return {
    page: (req, res) => show(req, res),
    onePage: async (req, res) => showOne(req, res, await find(String(req.params.id))),

    async make(req, res) {
      const form = readRelayTokenForm(req.body, clock());
      try {
        const { token, text } = await create(req, checked(wantedRelayToken, form.input));
        await show(req, res, { made: { name: token.name, text } });
      } catch (error) {
        if (!(error instanceof AppError) || error.code !== 'invalid_request') throw error;
        res.status(error.status);
        await show(req, res, { form: { ...form.typed, faults: form.faultsOf(error.faults ?? []) } });
      }
    },

    async changeByForm(req, res) {
      const token = await find(String(req.params.id));
      const form = readRelayTokenForm(req.body, clock(), token);
      try {
        const version = Number(formField(req.body, 'version'));
        await change(req, token.id, version, checked(wantedRelayToken, form.input));
        res.redirect(303, `${basePath}/admin/relay-tokens/${token.id}?done=changed`);
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        if (error.code !== 'invalid_request' && error.code !== 'version_conflict') throw error;
        res.status(error.status);
        const conflict = error.code === 'version_conflict' ? CONFLICT : undefined;
        const faults = form.faultsOf(error.faults ?? []);
        await showOne(req, res, token, { form: { ...form.typed, faults, conflict } });
      }
    },

    async rotateByForm(req, res) {
      const { token, text } = await rotate(req, String(req.params.id), rotationOfForm(req.body));
      await showOne(req, res, token, { made: { name: token.name, text } });
    },

    async revokeByForm(req, res) {
      await revoke(req, String(req.params.id));
      res.redirect(303, `${basePath}/admin/relay-tokens?done=revoked`);
    },

    list: operation(
      { summary: 'List relay tokens, the newest first', query: listQuery, answer: listOf(relayTokenAnswer) },
      ({ query }) => listed(query),
    ),

    one: operation({ summary: 'Read a relay token', answer: relayTokenAnswer }, async ({ req }) =>
      told(await find(String(req.params.id))),
    ),

    create: operation(
      {
        summary: 'Make a relay token; only this answer ever holds it',
        body: wantedRelayToken,
        answer: withToken,
        status: 201,
      },
      async ({ req, res, body }) => {
        const { token, text } = await create(req, body);
        res.set('Location', `${basePath}/admin/api/relay-tokens/${token.id}`);
        return { ...(await told(token)), token: text };
      },
    ),

    replace: operation(
      { summary: 'Change what a relay token may do', body: changedRelayToken, answer: relayTokenAnswer },
      async ({ req, body: { version, ...input } }) => told(await change(req, String(req.params.id), version, input)),
    ),

    rotate: operation(
      { summary: 'Give a relay token a new secret; only this answer ever holds it', body: rotation, answer: withToken },
      async ({ req, body }) => {
        const { token, text } = await rotate(req, String(req.params.id), body.overlapSeconds);
        return { ...(await told(token)), token: text };
      },
    ),

    revoke: operation(
      { summary: 'Revoke a relay token: no process answers a call with it after a second' },
      ({ req }) => revoke(req, String(req.params.id)),
    ),
  };
}

const CHANGED = 'It is saved, and counts on all processes within a second.';
const CONFLICT =
  'Somebody else has changed the token meanwhile. What you typed stands below and is not saved: saving it now replaces what the other one did.';
const REVOKED = 'The token is revoked. No call with it is answered any more.';
