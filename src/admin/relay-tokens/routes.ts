/** Relay tokens in the administration: listed, created, changed, rotated and revoked, by page and by API. */
import { z } from 'zod';
import { type FormView, formHandler } from '../../pages/form.ts';
import type { Notice } from '../../pages/page-data.ts';
import { RELAY_WORDS } from '../../relay/policy.ts';
import type { RelayToken } from '../../relay/relay-token.ts';
import type { HourOfUse } from '../../relay/uses.ts';
import type { AdminParts } from '../admin.ts';
import type { AdminListData, AdminPageData, PageRequest } from '../page.ts';
import { createResource } from '../resource.ts';
import { relayTokenChanges } from './changes.ts';
import {
  EMPTY_FORM,
  FIRST_ROTATION,
  inputOf,
  newTokenForm,
  rotationForm,
  TOKEN_FIELDS,
  tokenForm,
  valuesOfToken,
} from './form.ts';
import {
  changedRelayToken,
  type RelayTokenView,
  relayTokenJson,
  relayTokenView,
  rotation,
  wantedRelayToken,
} from './view.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/relay-tokens': AdminListData & {
      tokens: readonly RelayTokenView[];
      apps: readonly { id: string; name: string }[];
      words: typeof RELAY_WORDS;
      form: FormView<typeof newTokenForm>;
    };
    'admin/relay-token': AdminPageData & {
      token: RelayTokenView;
      hours: readonly HourOfUse[];
      apps: readonly { id: string; name: string }[];
      words: typeof RELAY_WORDS;
      form: FormView<typeof tokenForm>;
      rotation: FormView<typeof rotationForm>;
    };
  }
}

/** Of the two forms on a token's page, the one with faults. */
interface TokenForms {
  form?: FormView<typeof tokenForm>;
  rotation?: FormView<typeof rotationForm>;
}

const secret = { token: z.string().describe('only this response contains it') };

export function relayTokenRoutes(parts: AdminParts) {
  const { relay, connectedApps, pages, clock } = parts;
  const { tokens, uses } = relay;
  const { apps } = connectedApps;

  const resource = createResource(parts, {
    name: 'relay token',
    records: tokens,
    nameOf: ({ name }) => name,
    textsOf: ({ id, name }) => [id, name],
    schema: relayTokenJson,
    toJson: async (token: RelayToken) => relayTokenView(token, await tokens.lastUse(token.id), clock()),
  });
  const { create, change, rotate } = relayTokenChanges({ resource, tokens, apps, clock });
  const revocation = resource.removal({
    summary: 'Revoke a relay token: every process refuses it within a second',
    event: 'relay_token.revoked',
    notice: 'Relay token revoked. Every call with it is refused.',
    work: tokens.revoke,
  });
  const choices = () => apps.list().map(({ id, name }) => ({ id, name }));

  const list = pages.page(
    'admin/relay-tokens',
    async ({ req, form = EMPTY_FORM }: PageRequest<FormView<typeof newTokenForm>>) => {
      const { items, next, q } = await resource.listedFor(req);
      const { faults } = form;
      return { title: 'Relay tokens', faults, tokens: items, next, q, apps: choices(), words: RELAY_WORDS, form };
    },
  );

  const one = pages.page('admin/relay-token', async ({ req, form: forms = {} }: PageRequest<TokenForms>) => {
    const token = await resource.find(req);
    const { form = { values: valuesOfToken(token), faults: [] }, rotation: rotated = FIRST_ROTATION } = forms;
    return {
      title: token.name,
      faults: [...form.faults, ...rotated.faults],
      token: await resource.toJson(token),
      hours: await uses.hoursOf(token.id),
      apps: choices(),
      words: RELAY_WORDS,
      form,
      rotation: rotated,
    };
  });

  return {
    page: list.handler,
    onePage: one.handler,

    createByForm: formHandler({
      pages,
      schema: newTokenForm,
      fieldOf: TOKEN_FIELDS,
      async work(req, typed) {
        const { item, token } = await create(req, inputOf(typed, clock()));
        return {
          url: `${resource.home}/${item.id}`,
          flash: { notice: CREATED, made: { name: item.name, text: token } },
        };
      },
      show: list.show,
    }),

    changeByForm: formHandler({
      pages,
      schema: tokenForm,
      fieldOf: TOKEN_FIELDS,
      async work(req, { version, ...typed }) {
        const { id, expiresAt } = await resource.find(req);
        await change(req, { ...inputOf(typed, clock(), expiresAt), version });
        return { url: `${resource.home}/${id}`, flash: { notice: CHANGED } };
      },
      show: (req, res, form) => one.show(req, res, { form }),
    }),

    rotateByForm: formHandler({
      pages,
      schema: rotationForm,
      async work(req, { overlapHours }) {
        const { item, token } = await rotate(req, { overlapSeconds: overlapHours * 3_600 });
        return {
          url: `${resource.home}/${item.id}`,
          flash: { notice: ROTATED, made: { name: item.name, text: token } },
        };
      },
      show: (req, res, form) => one.show(req, res, { rotation: form }),
    }),

    revokeByForm: revocation.byForm,

    list: resource.list,
    one: resource.one,
    create: resource.create({
      summary: 'Create a relay token; only this response contains it',
      body: wantedRelayToken,
      added: secret,
      work: create,
    }),
    replace: resource.change({
      summary: 'Change what a relay token may do',
      body: changedRelayToken,
      work: change,
    }),
    rotate: resource.change({
      summary: 'Give a relay token a new secret; only this response contains it',
      body: rotation,
      added: secret,
      work: rotate,
    }),
    revoke: revocation.byApi,
  };
}

const CREATED: Notice = { tone: 'success', text: 'Relay token created.' };
const CHANGED: Notice = { tone: 'success', text: 'Saved. All processes use the change within a second.' };
const ROTATED: Notice = { tone: 'success', text: 'The token has a new secret.' };
