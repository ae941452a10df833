/** Service accounts in the administration: a platform API token is entered, tried on the platform, sealed, and never shown again. */
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import type { AuditTrail } from '../../audit/trail.ts';
import type { InputFault } from '../../config/input-faults.ts';
import type { AppStore, ThreadApp } from '../../connected-apps/app-store.ts';
import { AppError } from '../../errors.ts';
import { queryField } from '../../http/body.ts';
import { type DescribedHandler, operation } from '../../http/operation.ts';
import { type FormView, faultsOfRow, formHandler } from '../../pages/form.ts';
import type { Notice } from '../../pages/page-data.ts';
import type { Pages } from '../../pages/pages.ts';
import {
  newServiceAccountId,
  type ServiceAccount,
  type ServiceAccounts,
  type TokenCheck,
} from '../../relay/service-account.ts';
import { isoTime } from '../../time.ts';
import { audited } from '../change.ts';
import { listOf, listQuery, matches, pageOptions } from '../listing.ts';
import { givenName } from '../name.ts';
import { type SecretAge, secretAge } from '../secret-age.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/service-accounts': {
      page: SignedInFrame;
      accounts: readonly (ServiceAccountView & { secret: SecretAge })[];
      next: string | undefined;
      q: string | undefined;
      apps: readonly { id: string; name: string }[];
      form: FormView<typeof accountForm>;
      /** Of the account whose API token is being replaced. */
      replacement: (FormView<typeof replaceForm> & { id: string }) | undefined;
      notice?: Notice | undefined;
    };
  }
}

export interface ServiceAccountRoutes {
  page: RequestHandler;
  make: RequestHandler;
  replaceByForm: RequestHandler;
  removeByForm: RequestHandler;
  list: DescribedHandler;
  one: DescribedHandler;
  create: DescribedHandler;
  replace: DescribedHandler;
  remove: DescribedHandler;
}

const accountAnswer = z.object({
  id: z.string(),
  version: z.int(),
  name: z.string(),
  app: z.string(),
  createdAt: z.iso.datetime(),
  tokenSetAt: z.iso.datetime().describe('when its API token was entered'),
});

type ServiceAccountView = z.output<typeof accountAnswer>;

const apiToken = z.string().regex(/^[!-~]{8,4096}$/, 'Give the API token as the platform showed it, without blanks.');
const wantedAccount = z.strictObject({ name: givenName, app: z.string().max(40), apiToken });
const changedAccount = z.strictObject({
  name: givenName,
  app: z.string().max(40).optional().describe('as it is: another app needs another service account'),
  apiToken: apiToken.optional().describe('left out: kept'),
  version: z.int(),
});

const accountForm = z.object({
  name: givenName,
  app: z.string().max(40),
  apiToken: apiToken.trim(),
});
const replaceForm = accountForm.pick({ apiToken: true });

