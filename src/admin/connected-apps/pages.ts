/** The pages of connected apps: the list, one app with its form, and the form for a new one. */
import type { NextFunction, Request, Response } from 'express';
import { z } from 'zod';
import { nearMiss } from '../../connected-apps/callback-url.ts';
import {
  type ConnectedAppRegistration,
  callbackUrlOf,
  connectedAppSchema,
  isUsable,
} from '../../connected-apps/connected-app.ts';
import { PRESETS, type Preset, presetApp } from '../../connected-apps/presets.ts';
import type { ProviderFacts, ReadProviderFacts } from '../../connected-apps/provider-facts.ts';
import { formField, queryField } from '../../http/body.ts';
import { checked } from '../../http/operation.ts';
import { formHandler, recordVersion, typedIn } from '../../pages/form.ts';
import type { FieldFault, Notice } from '../../pages/page-data.ts';
import { listQuery } from '../listing.ts';
import type { AdminListData, AdminPageData, AdminPages, PageRequest } from '../page.ts';
import { type SecretAge, secretAge } from '../secret-age.ts';
import type { ConnectedAppChanges } from './changes.ts';
import { DRAWN_FIELDS, type DrawnField } from './drawn-fields.ts';
import type { ConnectedAppFacts } from './facts.ts';
import { APP_FIELDS, APP_SECRETS, changedAppForm, newAppForm, registrationOf, valuesOfApp } from './form.ts';
import { NOTICES, noticeOf, withLacking } from './notices.ts';
import { type ChangedForm, createProviderReading, type NewForm } from './provider-reading.ts';
import { type RegisterAtProvider, wantedApp } from './provider-registration.ts';
import { type AppView, changedApp, newApp } from './view.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/connected-apps': AdminListData & { apps: readonly AppRow[]; unreadable: readonly string[] };
    'admin/register-app': AdminPageData & {
      form: NewForm;
      drawn: readonly DrawnField[];
      provider: ProviderFacts | undefined;
      callbackPattern: string;
      /** Of known providers, to start from; `preset`: the chosen one. */
      presets: readonly Pick<Preset, 'id' | 'name'>[];
      preset: Preset | undefined;
    };
    'admin/connected-app': AdminPageData & {
      app: AppRow;
      connections: number;
      form: ChangedForm;
      drawn: readonly DrawnField[];
      provider: ProviderFacts | undefined;
      callbackPattern: string;
    };
  }
}

type AppRow = AppView & { secret: SecretAge };

