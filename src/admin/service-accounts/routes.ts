/** Service accounts in the administration: their platform API tokens are entered here, and never shown again. */
import { z } from 'zod';
import { operation } from '../../http/operation.ts';
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

export function serviceAccountRoutes({ relay, connectedApps, audit, pages, publicUrl, clock }: AdminParts) {
  const { apps } = connectedApps;
  const { basePath } = publicUrl;
  const home = `${basePath}/admin/service-accounts`;

  const resource = createResource({
    name: 'a service account',
    kind: 'service_account',
    url: `${basePath}/admin/api/service-accounts`,
    records: relay.accounts,
    textsOf: ({ id, name, app }) => [id, name, app],
    schema: accountJson,
    toJson: accountView,
    trail: audit.trail,
  });
  const { create, change, remove } = serviceAccountChanges({
    resource,
    accounts: relay.accounts,
    apps,
    check: relay.checkApiToken,
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
        return { url: home, flash: { notice: CREATED } };
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
        return { url: home, flash: { notice: REPLACED } };
      },
      show: (req, res, form) => list.show(req, res, { replacement: { ...form, id: String(req.params.id) } }),
    }),

    removeByForm: pages.button(async (req) => {
      await remove(req);
      return { url: home, flash: { notice: REMOVED } };
    }),

    list: resource.list,
    one: resource.one,
    create: resource.create({
      summary: 'Keep a platform API token as a service account; the token is tried first, and never shown again',
      body: newAccount,
      work: create,
    }),
    replace: resource.change({
      summary: 'Rename a service account, or replace its API token',
      body: changedAccount,
      work: change,
    }),
    remove: operation({ summary: 'Delete a service account and its API token' }, ({ req }) => remove(req)),
  };
}

const CREATED: Notice = {
  tone: 'success',
  text: 'The platform accepted the API token. It is saved and never shown again.',
};
const REPLACED: Notice = { tone: 'success', text: 'The new API token is saved, and used from now on.' };
const REMOVED: Notice = { tone: 'success', text: 'The service account and its API token are deleted.' };
