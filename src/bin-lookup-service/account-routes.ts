/** Handlers of the account pages: registration, plan, keys and their addresses. */
import type { Request, RequestHandler, Response } from 'express';
import { AppError } from '../shared/errors.ts';
import { wantsPage } from '../shared/http/accept.ts';
import { formField, queryField } from '../shared/http/body.ts';
import type { RateLimits } from '../shared/http/rate-limit.ts';
import type { Flash } from '../shared/pages/flash.ts';
import { faultsOfRow, formHandler } from '../shared/pages/form.ts';
import type { Pages } from '../shared/pages/pages.ts';
import { isFromOtherSite } from '../shared/sessions/csrf.ts';
import { sessionOf } from '../shared/sessions/guards.ts';
import { askFor, shellQuoted } from '../shared/text.ts';
import { accountPage, addressesForm, type BinAccountPage, keyForm } from './account-page.ts';
import { type Account, type Accounts, MAX_KEYS } from './accounts.ts';
import { accountSubject, freeSubject } from './admission.ts';
import type { Browsers } from './browser.ts';
import type { FreeTier, Plan } from './plans.ts';
import type { Quota } from './quota.ts';
import type { SignIn } from './sign-in.ts';

export interface AccountRoutes {
  home: RequestHandler;
  show: RequestHandler;
  signIn: RequestHandler;
  callback: RequestHandler;
  signOut: RequestHandler;
  choosePlan: RequestHandler;
  createKey: RequestHandler;
  setNetworks: RequestHandler;
  revokeKey: RequestHandler;
}

