/** The console pages for connected apps: list, register, change, replace the secret, remove. */
import express, { type Request, type Response } from 'express';
import { type FormView, formHandler } from '../../shared/pages/form.ts';
import type { RegisteredApp } from '../apps.ts';
import { AUTH_METHODS } from '../clients.ts';
import { fields } from '../form-fields.ts';
import { ROUTES } from '../provider-settings.ts';
import { describedScopes } from '../scopes.ts';
import { appForm, appOf, valuesOfApp } from './app-form.ts';
import type { ResourceParts } from './parts.ts';

type Form = FormView<typeof appForm>;

const HOUR_MS = 60 * 60 * 1000;
/** The times for which the old secret stays valid after it is replaced. */
const OVERLAPS = [
  { value: '', text: 'at once', hours: 0 },
  { value: 'hour', text: 'in 1 hour', hours: 1 },
  { value: 'day', text: 'in 1 day', hours: 24 },
  { value: 'week', text: 'in 7 days', hours: 7 * 24 },
];

export function createAppPages({
  apps,
  approvals,
  oneTimeSecrets,
  forms,
  show,
  issuer,
}: ResourceParts): express.Router {
  const router = express.Router();

  const showNew = (req: Request, res: Response) => {
    const form = forms.keptForm<Form>(req, res) ?? { values: valuesOfApp(), faults: [] };
    show(res, 'app-new', { title: 'Register an app', form, scopes: describedScopes(), methods: AUTH_METHODS });
  };

  const showApp = (req: Request, res: Response) => {
    const app = apps.find(String(req.params.id));
    if (app === undefined) return show(res.status(404), 'gone', { title: 'No such app' });
    const secret = oneTimeSecrets.take(`app ${app.clientId}`);
    const form = forms.keptForm<Form>(req, res) ?? { values: valuesOfApp(app), faults: [] };
    const lists = { scopes: describedScopes(), methods: AUTH_METHODS, overlaps: OVERLAPS };
    const refreshTokens = refreshTokensOf(app);
    const details = { issuer, routes: ROUTES, refreshTokens };
    show(res, 'app', { title: app.name ?? app.clientId, app, secret, form, ...details, ...lists });
  };

  const savedApp = (id: string, secret: string | undefined) => {
    if (secret !== undefined) oneTimeSecrets.put(`app ${id}`, secret);
    return { url: `/console/apps/${id}`, flash: {} };
  };

  const register = formHandler({
    pages: forms.pages,
    schema: appForm,
    async work(_req, form) {
      const { clientId, clientSecret } = apps.register(appOf(form));
      return savedApp(clientId, clientSecret);
    },
    page: (_req, form) => ({ url: '/console/apps/new', form }),
  });
  const change = formHandler({
    pages: forms.pages,
    schema: appForm,
    async work(req, form) {
      const id = String(req.params.id);
      return savedApp(id, apps.change(id, appOf(form)));
    },
    page: (req, form) => ({ url: `/console/apps/${encodeURIComponent(String(req.params.id))}`, form }),
  });

  router.get('/', (_req, res) => show(res, 'apps', { title: 'Connected apps', apps: apps.all() }));
  router.get('/new', showNew);
  router.post('/', register);
  router.get('/:id', showApp);
  router.post('/:id', change);
  router.post('/:id/secret', (req, res) => {
    const { id } = req.params;
    const overlap = OVERLAPS.find(({ value }) => value === fields(req).overlap);
    res.redirect(303, savedApp(id, apps.newSecret(id, (overlap?.hours ?? 0) * HOUR_MS)).url);
  });
  router.post('/:id/remove', (req, res) => {
    apps.remove(req.params.id);
    // Also ends the tokens of the app.
    approvals.endApp(req.params.id);
    res.redirect(303, '/console/apps');
  });
  return router;
}

function refreshTokensOf({ scopes, otherMetadata }: RegisteredApp): string {
  const grantTypes = otherMetadata?.grant_types;
  if (Array.isArray(grantTypes) && !grantTypes.includes('refresh_token')) {
    return 'never: the app is registered without the grant type refresh_token';
  }
  if (scopes && !scopes.includes('offline_access')) return 'never: the scope offline_access is not allowed';
  return 'if the app requests offline_access and the user allows it';
}
