/** The pages of connected apps: the list, one app with its form, and the form for a new one. */
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { ADVICE, inputFaults } from '../../config/input-faults.ts';
import {
  type ConnectedAppRegistration,
  callbackUrlOf,
  connectedAppSchema,
  isUsable,
} from '../../connected-apps/connected-app.ts';
import type { ProviderFacts, ReadProviderFacts } from '../../connected-apps/provider-facts.ts';
import { formField, queryField } from '../../http/body.ts';
import { checked } from '../../http/operation.ts';
import { type FormView, fieldFaults, formHandler, recordVersion, typedIn } from '../../pages/form.ts';
import type { FieldFault, Notice } from '../../pages/page-data.ts';
import type { Pages } from '../../pages/pages.ts';
import { listQuery, matches, pageOf } from '../listing.ts';
import { type SecretAge, secretAge } from '../secret-age.ts';
import type { ConnectedAppFacts } from './api.ts';
import type { ConnectedAppChanges, RemovedApp } from './changes.ts';
import { APP_FIELDS, APP_SECRETS, changedAppForm, newAppForm, registrationOf, valuesOfApp } from './form.ts';
import { type ProviderRegistration, wantedApp } from './provider-registration.ts';
import { type AppAnswer, changedApp, newApp } from './view.ts';
import { withdrawalWords } from './withdrawal.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/connected-apps': {
      page: SignedInFrame;
      apps: readonly AppView[];
      unreadable: readonly string[];
      q: string;
      next: string | undefined;
      notice?: Notice | undefined;
    };
    'admin/register-app': {
      page: SignedInFrame;
      form: FormView<typeof newAppForm>;
      provider: ProviderFacts | undefined;
      callbackPattern: string;
    };
    'admin/connected-app': {
      page: SignedInFrame;
      app: AppView;
      connections: number;
      form: FormView<typeof changedAppForm>;
      provider: ProviderFacts | undefined;
      callbackPattern: string;
      notice?: Notice | undefined;
    };
  }
}

type AppView = AppAnswer & { secret: SecretAge };

export interface ConnectedAppPages {
  list: RequestHandler;
  newForm: RequestHandler;
  register: RequestHandler;
  one: RequestHandler;
  change: RequestHandler;
}

type NewForm = FormView<typeof newAppForm>;
type ChangedForm = FormView<typeof changedAppForm>;

