/** Assembles the admin console, which is for administrators only. */
import express from 'express';
import { createAppPages } from './app-pages.ts';
import { createConsoleForms } from './forms.ts';
import { createOneTimeSecrets } from './one-time-secrets.ts';
import type { ConsoleParts, ResourceParts } from './parts.ts';
import { createTokenPages } from './token-pages.ts';
import { createUserPages } from './user-pages.ts';

export function createConsole(consoleParts: ConsoleParts): express.Router {
  const { ownSignIn, pages, accounts, apps, apiTokens, platformUrl, platformCalls, now } = consoleParts;
  const parts: ResourceParts = {
    ...consoleParts,
    oneTimeSecrets: createOneTimeSecrets({ now }),
    forms: createConsoleForms(),
    visitor: ownSignIn.visitor,
    show: (res, name, data) =>
      pages.send(res, `console/${name}`, { ...ownSignIn.visitor(res), nowMs: now(), ...data, wide: true, page: name }),
  };
  const router = express.Router();
  router.use(express.urlencoded({ extended: false, limit: '64kb' }), ownSignIn.requireAdministrator);
  router.get('/', (_req, res) => {
    const counts = { apps: apps.all().length, users: accounts.all.length, tokens: apiTokens.all.length };
    parts.show(res, 'overview', { title: 'Admin console', counts, platformUrl, platformCalls });
  });
  router.use('/apps', createAppPages(parts));
  router.use('/users', createUserPages(parts));
  router.use('/tokens', createTokenPages(parts));
  router.use('/registration', createRegistrationPages(parts));
  router.use((_req, res) => {
    pages.send(res.status(404), 'message', { title: 'Not here', text: 'The console has no such page.' });
  });
  return router;
}

/** Dynamic client registration: creates initial access tokens and shows each once. */
function createRegistrationPages(parts: ResourceParts): express.Router {
  const { issuer, oneTimeSecrets, visitor, show, initialAccessToken } = parts;
  const router = express.Router();
  router.get('/', (_req, res) => {
    const secret = oneTimeSecrets.take(`initial ${visitor(res).account.id}`);
    show(res, 'registration', { title: 'Dynamic registration', endpoint: `${issuer}/register`, secret });
  });
  router.post('/', async (_req, res) => {
    oneTimeSecrets.put(`initial ${visitor(res).account.id}`, await initialAccessToken());
    res.redirect(303, '/console/registration');
  });
  return router;
}
