/** Owns the console's pages for connected apps: list, registration, change, a new secret, removal. */
import express, { type Request, type Response } from 'express';
import { AUTH_METHODS } from '../clients.ts';
import type { FieldFaults } from '../form-fields.ts';
import { describedScopes } from '../scopes.ts';
import { fieldsOf, readAppForm, typedFields } from './app-form.ts';
import type { NounParts } from './console.ts';

export function createAppPages({ apps, approvals, reveals, show, issuer }: NounParts): express.Router {
  const router = express.Router();

  const showNew = (res: Response, form: Record<string, unknown>, faults: FieldFaults) =>
    show(res, 'app-new', { title: 'Register an app', form, faults, scopes: describedScopes(), methods: AUTH_METHODS });

  function showApp(
    req: Request,
    res: Response,
    changed?: { form: Record<string, unknown>; faults: FieldFaults },
  ): void {
    const app = apps.find(String(req.params.id));
    if (app === undefined) {
      show(res.status(404), 'gone', { title: 'No such app' });
      return;
    }
    const secret = reveals.take(`app ${app.clientId}`);
    const { form, faults } = changed ?? { form: fieldsOf(app), faults: {} };
    const lists = { scopes: describedScopes(), methods: AUTH_METHODS };
    show(res, 'app', { title: app.name ?? app.clientId, app, secret, issuer, form, faults, ...lists });
  }

  router.get('/', (_req, res) => show(res, 'apps', { title: 'Connected apps', apps: apps.all() }));
  router.get('/new', (_req, res) => showNew(res, fieldsOf(undefined), {}));
  router.post('/', (req, res) => {
    const { app, faults } = readAppForm(req);
    if (app === undefined) return showNew(res.status(422), typedFields(req), faults);
    const { clientId, clientSecret } = apps.register(app);
    if (clientSecret !== undefined) reveals.keep(`app ${clientId}`, clientSecret);
    res.redirect(303, `/console/apps/${clientId}`);
  });

  router.get('/:id', (req, res) => showApp(req, res));
  router.post('/:id', (req, res) => {
    const { app, faults } = readAppForm(req);
    if (app === undefined) return showApp(req, res.status(422), { form: typedFields(req), faults });
    const secret = apps.change(req.params.id, app);
    if (secret !== undefined) reveals.keep(`app ${req.params.id}`, secret);
    res.redirect(303, `/console/apps/${req.params.id}`);
  });
  router.post('/:id/secret', (req, res) => {
    const secret = apps.newSecret(req.params.id);
    if (secret !== undefined) reveals.keep(`app ${req.params.id}`, secret);
    res.redirect(303, `/console/apps/${req.params.id}`);
  });
  router.post('/:id/remove', (req, res) => {
    apps.remove(req.params.id);
    // Its tokens would otherwise outlive it.
    approvals.endApp(req.params.id);
    res.redirect(303, '/console/apps');
  });
  return router;
}
