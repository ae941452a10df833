/** Owns the pages of connected apps: the list, one app with its form, and the form for a new one. */
import type { Request, RequestHandler, Response } from 'express';
import { type ConnectedAppRegistration, callbackUrlOf, connectedAppSchema } from '../connected-apps/connected-app.ts';
import type { FactsRead, ProviderFacts } from '../connected-apps/provider-facts.ts';
import { AppError } from '../errors.ts';
import { formField, queryField } from '../http/body.ts';
import { checked } from '../http/operation.ts';
import type { Notice } from '../http/page-data.ts';
import type { Pages } from '../http/pages.ts';
import type { ConnectedAppChanges } from './connected-app-changes.ts';
import { type AppForm, formOf, readForm, registrationOf } from './connected-app-form.ts';
import { type AppAnswer, changedApp, newApp } from './connected-app-input.ts';
import type { ConnectedAppFacts } from './connected-apps-api.ts';
import { listQuery, matches, pageOf } from './listing.ts';
import { type ProviderRegistration, wantedApp } from './provider-registration.ts';
import { type SecretAge, secretAge } from './secret-age.ts';

declare module '../http/page-data.ts' {
  interface AdminPageData {
    'admin/connected-apps': {
      page: SignedInFrame;
      apps: readonly AppView[];
      unreadable: readonly string[];
      q: string;
      next: string | undefined;
      notice?: Notice | undefined;
    };
    'admin/register-app': { page: SignedInFrame } & FormView;
    'admin/connected-app': {
      page: SignedInFrame;
      app: AppView;
      connections: number;
      notice?: Notice | undefined;
    } & FormView;
  }
}

type AppView = AppAnswer & { secret: SecretAge };

interface FormView {
  form: AppForm;
  /** By the place of the field, such as `callbackUrls/0`; what belongs to no field stands under ''. */
  faults: Readonly<Record<string, readonly FieldFault[]>>;
  provider: ProviderFacts | undefined;
  callbackPattern: string;
  /** Posted with the form, so that nobody overwrites what somebody else has changed. */
  version: number | undefined;
}

interface FieldFault {
  rule: string;
  detail: string;
}

export interface ConnectedAppPages {
  list: RequestHandler;
  newForm: RequestHandler;
  register: RequestHandler;
  one: RequestHandler;
  change: RequestHandler;
}

const NOTICES: Readonly<Record<string, Notice>> = {
  registered_there: { tone: 'success', text: 'The app is registered at the provider and here. It works at once.' },
  registered: { tone: 'success', text: 'The app is registered. It works at once.' },
  saved: { tone: 'success', text: 'Saved. The change counts at once, everywhere.' },
  disabled: { tone: 'info', text: 'The app is disabled: nobody signs in or calls with it until you enable it again.' },
  enabled: { tone: 'success', text: 'The app is enabled again.' },
  deleted: { tone: 'success', text: 'The app is deleted.' },
};

