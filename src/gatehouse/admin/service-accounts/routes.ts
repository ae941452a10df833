/** Service accounts in the administration. An API token is tried on its platform, sealed, and never shown again. */
import type { Request } from 'express';
import { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import { type FormView, formHandler } from '../../../shared/pages/form.ts';
import type { Notice } from '../../../shared/pages/page-data.ts';
import type { ThreadApp } from '../../connected-apps/current-apps.ts';
import { newServiceAccountId, type ServiceAccount, type TokenCheck } from '../../relay/service-account.ts';
import { baseField, createEditing } from '../editing.ts';
import type { AdminPageData, AdminPageOfList, PageRequest } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { createResource } from '../resource.ts';
import {
  type AccountView,
  accountColumns,
  accountJson,
  accountView,
  apiToken,
  changedAccount,
  newAccount,
} from './view.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/service-accounts/list': AdminPageOfList & {
      accounts: readonly AccountView[];
      apps: readonly { id: string; name: string }[];
    };
    'admin/service-accounts/form': AdminPageData & {
      /** The account whose API token is replaced; undefined if the form creates an account for one of `apps`. */
      account: AccountView | undefined;
      apps: readonly { id: string; name: string }[];
      form: AccountForm;
    };
  }
}

const newForm = z.object({ ...newAccount.shape, apiToken: apiToken.trim() });
const replacementForm = newForm.pick({ apiToken: true }).extend({ base: baseField });

type AccountForm = FormView<typeof newForm> | FormView<typeof replacementForm>;
const EMPTY_FORM: AccountForm = { values: { name: '', app: '', apiToken: '' }, faults: [] };

/** In place of the API token, the form has the time when it was entered. */
const membersOf = ({ tokenSetAt }: ServiceAccount) => ({ apiToken: tokenSetAt });