export function serviceAccountRoutes(parts: {
  accounts: ServiceAccounts;
  apps: AppStore;
  /** Tries a token on the app's platform. */
  check: (app: ThreadApp, apiToken: string) => Promise<TokenCheck>;
  trail: AuditTrail;
  pages: Pages;
  clock: () => number;
  basePath: string;
}): ServiceAccountRoutes {
  const { accounts, apps, check, trail, pages, clock, basePath } = parts;

  const listed = async (query: z.output<typeof listQuery>) => {
    const isMeant = (one: ServiceAccount) => matches(query.q, one.id, one.name, one.app);
    const { items, ...rest } = await accounts.page({ ...pageOptions(query), isMeant });
    return { items: items.map(told), ...rest };
  };

  const found = async (id: string): Promise<ServiceAccount> => {
    const account = await accounts.find(id);
    if (account) return account;
    throw new AppError('not_found', { detail: 'There is no service account with this id.' });
  };

  const appOf = (id: string): ThreadApp => {
    const app = apps.threadApps().find((one) => one.id === id);
    if (app) return app;
    throw faulty({
      pointer: '#/app',
      rule: 'unknown_app',
      detail: 'There is no connected app with this id that serves threads.',
    });
  };

  const tried = async (app: ThreadApp, token: string) => {
    const outcome = await check(app, token);
    if (outcome === 'accepted') return;
    throw faulty({ pointer: '#/apiToken', rule: outcome, detail: CHECK_WORDS[outcome] });
  };

  const create = async (req: Request, wanted: z.output<typeof wantedAccount>) => {
    const app = appOf(wanted.app);
    await tried(app, wanted.apiToken);
    const id = newServiceAccountId();
    const entry = { event: 'service_account.created' as const, target: targetOf({ id, name: wanted.name }) };
    return audited(trail, req, { ...entry, facts: { app: wanted.app } }, () =>
      accounts.create({ ...wanted, id, platform: platformOf(app) }),
    );
  };

  const change = async (req: Request, wanted: z.output<typeof changedAccount>) => {
    const account = await found(String(req.params.id));
    if (wanted.app !== undefined && wanted.app !== account.app) {
      throw faulty({ pointer: '#/app', rule: 'fixed', detail: 'Make another service account for another app.' });
    }
    const { name: called, apiToken: given, version } = wanted;
    const entered = given === undefined ? undefined : { apiToken: given, platform: platformOf(appOf(account.app)) };
    if (entered) await tried(appOf(account.app), entered.apiToken);
    const facts = { name: called, tokenReplaced: entered !== undefined };
    const entry = { event: 'service_account.changed' as const, target: targetOf(account), facts };
    const changed = await audited(trail, req, entry, () =>
      accounts.change(account.id, version, { name: called, entered }),
    );
    if (!changed) throw new AppError('not_found', { detail: 'There is no service account with this id.' });
    return changed;
  };

  const remove = async (req: Request) => {
    const account = await found(String(req.params.id));
    const entry = { event: 'service_account.deleted' as const, target: targetOf(account) };
    await audited(trail, req, entry, () => accounts.remove(account.id));
  };

  const show = async (
    req: Request,
    res: Response,
    form: FormView<typeof accountForm>,
    replacement?: FormView<typeof replaceForm> & { id: string },
  ) => {
    const q = queryField(req, 'q');
    const [{ items, next }, { notice }] = await Promise.all([
      listed({ after: queryField(req, 'after'), limit: 50, q }),
      pages.flashOf(req),
    ]);
    pages.send(res, 'admin/service-accounts', {
      page: pages.signedInFrame(
        req,
        'Service accounts',
        replacement ? faultsOfRow(replacement.faults, replacement.id) : form.faults,
      ),
      accounts: items.map((one) => ({ ...one, secret: secretAge({ setAt: one.tokenSetAt }, clock()) })),
      apps: apps.threadApps().map((app) => ({ id: app.id, name: app.name })),
      ...{ next, q, form, replacement, notice },
    });
  };

  const here = `${basePath}/admin/service-accounts`;

  return {
    page: (req, res) => show(req, res, NO_FORM),
    make: formHandler({
      pages,
      schema: accountForm,
      secrets: ['apiToken'],
      async work(req, wanted) {
        await create(req, wanted);
        return { url: here, flash: { notice: MADE } };
      },
      show,
    }),
    replaceByForm: formHandler({
      pages,
      schema: replaceForm,
      secrets: ['apiToken'],
      async work(req, { apiToken: given }) {
        const { name: called, version } = await found(String(req.params.id));
        await change(req, { name: called, apiToken: given, version });
        return { url: here, flash: { notice: REPLACED } };
      },
      show: (req, res, form) => show(req, res, NO_FORM, { ...form, id: String(req.params.id) }),
    }),
    async removeByForm(req, res) {
      await remove(req);
      await pages.redirect(req, res, here, { notice: REMOVED });
    },

    list: operation(
      { summary: 'List service accounts, the newest first', query: listQuery, answer: listOf(accountAnswer) },
      ({ query }) => listed(query),
    ),
    one: operation({ summary: 'Read a service account', answer: accountAnswer }, async ({ req }) =>
      told(await found(String(req.params.id))),
    ),
    create: operation(
      {
        summary: 'Keep a platform API token as a service account; the token is tried first, and never shown again',
        body: wantedAccount,
        answer: accountAnswer,
        status: 201,
      },
      async ({ req, res, body }) => {
        const account = await create(req, body);
        res.set('Location', `${basePath}/admin/api/service-accounts/${account.id}`);
        return told(account);
      },
    ),
    replace: operation(
      { summary: 'Rename a service account, or replace its API token', body: changedAccount, answer: accountAnswer },
      async ({ req, body }) => told(await change(req, body)),
    ),
    remove: operation({ summary: 'Delete a service account and its API token' }, ({ req }) => remove(req)),
  };
}

const CHECK_WORDS: Record<Exclude<TokenCheck, 'accepted'>, string> = {
  refused: 'The platform does not take this API token. Copy it again, or make a new one there.',
  unreachable:
    'The platform could not be asked about this API token. Try again, and check the API base URL of the app.',
};

const NO_FORM: FormView<typeof accountForm> = { values: { name: '', app: '', apiToken: '' }, faults: [] };
const MADE: Notice = {
  tone: 'success',
  text: 'The platform accepted the API token. It is saved and never shown again.',
};
const REPLACED: Notice = { tone: 'success', text: 'The new API token is saved, and used from now on.' };
const REMOVED: Notice = { tone: 'success', text: 'The service account and its API token are deleted.' };

function faulty(fault: InputFault): AppError {
  return new AppError('invalid_request', { detail: fault.detail, faults: [fault] });
}

const platformOf = ({ apiBaseUrl }: ThreadApp) => new URL(apiBaseUrl).origin;

function targetOf({ id, name: called }: Pick<ServiceAccount, 'id' | 'name'>) {
  return { kind: 'service_account', id, name: called };
}

function told({ id, version, name: called, app, createdAt, tokenSetAt }: ServiceAccount): ServiceAccountView {
  return { id, version, name: called, app, createdAt: isoTime(createdAt), tokenSetAt: isoTime(tokenSetAt) };
}
