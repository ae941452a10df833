/** Owns sign-in to the sandbox's own pages: the same single sign-on as for every app, told by the session it leaves. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { AuthorizationContext, Provider } from 'oidc-provider/lib/provider.js';
import { type Account, type Accounts, ADMIN_GROUP } from './accounts.ts';
import { PAGES_CLIENT_ID } from './clients.ts';
import { fields } from './form-fields.ts';
import type { Pages } from './pages.ts';
import { SECOND_FACTOR_ACR } from './second-factor.ts';

export const OWN_CALLBACK_PATH = '/signed-in';

/** Who stands behind a request to one of these pages. */
export interface Visitor {
  account: Account;
  /** For the field `xsrf` of every form. */
  xsrf: string;
}

export interface OwnSignIn {
  /** Anyone with a session; others go to sign in and come back. */
  readonly person: RequestHandler;
  /** Administrators whose session has the second factor. */
  readonly administrator: RequestHandler;
  /** Where sign-in comes back to. */
  readonly finish: RequestHandler;
  visitor(res: Response): Visitor;
}

interface Parts {
  issuer: string;
  provider: Provider;
  accounts: Accounts;
  pages: Pages;
}

export function createOwnSignIn({ provider, accounts, pages, issuer }: Parts): OwnSignIn {
  const redirectUri = issuer + OWN_CALLBACK_PATH;
  const key = randomBytes(32);
  const xsrfOf = (sessionUid: string) => createHmac('sha256', key).update(sessionUid).digest('base64url');
  const refuse = (res: Response, title: string, text: string) =>
    pages.send(res.status(403), 'message', { title, text });

  async function sessionOf(req: Request, res: Response) {
    const session = await provider.Session.get(provider.createContext(req, res));
    const account = accounts.byId(session.accountId ?? '');
    if (account === undefined || account.disabled) return undefined;
    return { account, acr: session.acr, xsrf: xsrfOf(session.uid) };
  }

  function guard(isEnough: (account: Account, acr: string | undefined) => boolean, acrValues?: string): RequestHandler {
    return async (req: Request, res: Response, next: NextFunction) => {
      const found = await sessionOf(req, res);
      if (found === undefined || (isAllowed(found.account, acrValues) && !isEnough(found.account, found.acr))) {
        if (req.method !== 'GET') return refuse(res, 'Signed out', 'Your session has ended. Sign in and try again.');
        return res.redirect(303, signInPath(redirectUri, req.originalUrl, acrValues));
      }
      if (!isAllowed(found.account, acrValues)) {
        return refuse(res, 'Administrators only', 'This page is for administrators who have a second factor.');
      }
      if (req.method !== 'GET' && !same(fields(req).xsrf ?? '', found.xsrf)) {
        return refuse(res, 'Not from this page', 'The form came without the mark of its page. Load the page again.');
      }
      res.locals.visitor = { account: found.account, xsrf: found.xsrf } satisfies Visitor;
      next();
    };
  }

  return {
    person: guard(() => true),
    administrator: guard((_account, acr) => acr === SECOND_FACTOR_ACR, SECOND_FACTOR_ACR),
    finish(req, res) {
      const back = String(req.query.state ?? '');
      if (req.query.code !== undefined) return res.redirect(303, isOwnPath(back) ? back : '/');
      refuse(res, 'Not signed in', 'The sign-in was cancelled. Open the page again to start over.');
    },
    visitor: (res) => res.locals.visitor as Visitor,
  };
}

/** oidc-provider's `loadExistingGrant`: what was allowed in this session, and the sandbox's own pages ask nobody. */
export async function ownGrant({ oidc }: AuthorizationContext & { oidc: { provider: Provider } }) {
  const { provider, client, session, result } = oidc;
  const grantId = result?.consent?.grantId ?? session?.grantIdFor(client?.clientId ?? '');
  const known = grantId === undefined ? undefined : await provider.Grant.find(grantId);
  if (known !== undefined || client?.clientId !== PAGES_CLIENT_ID || session?.accountId === undefined) return known;
  const grant = new provider.Grant({ accountId: session.accountId, clientId: PAGES_CLIENT_ID });
  grant.addOIDCScope('openid');
  await grant.save();
  return grant;
}

function isAllowed(account: Account, acrValues: string | undefined): boolean {
  return acrValues === undefined || (account.groups.includes(ADMIN_GROUP) && account.totpSecret !== undefined);
}

/** The code that comes back is never exchanged: the session is what was wanted. */
function signInPath(redirectUri: string, path: string, acrValues: string | undefined): string {
  const query = new URLSearchParams({
    client_id: PAGES_CLIENT_ID,
    response_type: 'code',
    scope: 'openid',
    redirect_uri: redirectUri,
    state: path,
    code_challenge: randomBytes(32).toString('base64url'),
    code_challenge_method: 'S256',
    ...(acrValues === undefined ? {} : { acr_values: acrValues }),
  });
  return `/authorize?${query}`;
}

function isOwnPath(path: string): boolean {
  return /^\/(account|console)(\/[A-Za-z0-9/_-]*)?$/.test(path);
}

function same(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
