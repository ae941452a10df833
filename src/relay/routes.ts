/** Owns the relay's routes for services: the thread of a user or a service account, and BIN look-ups. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import type { AppStore, ThreadApp } from '../connected-apps/app-store.ts';
import { AppError } from '../errors.ts';
import type { GrantStore } from '../grants/grant-store.ts';
import { queryField } from '../http/body.ts';
import type { Relayed } from '../http/front-door.ts';
import { passAnswer } from '../http/pass-answer.ts';
import type { ThreadCall } from '../threads/thread-call.ts';
import type { RelayCaller, RelayGate, RelayQuestion, RelayWhom } from './gate.ts';
import type { ServiceAccounts } from './service-account.ts';

export interface RelayRoutes {
  currentThread: Relayed;
  /** Lets a service look up BINs, and counts the call once it is answered; what follows is the same as for browsers. */
  enterBins(req: IncomingMessage, res: ServerResponse): Promise<void>;
  /** JSON alone: forms are for pages. */
  jsonOnly: RequestHandler;
}

export function relayRoutes(parts: {
  gate: RelayGate;
  apps: AppStore;
  accounts: ServiceAccounts;
  grants: Pick<GrantStore, 'readAhead'>;
  /** With users' tokens, and with those of service accounts; both within the services' share of the budget. */
  threads: { user: ThreadCall; serviceAccount: ThreadCall };
}): RelayRoutes {
  const { gate, apps, accounts, grants, threads } = parts;

  /** A service account belongs to one app, so that none has to be named. */
  const appOf = async (req: IncomingMessage, whom: RelayWhom, { token }: RelayCaller): Promise<ThreadApp> => {
    const named = queryField(req, 'app');
    if (whom.kind === 'service_account') {
      const account = await accounts.find(whom.id);
      if (!account || (named !== undefined && named !== account.app)) throw unknownAccount();
      return apps.threadApp(account.app);
    }
    if (named !== undefined) return apps.threadApp(named);
    const own = apps.threadApps().filter(({ id }) => token.apps.includes(id));
    return own.length === 1 && own[0] ? own[0] : apps.threadApp(undefined);
  };

  return {
    async currentThread(req, res) {
      const caller = await gate.enter(req, res);
      // What the token may not do for anybody is refused before it is asked for whom.
      gate.require(caller, { route: 'threads:read' });
      const whom = await gate.whom(req, caller);
      const app = await appOf(req, whom, caller);
      // Asked for together with the user, whether disabled or not: one round trip to the store in place of two.
      const ahead = whom.kind === 'user' ? grants.readAhead(whom.id, app.id) : undefined;
      const subject = await gate.subject(whom);
      const question: RelayQuestion = { route: 'threads:read', app: app.id, subject };
      gate.require(caller, question);
      const call = subject.kind === 'user' ? threads.user : threads.serviceAccount;
      try {
        await passAnswer(req, res, (stop) => call.stream({ userId: subject.id, app, ahead }, stop));
      } catch (error) {
        gate.note(caller, question, 'failed');
        throw error;
      }
      gate.note(caller, question, 'answered');
    },

    async enterBins(req, res) {
      const caller = await gate.enter(req, res);
      const question: RelayQuestion = { route: 'bin:read' };
      gate.require(caller, question);
      res.once('close', () => {
        gate.note(caller, question, res.writableFinished && res.statusCode < 400 ? 'answered' : 'failed');
      });
    },

    jsonOnly(req, _res, next) {
      const detail = 'Send the body as JSON, with "Content-Type: application/json".';
      next(req.is('application/json') ? undefined : new AppError('invalid_request', { detail }));
    },
  };
}

function unknownAccount(): AppError {
  return new AppError('not_found', { detail: 'There is no service account with this id for this connected app.' });
}
