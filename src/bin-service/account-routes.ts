/** Owns the HTTP of the account page: registering, the plan, keys and their addresses. */
import type { Request, RequestHandler, Response } from 'express';
import { parseNetwork } from '../config-rules.ts';
import { AppError } from '../errors.ts';
import { formField, queryField } from '../http/body.ts';
import type { Notice } from '../http/page-data.ts';
import type { Pages } from '../http/pages.ts';
import { viewerOf } from '../http/viewer.ts';
import { accountPage, type BinAccountPage, type FormFault } from './account-page.ts';
import { type Account, type Accounts, MOST_KEYS } from './accounts.ts';
import { accountSubject, freeSubject } from './admission.ts';
import type { Browsers } from './browser.ts';
import type { Caller } from './caller-address.ts';
import type { Plan } from './plans.ts';
import type { Quota } from './quota.ts';
import type { SignIn } from './sign-in.ts';

export interface AccountRoutes {
  home: RequestHandler;
  show: RequestHandler;
  signIn: RequestHandler;
  callback: RequestHandler;
  signOut: RequestHandler;
  choosePlan: RequestHandler;
  makeKey: RequestHandler;
  setNetworks: RequestHandler;
  revokeKey: RequestHandler;
}

const MOST_NETWORKS = 50;

export function accountRoutes(parts: {
  accounts: Accounts;
  browsers: Browsers;
  signIn: SignIn | undefined;
  quota: Quota;
  callerOf: (req: Request) => Caller;
  plans: readonly Plan[];
  freeMonthlyRequests: number;
  pages: Pages;
  publicUrl: { href: string; origin: string };
  randomToken: () => string;
  clock: () => number;
}): AccountRoutes {
  const { accounts, browsers, quota, callerOf, plans, pages, publicUrl, randomToken, clock } = parts;
  const here = `${publicUrl.href}/account`;

  type Fresh = Pick<BinAccountPage, 'madeKey' | 'fault' | 'notice'>;
  const send = async (req: Request, res: Response, account: Account | undefined, fresh: Fresh = {}) => {
    const { address, countedAs } = callerOf(req);
    const used = {
      free: await quota.used(freeSubject(countedAs)),
      account: account ? await quota.used(accountSubject(account.id)) : 0,
    };
    const page = account ? pages.signedInFrame(req, 'Your account') : pages.frame(req, 'BIN look-up');
    const { freeMonthlyRequests, signIn } = parts;
    const facts = { page, baseUrl: publicUrl.href, address, plans, freeMonthlyRequests, signIn, account, used };
    pages.sendAdmin(res, 'bin-service/account', accountPage({ ...facts, fresh, now: clock() }));
  };

  const accountOf = async (req: Request): Promise<Account> => {
    const account = await accounts.find(viewerOf(req).user.id);
    if (!account) throw new AppError('not_found', { detail: 'This account is no longer there.' });
    return account;
  };

  const done = (res: Response, changed: Account | undefined, what: keyof typeof NOTICES) => {
    if (!changed) throw new AppError('not_found', { detail: 'It is no longer there. Open the account page again.' });
    res.redirect(303, `${here}?done=${what}`);
  };

  const signInThere = () => {
    if (parts.signIn) return parts.signIn;
    throw new AppError('not_found', { detail: 'Nobody can register here: there is the free tier alone.' });
  };

  return {
    home: (_req, res) => res.redirect(302, here),

    async show(req, res) {
      const notice = NOTICES[queryField(req, 'done') ?? ''];
      const account = req.context.viewer && (await accountOf(req));
      await send(req, res, account, notice && account ? { notice } : {});
    },

    async signIn(req, res) {
      const secret = browsers.secretOf(req) ?? randomToken();
      const url = await signInThere().start(secret);
      browsers.giveSecret(res, secret);
      res.redirect(303, url);
    },

    async callback(req, res) {
      // The address holds a code: it goes to nobody as a referrer.
      res.set('Referrer-Policy', 'no-referrer');
      // Opened again by somebody who is signed in: nothing to do.
      const callback = new URL(req.originalUrl, publicUrl.origin);
      const account = await signInThere()
        .finish(browsers.secretOf(req), callback)
        .catch((error: unknown) => {
          if (req.context.viewer && error instanceof AppError && error.code === 'invalid_request') return undefined;
          throw error;
        });
      if (account) await browsers.begin(req, res, account);
      res.redirect(303, here);
    },

    async signOut(req, res) {
      await browsers.end(req, res);
      res.redirect(303, here);
    },

    async choosePlan(req, res) {
      const chosen = plans.find(({ name }) => name === formField(req.body, 'plan'));
      if (!chosen) throw new AppError('invalid_request', { detail: 'Choose one of the plans.' });
      done(res, await accounts.requestPlan(viewerOf(req).user.id, chosen), 'plan');
    },

    async makeKey(req, res) {
      const typed = {
        name: formField(req.body, 'name')?.trim() ?? '',
        networks: formField(req.body, 'networks') ?? '',
      };
      const networks = readNetworks(typed.networks);
      const fault = nameFault(typed.name) ?? networks.fault;
      const refuse = async (text: FormFault) => {
        res.status(400);
        await send(req, res, await accountOf(req), { fault: text });
      };
      if (fault) return refuse({ ...fault, ...typed, form: 'new' });
      const made = await accounts.makeKey(viewerOf(req).user.id, { name: typed.name, networks: networks.list });
      if (made?.problem) return refuse({ field: 'name', text: TOO_MANY, ...typed, form: 'new' });
      if (!made) throw new AppError('not_found', { detail: 'This account is no longer there.' });
      return send(req, res, made.account, { madeKey: { name: typed.name, key: made.key } });
    },

    async setNetworks(req, res) {
      const id = String(req.params.key);
      const typed = formField(req.body, 'networks') ?? '';
      const { list, fault } = readNetworks(typed);
      if (!fault) return done(res, await accounts.setNetworks(viewerOf(req).user.id, id, list), 'addresses');
      res.status(400);
      return send(req, res, await accountOf(req), { fault: { ...fault, form: id, networks: typed } });
    },

    async revokeKey(req, res) {
      done(res, await accounts.revokeKey(viewerOf(req).user.id, String(req.params.key)), 'revoked');
    },
  };
}