export function connectedAppPages(parts: {
  facts: ConnectedAppFacts;
  changes: ConnectedAppChanges;
  registration: ProviderRegistration;
  readProvider: (at: { issuer: string; discoveryUrl: string | undefined }) => Promise<FactsRead>;
  pages: Pages;
  clock: () => number;
  publicHref: string;
  basePath: string;
}): ConnectedAppPages {
  const { facts, changes, registration, readProvider, pages, clock, publicHref, basePath } = parts;
  const ownCallback = (id: string) => callbackUrlOf(id, publicHref);
  const home = `${basePath}/admin/connected-apps`;

  const viewOf = (app: AppAnswer): AppView => {
    const { clientSecretSetAt: setAt, clientSecretExpiresAt: expiresAt } = app;
    return { ...app, secret: secretAge({ setAt, expiresAt }, clock()) };
  };

  const formView = (form: AppForm, more: Partial<FormView> = {}): FormView => ({
    form,
    faults: {},
    provider: undefined,
    callbackPattern: ownCallback(form.id === '' ? 'ID' : form.id),
    version: undefined,
    ...more,
  });

  const showNew = (req: Request, res: Response, view: FormView) =>
    pages.sendAdmin(res, 'admin/register-app', { page: pages.signedInFrame(req, 'Register an app'), ...view });

  const showOne = (req: Request, res: Response, app: AppAnswer, view: FormView) =>
    pages.sendAdmin(res, 'admin/connected-app', {
      page: pages.signedInFrame(req, app.name),
      app: viewOf(app),
      connections: app.connections ?? 0,
      notice: NOTICES[queryField(req, 'done') ?? ''],
      ...view,
    });

  /** The form again, with what the provider tells filled in where the administrator has not chosen otherwise. */
  const withProvider = async (form: AppForm): Promise<FormView> => {
    const { issuer, discoveryUrl } = form;
    const shape = connectedAppSchema.pick({ issuer: true, discoveryUrl: true });
    const asked = shape.safeParse({ issuer, ...(discoveryUrl === '' ? {} : { discoveryUrl }) });
    if (!asked.success) return formView(form, { faults: { issuer: [ISSUER_FIRST] } });
    const read = await readProvider({ issuer, discoveryUrl: asked.data.discoveryUrl });
    if (read.fault !== undefined)
      return formView(form, { faults: { issuer: [{ rule: 'discovery', detail: read.fault }] } });
    return formView({ ...form, tokenEndpointAuthMethod: methodFor(form, read.facts) }, { provider: read.facts });
  };

  /** The same page with its faults: what the provider offered stays on it. */
  const registerThere = (req: Request, res: Response, form: AppForm): Promise<void> => {
    const work = async () => {
      const { clientId: _, ...wanted } = registrationOf(form);
      const token = formField(req.body, 'initialAccessToken') ?? '';
      const given = checked(wantedApp, { ...wanted, ...(token === '' ? {} : { initialAccessToken: token }) });
      const { app } = await registration.register(req, given);
      res.redirect(303, `${home}/${app.id}?done=registered_there`);
    };
    return orFaults(work(), async (faults, status) => {
      const { provider } = await withProvider(form);
      showNew(req, res.status(status), formView(form, { provider, faults }));
    });
  };

  /** Shows the form with its faults where that is what is wrong; anything else is an error page. */
  const orFaults = async (
    work: Promise<void>,
    show: (faults: FormView['faults'], status: number) => Promise<void> | void,
  ) => {
    try {
      await work;
    } catch (error) {
      if (!(error instanceof AppError) || (error.faults === undefined && error.code !== 'version_conflict'))
        throw error;
      await show(faultsByField(error), error.status);
    }
  };

  const setDisabled = async (req: Request, app: AppAnswer, disabled: boolean) => {
    const { id: _, disabled: __, ...rest } = registrationIn(app);
    await changes.replace(req, app.id, { ...rest, ...(disabled ? { disabled } : {}), version: versionIn(req) });
  };

  return {
    async list(req, res) {
      const query = checked(listQuery, { after: queryField(req, 'after'), q: queryField(req, 'q') });
      const all = (await facts.list()).filter(({ id, name, issuer }) => matches(query.q, id, name, issuer));
      const { items, next } = pageOf(all, query);
      pages.sendAdmin(res, 'admin/connected-apps', {
        page: pages.signedInFrame(req, 'Connected apps'),
        apps: items.map(viewOf),
        unreadable: await facts.unreadable(),
        q: query.q ?? '',
        next,
        notice: NOTICES[queryField(req, 'done') ?? ''],
      });
    },

    newForm: (req, res) => showNew(req, res, formView(formOf())),

    async register(req, res) {
      const form = readForm(req.body, ownCallback);
      if (formField(req.body, 'do') === 'read_provider') return showNew(req, res, await withProvider(form));
      if (formField(req.body, 'do') === 'register_there') return registerThere(req, res, form);
      const save = async () => {
        const { app } = await changes.create(req, checked(newApp, { ...registrationOf(form), ...secretIn(req) }));
        res.redirect(303, `${home}/${app.id}?done=registered`);
      };
      return orFaults(save(), (faults, status) => showNew(req, res.status(status), formView(form, { faults })));
    },

    async one(req, res) {
      const app = await facts.one(String(req.params.id));
      showOne(req, res, app, formView(formOf(app), { version: app.version ?? undefined }));
    },

    async change(req, res) {
      const id = String(req.params.id);
      const wanted = formField(req.body, 'do');
      if (wanted === 'delete_unreadable') {
        await changes.remove(req, id, undefined);
        return res.redirect(303, `${home}?done=deleted`);
      }
      const app = await facts.one(id);
      const form = { ...readForm(req.body, ownCallback), id: app.id };
      const version = versionIn(req);
      const done = (word: string, at = `/${app.id}`) => res.redirect(303, `${home}${at}?done=${word}`);
      if (wanted === 'read_provider') return showOne(req, res, app, { ...(await withProvider(form)), version });
      const work = async () => {
        if (wanted === 'delete') return changes.remove(req, app.id, version).then(() => done('deleted', ''));
        if (wanted === 'disable' || wanted === 'enable')
          return setDisabled(req, app, wanted === 'disable').then(() => done(`${wanted}d`));
        const given = { ...registrationOf(form, registrationIn(app)), ...secretIn(req), version };
        await changes.replace(req, app.id, checked(changedApp, given));
        return done('saved');
      };
      const shown = wanted === 'save' ? form : formOf(app);
      return orFaults(work(), (faults, status) =>
        showOne(req, res.status(status), app, formView(shown, { faults, version: app.version ?? undefined })),
      );
    },
  };
}

const ISSUER_FIRST: FieldFault = {
  rule: 'invalid',
  detail: 'Give the issuer first: the whole address, beginning with https://.',
};

/** What a registration is made of, without what is only told of it. */
function registrationIn(app: AppAnswer): ConnectedAppRegistration {
  const names = Object.keys(connectedAppSchema.shape);
  return Object.fromEntries(Object.entries(app).filter(([name]) => names.includes(name))) as ConnectedAppRegistration;
}

/** A secret is taken as it is: spaces may belong to it. */
function secretIn(req: Request): { clientSecret?: string } {
  const clientSecret = formField(req.body, 'clientSecret') ?? '';
  return clientSecret === '' ? {} : { clientSecret };
}

function versionIn(req: Request): number {
  const version = formField(req.body, 'version') ?? '';
  return /^\d{1,15}$/.test(version) ? Number(version) : -1;
}

function methodFor({ tokenEndpointAuthMethod: chosen }: AppForm, { authMethods }: ProviderFacts): string {
  if (authMethods.length === 0 || authMethods.includes(chosen)) return chosen;
  return ['client_secret_basic', 'client_secret_post'].find((method) => authMethods.includes(method)) ?? chosen;
}

function faultsByField({ faults = [], detail, code }: AppError): FormView['faults'] {
  const byField: Record<string, FieldFault[]> = {};
  for (const { pointer, rule, detail: words } of faults) {
    const place = pointer.replace(/^#\/?/, '');
    byField[place] = [...(byField[place] ?? []), { rule, detail: words }];
  }
  return code === 'version_conflict' ? { '': [{ rule: code, detail: `${detail ?? ''} ${CONFLICT}`.trim() }] } : byField;
}

const CONFLICT = 'What you typed stands below and is not saved: saving it now replaces what the other one did.';
