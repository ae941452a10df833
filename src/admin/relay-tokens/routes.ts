/** Relay tokens in the administration: listed, made, changed, rotated and revoked, by page and by API. */
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import type { AuditTrail } from '../../audit/trail.ts';
import type { AppStore } from '../../connected-apps/app-store.ts';
import { queryField } from '../../http/body.ts';
import { type DescribedHandler, operation } from '../../http/operation.ts';
import { type FormView, formHandler } from '../../pages/form.ts';
import type { Notice } from '../../pages/page-data.ts';
import type { Pages } from '../../pages/pages.ts';
import { RELAY_WORDS } from '../../relay/policy.ts';
import type { RelayToken, RelayTokens } from '../../relay/relay-token.ts';
import type { HourOfUse, RelayUses } from '../../relay/uses.ts';
import { listOf, listQuery, matches, pageOptions } from '../listing.ts';
import { relayTokenChanges } from './changes.ts';
import {
  inputOf,
  NEW_ROTATION,
  NEW_TOKEN,
  newTokenForm,
  rotationForm,
  TOKEN_FIELDS,
  tokenForm,
  valuesOfToken,
} from './form.ts';
import {
  changedRelayToken,
  type RelayTokenView,
  relayTokenAnswer,
  relayTokenView,
  rotation,
  wantedRelayToken,
} from './view.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/relay-tokens': {
      page: SignedInFrame;
      tokens: readonly RelayTokenView[];
      next: string | undefined;
      q: string | undefined;
      apps: readonly { id: string; name: string }[];
      words: typeof RELAY_WORDS;
      form: FormView<typeof newTokenForm>;
      notice?: Notice | undefined;
    };
    'admin/relay-token': {
      page: SignedInFrame;
      token: RelayTokenView;
      hours: readonly HourOfUse[];
      apps: readonly { id: string; name: string }[];
      words: typeof RELAY_WORDS;
      form: FormView<typeof tokenForm>;
      rotation: FormView<typeof rotationForm>;
      made?: MadeSecret | undefined;
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
    const isMeant = ({ id, name }: RelayToken) => matches(query.q, id, name);
    const { items, ...rest } = await tokens.page({ ...pageOptions(query), isMeant });
    return { items: await Promise.all(items.map(told)), ...rest };
  };

  const show = async (req: Request, res: Response, form: FormView<typeof newTokenForm>) => {
    const q = queryField(req, 'q');
    const [{ items, next }, { notice }] = await Promise.all([
      listed({ after: queryField(req, 'after'), limit: 50, q }),
      pages.flashOf(req),
    ]);
    const page = pages.signedInFrame(req, 'Relay tokens', form.faults);
    pages.send(res, 'admin/relay-tokens', {
      page,
      tokens: items,
      next,
      q,
      apps: choices(),
      words: RELAY_WORDS,
      form,
      notice,
    });
  };

  const showOne = async (
    req: Request,
    res: Response,
    token: RelayToken,
    forms: { form?: FormView<typeof tokenForm>; rotation?: FormView<typeof rotationForm> } = {},
  ) => {
    const [view, hours, flash] = await Promise.all([told(token), uses.hoursOf(token.id), pages.flashOf(req)]);
    const { form = { values: valuesOfToken(token), faults: [] }, rotation: rotated = FIRST_ROTATION } = forms;
    pages.send(res, 'admin/relay-token', {
      page: pages.signedInFrame(req, token.name, [...form.faults, ...rotated.faults]),
      token: view,
      hours,
      apps: choices(),
      words: RELAY_WORDS,
      form,
      rotation: rotated,
      made: flash.made,
      notice: flash.notice,
    });
  };

  const urlOf = ({ id }: RelayToken) => `${basePath}/admin/relay-tokens/${id}`;
  const idOf = (req: Request) => String(req.params.id);

  return {
    page: (req, res) => show(req, res, { values: NEW_TOKEN, faults: [] }),
    onePage: async (req, res) => showOne(req, res, await find(idOf(req))),

    make: formHandler({
      pages,
      schema: newTokenForm,
      fieldOf: TOKEN_FIELDS,
      async work(req, typed) {
        const { token, text } = await create(req, inputOf(typed, clock()));
        return { url: urlOf(token), flash: { notice: CREATED, made: { name: token.name, text } } };
      },
      show,
    }),

    changeByForm: formHandler({
      pages,
      schema: tokenForm,
      fieldOf: TOKEN_FIELDS,
      async work(req, { version, ...typed }) {
        const { id, expiresAt } = await find(idOf(req));
        const token = await change(req, id, version, inputOf(typed, clock(), expiresAt));
        return { url: urlOf(token), flash: { notice: CHANGED } };
      },
      show: async (req, res, form) => showOne(req, res, await find(idOf(req)), { form }),
    }),

    rotateByForm: formHandler({
      pages,
      schema: rotationForm,
      async work(req, { overlapHours }) {
        const { token, text } = await rotate(req, idOf(req), overlapHours * 3_600);
        return { url: urlOf(token), flash: { notice: ROTATED, made: { name: token.name, text } } };
      },
      show: async (req, res, form) => showOne(req, res, await find(idOf(req)), { rotation: form }),
    }),

    async revokeByForm(req, res) {
      await revoke(req, String(req.params.id));
      await pages.redirect(req, res, `${basePath}/admin/relay-tokens`, { notice: REVOKED });
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

const FIRST_ROTATION: FormView<typeof rotationForm> = { values: NEW_ROTATION, faults: [] };
const CREATED: Notice = { tone: 'success', text: 'Relay token created.' };
const CHANGED: Notice = { tone: 'success', text: 'Saved. All processes use the change within a second.' };
const ROTATED: Notice = { tone: 'success', text: 'The token has a new secret.' };
const REVOKED: Notice = { tone: 'success', text: 'Relay token revoked. Every call with it is refused.' };