export function accountRoutes(parts: {
  accounts: Accounts;
  browsers: Browsers;
  signIn: SignIn | undefined;
  quota: Quota;
  limits: Pick<RateLimits, 'take'>;
  plans: readonly Plan[];
  free: FreeTier;
  /** For a demo only: seconds after which a request for a plan is confirmed. */
  confirmSeconds: number | undefined;
  pages: Pages;
  publicUrl: { href: string; origin: string };
  randomToken: () => string;
  clock: () => number;
}): AccountRoutes {
  const { accounts, browsers, quota, limits, plans, pages, publicUrl, confirmSeconds, randomToken, clock } = parts;
  const accountUrl = `${publicUrl.href}/account`;
  const line = {
    words: 'Looks up a BIN.',
    text: `${askFor('KEY', 'Key')}; curl -sS ${shellQuoted(`${publicUrl.href}/45717360`)} -H "Authorization: Bearer $KEY"`,
  };

  type Shown = Partial<Pick<BinAccountPage, 'form' | 'addresses' | 'notice'>>;
  const send = async (req: Request, res: Response, account: Account | undefined, shown: Shown = {}) => {
    const { address } = req.context;
    const used = {
      free: await quota.used(freeSubject(address)),
      account: account ? await quota.used(accountSubject(account.id)) : 0,
    };
    const { form, addresses } = shown;
    const faults = form?.faults ?? (addresses && faultsOfRow(addresses.faults, addresses.key));
    const page = account ? pages.signedInFrame(req, 'Your account', faults) : pages.frame(req, 'Look up a card');
    const { free, signIn } = parts;
    const data = { page, baseUrl: publicUrl.href, address, plans, free, signIn, account, used, confirmSeconds };
    const fresh = { ...shown, ...(await pages.flashOf(req)) };
    pages.send(res, 'account', accountPage({ ...data, fresh, now: clock() }));
  };

  const accountOf = async (req: Request): Promise<Account> => {
    const account = await accounts.find(sessionOf(req).user.id);
    if (!account) throw new AppError('not_found', { detail: 'This account no longer exists.' });
    return account;
  };

  const successOf = (changed: Account | undefined, text: string): { url: string; flash: Flash } => {
    if (!changed)
      throw new AppError('not_found', { detail: 'The account or the key no longer exists. Reload the account page.' });
    return { url: accountUrl, flash: { notice: { tone: 'success', text } } };
  };

  const requireSignIn = () => {
    if (parts.signIn) return parts.signIn;
    throw new AppError('not_found', { detail: 'Registration is switched off: only the free tier is offered.' });
  };

  const confirmLater = (account: Account | undefined) => {
    if (confirmSeconds === undefined || !account?.requested) return;
    const { order, name } = account.requested;
    const confirm = () => accounts.confirmPlan(account.id, { order, plan: name }).catch(() => undefined);
    setTimeout(() => void confirm(), confirmSeconds * 1000).unref();
  };

  return {
    home: (_req, res) => res.redirect(302, accountUrl),

    async show(req, res) {
      const account = req.context.session && (await accountOf(req));
      const { status = 200, form } = (await pages.keptForm(req)) ?? {};
      const hasSignInEnded = !account && queryField(req, 'ended') === 'sign-in';
      const notice = hasSignInEnded ? ({ tone: 'warning', text: SIGN_IN_OVER } as const) : undefined;
      await send(req, res.status(status), account, { notice, ...(form as Shown | undefined) });
    },

    async signIn(req, res) {
      const signIn = requireSignIn();
      limits.take('sign-in', req.context.address);
      const knownSecret = browsers.secretsOf(req).at(-1);
      const secret = knownSecret ?? randomToken();
      const url = await signIn.start(secret);
      if (knownSecret === undefined) browsers.addSecret(res, secret);
      res.redirect(303, url);
    },

    async callback(req, res) {
      // The URL contains the authorization code, which must not leak by the Referer header.
      res.set('Referrer-Policy', 'no-referrer');
      const callback = new URL(req.originalUrl, publicUrl.origin);
      const user = req.context.session?.user;
      const identity = await requireSignIn().finish(browsers.secretsOf(req), callback, ({ issuer, subject }) => {
        if (!user || (user.issuer === issuer && user.subject === subject)) return;
        const action = { label: 'Go to your account', url: accountUrl };
        throw new AppError('invalid_request', { detail: OTHER_ACCOUNT, words: OTHER_ACCOUNT_WORDS, action });
      });
      if (!identity) {
        if (!user && !wantsPage(req)) throw new AppError('invalid_request', { detail: SIGN_IN_OVER });
        return res.redirect(303, user ? accountUrl : `${accountUrl}?ended=sign-in`);
      }
      await browsers.begin(req, res, await accounts.register(identity));
      res.redirect(303, accountUrl);
    },

    async signOut(req, res) {
      // The CSRF check needs a session. Without one, only this check refuses a form of another site.
      if (req.context.session || !isFromOtherSite(req, publicUrl.origin)) await browsers.end(req, res);
      res.redirect(303, accountUrl);
    },

    async choosePlan(req, res) {
      const chosenPlan = plans.find(({ name }) => name === formField(req.body, 'plan'));
      if (!chosenPlan) throw new AppError('invalid_request', { detail: 'Choose one of the plans.' });
      const { id } = sessionOf(req).user;
      await pages.redirectAfter(req, res, async () => {
        const account = await accounts.requestPlan(id, chosenPlan);
        confirmLater(account);
        return successOf(account, chosenText(confirmSeconds));
      });
    },

    createKey: formHandler({
      pages,
      schema: keyForm,
      async work(req, input) {
        const created = await accounts.createKey(sessionOf(req).user.id, input);
        if (!created) throw new AppError('not_found', { detail: 'This account no longer exists.' });
        if (created.problem) throw new AppError('invalid_request', { detail: TOO_MANY_KEYS });
        return { url: accountUrl, flash: { newSecret: { kind: 'key', name: input.name, text: created.key, line } } };
      },
      page: (_req, form) => ({ url: accountUrl, form: { form } satisfies Shown }),
    }),

    setNetworks: formHandler({
      pages,
      schema: addressesForm,
      work: async (req, input) =>
        successOf(
          await accounts.setNetworks(sessionOf(req).user.id, String(req.params.key), input.networks),
          ADDRESSES_CHANGED,
        ),
      page: (req, form) => ({
        url: accountUrl,
        form: { addresses: { ...form, key: String(req.params.key) } } satisfies Shown,
      }),
    }),

    async revokeKey(req, res) {
      await pages.redirectAfter(req, res, async () =>
        successOf(await accounts.revokeKey(sessionOf(req).user.id, String(req.params.key)), KEY_REVOKED),
      );
    },
  };
}

const SIGN_IN_OVER =
  'That sign-in is over: it was used before, it took too long, or this browser started many others after it.';
const OTHER_ACCOUNT = 'You are signed in here with another account, so this sign-in was not used.';
const OTHER_ACCOUNT_WORDS = {
  title: 'Another account is signed in',
  advice: 'To use the other account, sign out, then sign in with it.',
};
function chosenText(confirmSeconds: number | undefined): string {
  return confirmSeconds === undefined
    ? 'You have ordered the plan. It starts once your payment is confirmed.'
    : `You have ordered the plan. This demo takes no payment and confirms it in ${confirmSeconds} seconds: then reload this page.`;
}

const ADDRESSES_CHANGED = 'Allowed addresses changed.';
const KEY_REVOKED = 'Key revoked. It no longer works.';
const TOO_MANY_KEYS = `You already have ${MAX_KEYS} keys. Revoke one that you no longer use.`;