export function connectedAppPages(parts: {
  facts: ConnectedAppFacts;
  changes: ConnectedAppChanges;
  registerAtProvider: RegisterAtProvider;
  readProvider: ReadProviderFacts;
  pages: AdminPages;
  clock: () => number;
  publicHref: string;
  basePath: string;
}) {
  const { facts, changes, registerAtProvider, readProvider, pages, clock, publicHref, basePath } = parts;
  const provider = createProviderReading({ readProvider });
  const ownCallbackUrl = (id: string) => callbackUrlOf(id, publicHref);
  const home = `${basePath}/admin/connected-apps`;
  const idOf = (req: Request) => String(req.params.id);

  const rowOf = (app: AppView): AppRow => {
    const { clientSecretSetAt: setAt, clientSecretExpiresAt: expiresAt } = app;
    return { ...app, secret: secretAge({ setAt, expiresAt }, clock()) };
  };

  const list = pages.page('admin/connected-apps', async ({ req }) => {
    const query = checked(listQuery, { after: queryField(req, 'after'), q: queryField(req, 'q') });
    const { items, next } = await facts.page(query);
    const unreadable = await facts.unreadable();
    return { title: 'Connected apps', apps: items.map(rowOf), unreadable, q: query.q ?? '', next };
  });

  const empty = pages.page('admin/register-app', async ({ req, form: typed }: PageRequest<NewForm>) => {
    const preset = PRESETS.find(({ id }) => id === queryField(req, 'preset'));
    const form = typed ?? newForm(preset);
    return {
      title: 'Register an app',
      faults: form.faults,
      form,
      drawn: DRAWN_FIELDS,
      provider: await provider.shown(form),
      callbackPattern: ownCallbackUrl(form.values.id === '' ? 'ID' : form.values.id),
      presets: PRESETS,
      preset,
    };
  });

  const one = pages.page('admin/connected-app', async ({ req, form: typed }: PageRequest<Partial<ChangedForm>>) => {
    const app = await facts.one(idOf(req));
    const form = { values: { ...valuesOfApp(app), version: '' }, faults: [], ...typed };
    return {
      title: app.name,
      faults: form.faults,
      app: rowOf(app),
      connections: app.connections ?? 0,
      form,
      drawn: DRAWN_FIELDS,
      provider: await provider.shown(form),
      callbackPattern: app.callbackUrl,
    };
  });

  /** The callback URL of this Gatehouse follows the id of a new app; an empty list gets it too. */
  const withOwnCallbackUrl = (id: string, typedUrls: readonly string[]): readonly string[] => {
    const own = ownCallbackUrl(isId(id) ? id : 'id');
    return typedUrls.length === 0 ? [own] : typedUrls.map((url) => (url.startsWith(ownCallbackUrl('')) ? own : url));
  };

  const create = formHandler({
    ...NEW_FORM,
    pages,
    async work(req, { id, initialAccessToken: token, ...form }) {
      const { clientId, clientSecret, ...wanted } = registrationOf(form, withOwnCallbackUrl(id, form.callbackUrl));
      const isThere = formField(req.body, 'do') === 'register_there';
      const { app } = isThere
        ? await registerAtProvider(req, checked(wantedApp, { ...wanted, id, initialAccessToken: token || undefined }))
        : await changes.create(req, checked(newApp, { ...wanted, id, clientId, clientSecret }));
      const notice = isThere ? NOTICES.registered_there : NOTICES.registered;
      return done(`/${app.id}`, isUsable(app, publicHref) ? notice : NOTICES.registered_unusable);
    },
    show: empty.show,
  });

  const save = formHandler({
    ...CHANGED_FORM,
    pages,
    async work(req, { version, ...form }) {
      const { id, disabled, callbackUrl: ownUrl, ...earlier } = await facts.one(idOf(req));
      const typedUrls = form.callbackUrl;
      const typed = registrationOf(form, typedUrls.length > 0 ? typedUrls : [ownUrl]);
      const changed = checked(changedApp, { ...typed, disabled, version });
      await changes.replace(req, id, changed);
      const addsUrl = changed.callbackUrls.some((url) => !earlier.callbackUrls.includes(url));
      const addsScopes = changed.scopes.some((scope) => !earlier.scopes.includes(scope));
      const notice = addsUrl ? NOTICES.saved_callback : NOTICES.saved;
      return done(`/${id}`, addsScopes ? withLacking(notice, earlier.connections ?? 0) : notice);
    },
    show: one.show,
  });

  /** The buttons beside the form. */
  const act = formHandler({
    pages,
    schema: z.object({ do: z.enum(['delete', 'disable', 'enable', 'add_callback']), version: recordVersion }),
    async work(req, { do: wanted, version }) {
      const app = await facts.one(idOf(req));
      if (wanted === 'delete') return done('', noticeOf(await changes.remove(req, app.id, version)));
      const { id: _, ...registration } = registrationIn(app);
      const near = nearMiss(app.callbackUrls, app.callbackUrl, publicHref);
      const changed =
        wanted === 'add_callback'
          ? { callbackUrls: [...app.callbackUrls.filter((url) => url !== near), app.callbackUrl] }
          : { disabled: wanted === 'disable' || undefined };
      await changes.replace(req, app.id, { ...registration, ...changed, version });
      return done(`/${app.id}`, NOTICES[wanted]);
    },
    show: (req, res, { faults }) => one.show(req, res, { faults }),
  });

  const removeUnreadable = pages.button(async (req) => {
    await changes.remove(req, idOf(req), undefined);
    return done('', NOTICES.deleted);
  });

  const done = (path: string, notice: Notice) => ({ url: home + path, flash: { notice } });

  return {
    list: list.handler,
    newForm: empty.handler,
    one: one.handler,

    async register(req: Request, res: Response, next: NextFunction) {
      if (formField(req.body, 'do') !== 'read_provider') return create(req, res, next);
      const form = await provider.fill<NewForm>(typedIn(NEW_FORM, req.body));
      const { id, callbackUrl: typedUrls } = form.values;
      const filled = isId(id) ? { callbackUrl: withOwnCallbackUrl(id, typedUrls) } : {};
      return empty.show(req, res.status(statusOf(form)), { ...form, values: { ...form.values, ...filled } });
    },

    async change(req: Request, res: Response, next: NextFunction) {
      const wanted = formField(req.body, 'do');
      if (wanted === 'save') return save(req, res, next);
      if (wanted === 'delete_unreadable') return removeUnreadable(req, res, next);
      if (wanted !== 'read_provider') return act(req, res, next);
      const form = await provider.fill<ChangedForm>(typedIn(CHANGED_FORM, req.body));
      return one.show(req, res.status(statusOf(form)), form);
    },
  };
}

const NEW_FORM = { schema: newAppForm, secrets: APP_SECRETS, fieldOf: APP_FIELDS };
const CHANGED_FORM = { schema: changedAppForm, secrets: ['clientSecret'] as const, fieldOf: APP_FIELDS };

/** Empty, or with what a preset knows. */
function newForm(preset: Preset | undefined): NewForm {
  const known = preset && { id: preset.id, name: preset.name, ...presetApp(preset) };
  return { values: valuesOfApp(known), faults: [] };
}

const isId = (id: string) => connectedAppSchema.shape.id.safeParse(id).success;
const statusOf = ({ faults }: { faults: readonly FieldFault[] }) => (faults.length > 0 ? 400 : 200);

/** The members of a registration, without those that only the view has. */
function registrationIn(app: AppView): ConnectedAppRegistration {
  const names = Object.keys(connectedAppSchema.shape);
  return Object.fromEntries(Object.entries(app).filter(([name]) => names.includes(name))) as ConnectedAppRegistration;
}
