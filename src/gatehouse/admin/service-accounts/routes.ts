/** Service accounts in the administration: their platform API tokens are entered here, and never shown again. */
import { z } from 'zod';
import { type FormView, formHandler } from '../../../shared/pages/form.ts';
import type { Notice } from '../../../shared/pages/page-data.ts';
import type { AdminPageData, AdminPageOfList, PageRequest } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { createResource } from '../resource.ts';
import { serviceAccountChanges } from './changes.ts';
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
    'admin/service-accounts/new': AdminPageData & {
      apps: readonly { id: string; name: string }[];
      form: FormView<typeof newForm>;
    };
    'admin/service-accounts/token': AdminPageData & {
      account: AccountView;
      form: FormView<typeof replacementForm>;
    };
  }
}

const newForm = z.object({ ...newAccount.shape, apiToken: apiToken.trim() });
const replacementForm = newForm.pick({ apiToken: true });

const EMPTY_FORM: FormView<typeof newForm> = { values: { name: '', app: '', apiToken: '' }, faults: [] };
const NO_TOKEN: FormView<typeof replacementForm> = { values: { apiToken: '' }, faults: [] };

export function serviceAccountRoutes(parts: AdminParts) {
  const { relay, pages, clock } = parts;
  const { apps } = parts.connectedApps;

  const resource = createResource(parts, {
    name: 'service account',
    records: relay.accounts,
    nameOf: ({ name }) => name,
    textsOf: ({ id, name, app }) => [id, name, app],
    filters: {
      app: {
        schema: z.string().max(40).describe('id of a connected app'),
        accepts: (account, app) => account.app === app,
      },
    },
    schema: accountJson,
    toJson: accountView,
  });
  const { create, change } = serviceAccountChanges({
    resource,
    accounts: relay.accounts,
    apps,
    check: relay.checkApiToken,
  });

  const removal = resource.removal({
    summary: 'Delete a service account and its API token',
    event: 'service_account.deleted',
    verb: 'Delete',
    consequences: ['Relay calls for it are refused. Its API token is deleted here and stays valid on the platform.'],
    notice: (count) => `${count === 1 ? 'Service account' : `${count} service accounts`} deleted, with the API token.`,
    work: relay.accounts.remove,
  });

  const choices = () => apps.threadApps().map(({ id, name }) => ({ id, name }));
  const nameOf = ({ app }: AccountView) => apps.find(app)?.name ?? app;

  const list = pages.page('admin/service-accounts/list', async ({ req, res }) => {
    const found = await resource.pageFor(req, res, accountColumns(nameOf, clock));
    return found && { title: 'Service accounts', accounts: found.items, list: found.list, apps: choices() };
  });

  const newPage = pages.page(
    'admin/service-accounts/new',
    async ({ form = EMPTY_FORM }: PageRequest<FormView<typeof newForm>>) => {
      return { title: 'Create service account', faults: form.faults, apps: choices(), form };
    },
  );

  const replacement = pages.page(
    'admin/service-accounts/token',
    async ({ req, form = NO_TOKEN }: PageRequest<FormView<typeof replacementForm>>) => {
      const account = accountView(await resource.find(req));
      return { title: 'Replace API token', faults: form.faults, account, form };
    },
  );

  return {
    page: list.handler,
    newPage: newPage.handler,

    createByForm: formHandler({
      pages,
      schema: newForm,
      secrets: ['apiToken'],
      async work(req, wanted) {
        await create(req, wanted);
        return { url: resource.home, flash: { notice: CREATED } };
      },
      show: newPage.show,
    }),

    replacePage: replacement.handler,
    replaceByForm: formHandler({
      pages,
      schema: replacementForm,
      secrets: ['apiToken'],
      async work(req, entered) {
        const { name, version } = await resource.find(req);
        await change(req, { name, version, apiToken: entered.apiToken });
        return { url: resource.home, flash: { notice: REPLACED } };
      },
      show: replacement.show,
    }),

    askRemove: removal.ask,
    removeByForm: removal.byForm,

    list: resource.list,
    one: resource.one,
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
const REPLACED: Notice = { tone: 'success', text: 'The new API token is saved, and used from now on.' };
