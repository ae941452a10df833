/** Assembles the admin console, which is for administrators only. */
import express, { type Response } from 'express';
import type { Provider } from 'oidc-provider/lib/provider.js';
import type { Accounts } from '../accounts.ts';
import type { ApiTokens } from '../api-tokens.ts';
import type { Approvals } from '../approvals.ts';
import type { AppRegistry } from '../apps.ts';
import type { OwnSignIn, Visitor } from '../own-sign-in.ts';
import type { Pages } from '../pages.ts';
import { createAppPages } from './app-pages.ts';
import { createRegistrationPages } from './registration-pages.ts';
import { createReveals, type Reveals } from './reveals.ts';
import { createTokenPages } from './token-pages.ts';
import { createUserPages } from './user-pages.ts';

export interface ConsoleParts {
  provider: Provider;
  issuer: string;
  accounts: Accounts;
  apps: AppRegistry;
  apiTokens: ApiTokens;
  approvals: Approvals;
  ownSignIn: OwnSignIn;
  pages: Pages;
  initialAccessToken: () => Promise<string>;
  endSessionsOf: (accountId: string) => Promise<void>;
  now: () => number;
}

/** For the pages of each resource. */
export interface ResourceParts extends ConsoleParts {
  reveals: Reveals;
  visitor(res: Response): Visitor;
  /** Sends a page. @param name of a template in views/sandbox/console */
  show(res: Response, name: string, data: Record<string, unknown> & { title: string }): void;
}

export function createConsole(consoleParts: ConsoleParts): express.Router {
  const { ownSignIn, pages, accounts, apps, apiTokens, now } = consoleParts;
  const parts: ResourceParts = {
    ...consoleParts,
    reveals: createReveals({ now }),
    visitor: ownSignIn.visitor,
    show: (res, name, data) =>
      pages.send(res, `console/${name}`, { ...ownSignIn.visitor(res), nowMs: now(), ...data, wide: true, page: name }),
  };
  const router = express.Router();
  router.use(express.urlencoded({ extended: false, limit: '64kb' }), ownSignIn.requireAdministrator);
  router.get('/', (_req, res) => {
    const counts = { apps: apps.all().length, users: accounts.all.length, tokens: apiTokens.all.length };
    parts.show(res, 'overview', { title: 'Admin console', counts });
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