export function connectedAppPages(parts: {
  facts: ConnectedAppFacts;
  changes: ConnectedAppChanges;
  registration: ProviderRegistration;
  readProvider: ReadProviderFacts;
  pages: Pages;
  clock: () => number;
  publicHref: string;
  basePath: string;
}): ConnectedAppPages {
  const { facts, changes, registration, readProvider, pages, clock, publicHref, basePath } = parts;
  const ownCallback = (id: string) => callbackUrlOf(id, publicHref);
  const home = `${basePath}/admin/connected-apps`;
  const idOf = (req: Request) => String(req.params.id);

  const viewOf = (app: AppAnswer): AppView => {
    const { clientSecretSetAt: setAt, clientSecretExpiresAt: expiresAt } = app;
    return { ...app, secret: secretAge({ setAt, expiresAt }, clock()) };
  };

  const readAt = async ({ id, issuer, discoveryUrl }: Address): Promise<ProviderRead> => {
    const address = { issuer, discoveryUrl: discoveryUrl || undefined, id: id || undefined };
    const parsed = addressSchema.safeParse(address, ADVICE);
    if (!parsed.success) return { faults: fieldFaults({ schema: newAppForm }, inputFaults(parsed.error)) };
    const { facts: provider, fault } = await readProvider({ issuer, discoveryUrl: parsed.data.discoveryUrl });
    return provider ? { provider, faults: [] } : { faults: [{ field: 'issuer', text: fault }] };
  };

  /** What the page showed of the provider stays on it. */
  const shownOf = async ({ values }: NewForm | ChangedForm): Promise<ProviderFacts | undefined> =>
    values.isRead === 'yes' ? (await readAt(values)).provider : undefined;

  const showNew = async (req: Request, res: Response, form: NewForm) =>
    pages.send(res, 'admin/register-app', {
      page: pages.signedInFrame(req, 'Register an app', form.faults),
      form,
      provider: await shownOf(form),
      callbackPattern: ownCallback(form.values.id === '' ? 'ID' : form.values.id),
    });

  const showOne = async (req: Request, res: Response, changed: Partial<ChangedForm> = {}) => {
    const app = await facts.one(idOf(req));
    const form = { values: { ...valuesOfApp(app), version: '' }, faults: [], ...changed };
    const { notice } = await pages.flashOf(req);
    pages.send(res, 'admin/connected-app', {
      page: pages.signedInFrame(req, app.name, form.faults),
      app: viewOf(app),
      connections: app.connections ?? 0,
      form,
      provider: await shownOf(form),
      callbackPattern: app.callbackUrl,
      notice,
    });
  };

  /** The form again, with what the provider says where the administrator has not chosen otherwise. */
  const withProvider = async <F extends NewForm | ChangedForm>(typed: Omit<F, 'faults'>) => {
    const { provider, faults } = await readAt(typed.values);
    const { tokenEndpointAuthMethod: method } = typed.values;
    const read = provider && { isRead: 'yes', tokenEndpointAuthMethod: methodFor(method, provider) };
    return { ...typed, values: { ...typed.values, ...read }, faults };
  };

  /** That of this Gatehouse follows the id of a new app, and stands in for a list that was left empty. */
  const callbackUrls = (id: string, typed: readonly string[]): readonly string[] => {
    const own = ownCallback(isId(id) ? id : 'id');
    return typed.length === 0 ? [own] : typed.map((url) => (url.startsWith(ownCallback('')) ? own : url));
  };

  const register = formHandler({
    ...NEW_FORM,
    pages,
    async work(req, { id, initialAccessToken: token, ...form }) {
      const { clientId, clientSecret, ...wanted } = registrationOf(form, callbackUrls(id, form.callbackUrl));
      const isThere = formField(req.body, 'do') === 'register_there';
      const { app } = isThere
        ? await registration.register(
            req,
            checked(wantedApp, { ...wanted, id, initialAccessToken: token || undefined }),
          )
        : await changes.create(req, checked(newApp, { ...wanted, id, clientId, clientSecret }));
      const notice = isThere ? NOTICES.registered_there : NOTICES.registered;
      return done(`/${app.id}`, isUsable(app, publicHref) ? notice : NOTICES.registered_unusable);
    },
    show: showNew,
  });

  const save = formHandler({
    ...CHANGED_FORM,
    pages,
    async work(req, { version, ...form }) {
      const { id, disabled, callbackUrl } = await facts.one(idOf(req));
      const typed = registrationOf(form, form.callbackUrl.length > 0 ? form.callbackUrl : [callbackUrl]);
      await changes.replace(req, id, checked(changedApp, { ...typed, disabled, version }));
      return done(`/${id}`, NOTICES.saved);
    },
    show: showOne,
  });

  /** The buttons beside the form. */
  const act = formHandler({
    pages,
    schema: z.object({ do: z.enum(['delete', 'disable', 'enable', 'add_callback']), version: recordVersion }),
    async work(req, { do: wanted, version }) {
      const app = await facts.one(idOf(req));
      if (wanted === 'delete') return done('', noticeOf(await changes.remove(req, app.id, version)));
      const { id: _, ...kept } = registrationIn(app);
      const changed =
        wanted === 'add_callback'
          ? { callbackUrls: [...app.callbackUrls, app.callbackUrl] }
          : { disabled: wanted === 'disable' || undefined };
      await changes.replace(req, app.id, { ...kept, ...changed, version });
      return done(`/${app.id}`, NOTICES[wanted]);
    },
    show: (req, res, { faults }) => showOne(req, res, { faults }),
  });

  const done = (path: string, notice: Notice) => ({ url: home + path, flash: { notice } });

  return {
    async list(req, res) {
      const query = checked(listQuery, { after: queryField(req, 'after'), q: queryField(req, 'q') });
      const all = (await facts.list()).filter(({ id, name, issuer }) => matches(query.q, id, name, issuer));
      const { items, next } = pageOf(all, query);
      pages.send(res, 'admin/connected-apps', {
        page: pages.signedInFrame(req, 'Connected apps'),
        apps: items.map(viewOf),
        unreadable: await facts.unreadable(),
        q: query.q ?? '',
        next,
        notice: (await pages.flashOf(req)).notice,
      });
    },

    newForm: (req, res) => showNew(req, res, { values: valuesOfApp(), faults: [] }),

    async register(req, res, next) {
      if (formField(req.body, 'do') !== 'read_provider') return register(req, res, next);
      const form = await withProvider<NewForm>(typedIn(NEW_FORM, req.body));
      const { id, callbackUrl } = form.values;
      const filled = isId(id) ? { callbackUrl: callbackUrls(id, callbackUrl) } : {};
      return showNew(req, res.status(statusOf(form)), { ...form, values: { ...form.values, ...filled } });
    },

    one: (req, res) => showOne(req, res),

    async change(req, res, next) {
      const wanted = formField(req.body, 'do');
      if (wanted === 'save') return save(req, res, next);
      if (wanted === 'read_provider') {
        const form = await withProvider<ChangedForm>(typedIn(CHANGED_FORM, req.body));
        return showOne(req, res.status(statusOf(form)), form);
      }
      if (wanted !== 'delete_unreadable') return act(req, res, next);
      await changes.remove(req, idOf(req), undefined);
      return pages.redirect(req, res, home, { notice: NOTICES.deleted });
    },
  };
}