const NOTICES: Readonly<Record<string, Notice>> = {
  plan: { tone: 'success', text: 'Your choice is noted. The plan counts as soon as the operator has confirmed it.' },
  addresses: { tone: 'success', text: 'The allowed addresses are changed.' },
  revoked: { tone: 'success', text: 'The key is revoked: it opens nothing any more.' },
};

const TOO_MANY = `There are ${MOST_KEYS} keys already. Revoke one that is no longer used.`;

type Fault = Pick<FormFault, 'field' | 'text'>;

function nameFault(name: string): Fault | undefined {
  const fits = name.length >= 1 && name.length <= 60 && !/\p{C}/u.test(name);
  return fits ? undefined : { field: 'name', text: 'Give the key a name of 1 to 60 characters.' };
}

/** One to a line, or with commas between them. */
function readNetworks(typed: string): { list: string[]; fault?: Fault } {
  const list = [...new Set(typed.split(/[\s,]+/).filter((entry) => entry !== ''))];
  const wrong = list.find((entry) => entry.length > 50 || !parseNetwork(entry));
  const fail = (text: string) => ({ list, fault: { field: 'networks', text } as const });
  if (wrong !== undefined) return fail(`“${wrong.slice(0, 50)}” is no address and no CIDR such as 203.0.113.0/24.`);
  return list.length > MOST_NETWORKS ? fail(`Give at most ${MOST_NETWORKS} addresses.`) : { list };
}
