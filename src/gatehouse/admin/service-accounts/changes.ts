/** Changes of service accounts by administrators: an API token is tried on the platform first, then sealed. */
import type { Request } from 'express';
import type { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import type { CurrentApps, ThreadApp } from '../../connected-apps/current-apps.ts';
import {
  newServiceAccountId,
  type ServiceAccount,
  type ServiceAccounts,
  type TokenCheck,
} from '../../relay/service-account.ts';
import type { Resource } from '../resource.ts';
import type { accountJson, changedAccount, newAccount } from './view.ts';

export function serviceAccountChanges(parts: {
  resource: Resource<ServiceAccount, typeof accountJson>;
  accounts: ServiceAccounts;
  apps: CurrentApps;
  /** Tries a token on the app's platform. */
  check: (app: ThreadApp, token: string) => Promise<TokenCheck>;
}) {
  const { resource, accounts, apps, check } = parts;

  const appOf = (id: string): ThreadApp => {
    const app = apps.threadApps().find((one) => one.id === id);
    if (app) return app;
    throw fault('#/app', 'unknown_app', 'There is no connected app with this id that serves threads.');
  };

  /** The token, and the platform that accepted it: the token is sent to no other. */
  const tried = async (app: ThreadApp, token: string) => {
    const outcome = await check(app, token);
    if (outcome !== 'accepted') throw fault('#/apiToken', outcome, CHECK_WORDS[outcome]);
    return { apiToken: token, platform: new URL(app.apiBaseUrl).origin };
  };

  return {
    async create(req: Request, wanted: z.output<typeof newAccount>) {
      const { name, app } = wanted;
      const { apiToken: token, platform } = await tried(appOf(app), wanted.apiToken);
      const id = newServiceAccountId();
      const work = () => accounts.create({ id, name, app, apiToken: token, platform });
      return { item: await resource.audited(req, 'service_account.created', { id, name }, work, { app }) };
    },

    /** @throws AppError `version_conflict` */
    async change(req: Request, wanted: z.output<typeof changedAccount>) {
      const { name, version } = wanted;
      const account = await resource.find(req);
      if (wanted.app !== undefined && wanted.app !== account.app) {
        throw fault('#/app', 'fixed', 'Make another service account for another app.');
      }
      const entered = wanted.apiToken === undefined ? undefined : await tried(appOf(account.app), wanted.apiToken);
      const facts = { name, tokenReplaced: entered !== undefined };
      const work = () => accounts.change(account.id, version, { name, entered });
      return { item: await resource.audited(req, 'service_account.changed', account, work, facts) };
    },
  };
}

const CHECK_WORDS: Record<Exclude<TokenCheck, 'accepted'>, string> = {
  refused: 'The platform does not accept this API token. Copy it again, or create a new one there.',
  unreachable:
    'The platform could not be asked about this API token. Try again, and check the API base URL of the app.',
};

function fault(pointer: string, rule: string, detail: string): AppError {
  return new AppError('invalid_request', { detail, faults: [{ pointer, rule, detail }] });
}