const NEW_FORM = { schema: newAppForm, secrets: APP_SECRETS, fieldOf: APP_FIELDS };
const CHANGED_FORM = { schema: changedAppForm, secrets: ['clientSecret'] as const, fieldOf: APP_FIELDS };

const addressSchema = connectedAppSchema.pick({ id: true, issuer: true, discoveryUrl: true }).partial({ id: true });

interface Address {
  id?: string;
  issuer: string;
  discoveryUrl: string;
}

interface ProviderRead {
  provider?: ProviderFacts;
  faults: readonly FieldFault[];
}

const isId = (id: string) => connectedAppSchema.shape.id.safeParse(id).success;
const statusOf = ({ faults }: { faults: readonly FieldFault[] }) => (faults.length > 0 ? 400 : 200);

const NOTICES = {
  registered_there: {
    tone: 'success',
    text: 'The app is registered at the provider and here. Check it now to see whether it works.',
  },
  registered: { tone: 'success', text: 'The app is registered. Check it now to see whether the provider accepts it.' },
  registered_unusable: {
    tone: 'info',
    text: 'The app is registered, but it cannot be used yet: see below what to do.',
  },
  add_callback: {
    tone: 'success',
    text: 'The callback URL is added here. Make sure that the provider knows it too.',
  },
  saved: { tone: 'success', text: 'Saved. The change counts at once, everywhere.' },
  disable: { tone: 'info', text: 'The app is disabled: nobody signs in or calls with it until you enable it again.' },
  enable: { tone: 'success', text: 'The app is enabled again.' },
  deleted: { tone: 'success', text: 'The app is deleted.' },
} as const satisfies Record<string, Notice>;

/** What a registration is made of, without what is only told of it. */
function registrationIn(app: AppAnswer): ConnectedAppRegistration {
  const names = Object.keys(connectedAppSchema.shape);
  return Object.fromEntries(Object.entries(app).filter(([name]) => names.includes(name))) as ConnectedAppRegistration;
}

function noticeOf({ withdrawal, clientId }: RemovedApp): Notice {
  if (!withdrawal) return NOTICES.deleted;
  const tone = withdrawal.outcome === 'deleted' ? 'success' : 'info';
  return { tone, text: `The app is deleted here. ${withdrawalWords(withdrawal, clientId)}` };
}

function methodFor(chosen: string, { authMethods }: ProviderFacts): string {
  if (authMethods.length === 0 || authMethods.includes(chosen)) return chosen;
  return ['client_secret_basic', 'client_secret_post'].find((method) => authMethods.includes(method)) ?? chosen;
}