export function serviceAccountRoutes(parts: AdminParts) {
  const { relay, pages, clock } = parts;
  const { accounts } = relay;
  const { apps } = parts.connectedApps;

  const resource = createResource(parts, {
    name: 'service account',
    records: accounts,
    nameOf: ({ name }) => name,
    textsOf: ({ id, name, app }) => [id, name, app],
    filters: {
      app: {
        schema: z.string().max(40).describe('id of a connected app'),
        accepts: (account, app) => account.app === app,
        isKnown: (id) => apps.find(id) !== undefined,
      },
    },
    schema: accountJson,
    toJson: accountView,
  });

  const appOf = (id: string): ThreadApp => {
    const app = apps.threadApps().find((threadApp) => threadApp.id === id);
    if (app) return app;
    throw fault('#/app', 'unknown_app', 'There is no connected app with this id that serves threads.');
  };

  /** Returns the token with the platform that accepted it. The token is sent only to this platform. */
  const tryToken = async (app: ThreadApp, token: string) => {
    const outcome = await relay.checkApiToken(app, token);
    if (outcome !== 'accepted') throw fault('#/apiToken', outcome, CHECK_WORDS[outcome]);
    return { apiToken: token, platform: new URL(app.apiBaseUrl).origin };
  };

  const create = async (req: Request, input: z.output<typeof newAccount>) => {
    const { name, app } = input;
    const { apiToken: token, platform } = await tryToken(appOf(app), input.apiToken);
    const id = newServiceAccountId();
    const work = () => accounts.create({ id, name, app, apiToken: token, platform });
    return { item: await resource.audited(req, 'service_account.created', { id, name }, work, { app }) };
  };

  /** @throws AppError `version_conflict` */
  const change = async (req: Request, input: z.output<typeof changedAccount>) => {
    const { name, version } = input;
    const account = await resource.find(req);
    if (input.app !== undefined && input.app !== account.app) {
      throw fault('#/app', 'fixed', 'Create another service account for another app.');
    }
    const credential = input.apiToken === undefined ? undefined : await tryToken(appOf(account.app), input.apiToken);
    const changed = [...(name === account.name ? [] : ['name']), ...(credential ? ['apiToken'] : [])];
    const facts = { changed, name };
    const work = () => accounts.change(account.id, version, { name, credential });
    return { item: await resource.audited(req, 'service_account.changed', account, work, facts) };
  };

  const removal = resource.removal({
    summary: 'Delete a service account and its API token',
    event: 'service_account.deleted',
    verb: 'Delete',
    consequences: ['Relay calls for it are refused. Its API token is deleted here and stays valid on the platform.'],
    notice: (count) => `${count === 1 ? 'Service account' : `${count} service accounts`} deleted, with the API token.`,
    work: accounts.remove,
  });

  const editing = createEditing(parts, {
    resource: 'service_account',
    noun: 'service account',
    changes: ['service_account.changed'],
    labelOf: () => 'API token',
    wordsOf: () => undefined,
  });
  const replacement = (account: ServiceAccount): FormView<typeof replacementForm> => ({
    values: { apiToken: '', base: editing.baseOf(membersOf(account)) },
    faults: [],
  });
  const choices = () => apps.threadApps().map(({ id }) => ({ id, name: apps.nameOf(id) }));
  const nameOf = ({ app }: AccountView) => apps.nameOf(app);

  const listPage = pages.page('admin/service-accounts/list', async ({ req, res }) => {
    const result = await resource.pageFor(req, res, accountColumns(nameOf, clock));
    return result && { title: 'Service accounts', accounts: result.items, list: result.list, apps: choices() };
  });

  const formPage = pages.page(
    'admin/service-accounts/form',
    async ({ req, form: submitted }: PageRequest<AccountForm>) => {
      const account = req.params.id === undefined ? undefined : await resource.find(req);
      const form: AccountForm = submitted ?? (account ? replacement(account) : EMPTY_FORM);
      return {
        title: account ? 'Replace API token' : 'Create service account',
        faults: form.faults,
        account: account && accountView(account),
        apps: choices(),
        form,
      };
    },
  );

  return {
    page: listPage.handler,
    newPage: formPage.handler,

    createByForm: formHandler<typeof newForm>({
      pages,
      schema: newForm,
      secrets: ['apiToken'],
      async work(req, input) {
        await create(req, input);
        return { url: resource.home, flash: { notice: CREATED } };
      },
      page: (_req, form) => formPage.at(`${resource.home}/new`, form),
    }),

    replacePage: formPage.handler,
    replaceByForm: formHandler<typeof replacementForm>({
      pages,
      schema: replacementForm,
      secrets: ['apiToken'],
      work: (req, { apiToken: token, base }) =>
        editing.save(String(req.params.id), async () => {
          const account = await resource.find(req);
          const { id, name, version } = account;
          const form = { apiToken: token };
          const edit = { id, base, current: membersOf(account), form, valuesOf: () => ({}) };
          return editing.merge(req, edit, async () => {
            await change(req, { name, version, apiToken: token });
            return { url: resource.home, flash: { notice: REPLACED } };
          });
        }),
      page: (req, form) => formPage.at(`${resource.home}/${encodeURIComponent(String(req.params.id))}/replace`, form),
    }),

    removePage: removal.page,
    removeByForm: removal.byForm,

    finder: resource.finder,
    list: resource.list,
    read: resource.read,
    create: resource.create({
      summary: 'Create a service account; its platform API token is tried first, and never shown again',
      body: newAccount,
      work: create,
    }),
    replace: resource.change({
      summary: 'Rename a service account, or replace its API token',
      body: changedAccount,
      work: change,
    }),
    remove: removal.byApi,
  };
}

const CREATED: Notice = {
  tone: 'success',
  text: 'The platform accepted the API token. It is saved and never shown again.',
};
const REPLACED: Notice = { tone: 'success', text: 'The new API token is saved and used from now on.' };

const CHECK_WORDS: Record<Exclude<TokenCheck, 'accepted'>, string> = {
  refused: 'The platform does not accept this API token. Copy it again, or create a new one there.',
  unreachable:
    'The platform did not respond, so the API token could not be tried. Try again, and check the API base URL of the app.',
};

function fault(pointer: string, rule: string, detail: string): AppError {
  return new AppError('invalid_request', { detail, faults: [{ pointer, rule, detail }] });
}
