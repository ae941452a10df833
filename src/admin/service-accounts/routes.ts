/** Service accounts in the administration: their platform API tokens are entered here, and never shown again. */
import { z } from 'zod';
import { type FormView, faultsOfRow, formHandler } from '../../pages/form.ts';
import type { Notice } from '../../pages/page-data.ts';
import type { AdminParts } from '../admin.ts';
import type { AdminListData, PageRequest } from '../page.ts';
import { createResource } from '../resource.ts';
import { type SecretAge, secretAge } from '../secret-age.ts';
import { serviceAccountChanges } from './changes.ts';
import { type AccountView, accountJson, accountView, apiToken, changedAccount, newAccount } from './view.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/service-accounts': AdminListData & {
      accounts: readonly (AccountView & { secret: SecretAge })[];
      apps: readonly { id: string; name: string }[];
      form: FormView<typeof newForm>;
      replacement: Replacement | undefined;
    };
  }
}

const newForm = z.object({ ...newAccount.shape, apiToken: apiToken.trim() });
const replacementForm = newForm.pick({ apiToken: true });

/** The form that replaces the API token of the account `id`. */
type Replacement = FormView<typeof replacementForm> & { id: string };

const EMPTY_FORM: FormView<typeof newForm> = { values: { name: '', app: '', apiToken: '' }, faults: [] };

export function serviceAccountRoutes(parts: AdminParts) {
  const { relay, pages, clock } = parts;
  const { apps } = parts.connectedApps;

  const resource = createResource(parts, {
    name: 'service account',
    records: relay.accounts,
    nameOf: ({ name }) => name,
    textsOf: ({ id, name, app }) => [id, name, app],
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
    notice: 'The service account and its API token are deleted.',
    work: relay.accounts.remove,
  });

  const list = pages.page(
    'admin/service-accounts',
    async ({ req, form: forms = {} }: PageRequest<{ form?: FormView<typeof newForm>; replacement?: Replacement }>) => {
      const { form = EMPTY_FORM, replacement } = forms;
      const { items, next, q } = await resource.listedFor(req);
      return {
        title: 'Service accounts',
        faults: replacement ? faultsOfRow(replacement.faults, replacement.id) : form.faults,
        accounts: items.map((one) => ({ ...one, secret: secretAge({ setAt: one.tokenSetAt }, clock()) })),
        apps: apps.threadApps().map(({ id, name }) => ({ id, name })),
        next,
        q,
        form,
        replacement,
      };
    },
  );

  return {
    page: list.handler,

    createByForm: formHandler({
      pages,
      schema: newForm,
      secrets: ['apiToken'],
      async work(req, wanted) {
        await create(req, wanted);
        return { url: resource.home, flash: { notice: CREATED } };
      },
      show: (req, res, form) => list.show(req, res, { form }),
    }),

    replaceByForm: formHandler({
      pages,
      schema: replacementForm,
      secrets: ['apiToken'],
      async work(req, entered) {
        const { name, version } = await resource.find(req);
        await change(req, { name, version, apiToken: entered.apiToken });
        return { url: resource.home, flash: { notice: REPLACED } };
      },
      show: (req, res, form) => list.show(req, res, { replacement: { ...form, id: String(req.params.id) } }),
    }),

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
