/** Signs users in to the sandbox's own pages, by the session of the identity provider. */
import { createHmac, randomBytes } from 'node:crypto';
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { AuthorizationContext, Provider } from 'oidc-provider/lib/provider.js';
import { isAllowedFrom } from '../shared/config/networks.ts';
import { type Account, type Accounts, ADMIN_GROUP } from './accounts.ts';
import { PAGES_CLIENT_ID } from './clients.ts';
import { fields } from './form-fields.ts';
import { isEqual } from './is-equal.ts';
import type { Pages } from './pages.ts';
import { SECOND_FACTOR_ACR } from './second-factor.ts';

export const OWN_CALLBACK_PATH = '/signed-in';

/** The signed-in user of a page. */
export interface Visitor {
  account: Account;
  /** The value of the form field `xsrf`. */
  xsrf: string;
}

export interface OwnSignIn {
  /** Redirects to sign-in if there is no session. */
  readonly requireUser: RequestHandler;
  /** Requires an administrator who has signed in with the second factor. */
  readonly requireAdministrator: RequestHandler;
  /** Handles the redirect after sign-in. */
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
    if (!isAllowedFrom(req.socket.remoteAddress ?? '', account.networks)) return undefined;
    return { account, acr: session.acr, xsrf: xsrfOf(session.uid) };
  }

  function guard(
    hasRequiredAcr: (account: Account, acr: string | undefined) => boolean,
    acrValues?: string,
  ): RequestHandler {
    return async (req: Request, res: Response, next: NextFunction) => {
      const session = await sessionOf(req, res);
      if (
        session === undefined ||
        (isAllowed(session.account, acrValues) && !hasRequiredAcr(session.account, session.acr))
      ) {
        if (req.method !== 'GET') return refuse(res, 'Signed out', 'Your session has ended. Sign in and try again.');
        return res.redirect(303, signInPath(redirectUri, req.originalUrl, acrValues));
      }
      if (!isAllowed(session.account, acrValues)) {
        return refuse(res, 'Administrators only', 'This page is for administrators who have a second factor.');
      }
      if (req.method !== 'GET' && !isEqual(fields(req).xsrf ?? '', session.xsrf)) {
        return refuse(res, 'Not from this page', 'The form has no valid XSRF token. Reload the page.');
      }
      res.locals.visitor = { account: session.account, xsrf: session.xsrf } satisfies Visitor;
      next();
    };
  }

  return {
    requireUser: guard(() => true),
    requireAdministrator: guard((_account, acr) => acr === SECOND_FACTOR_ACR, SECOND_FACTOR_ACR),
    finish(req, res) {
      const path = String(req.query.state ?? '');
      if (req.query.code !== undefined) return res.redirect(303, isOwnPath(path) ? path : '/');
      refuse(res, 'Not signed in', 'The sign-in was cancelled. Open the page again to start over.');
    },
    visitor: (res) => res.locals.visitor as Visitor,
  };
}

/** Loads the grant of this session (oidc-provider's `loadExistingGrant`). The sandbox's own pages need no consent. */
export async function ownGrant({ oidc }: AuthorizationContext & { oidc: { provider: Provider } }) {
  const { provider, client, session, result } = oidc;
  const grantId = result?.consent?.grantId ?? session?.grantIdFor(client?.clientId ?? '');
  const existing = grantId === undefined ? undefined : await provider.Grant.find(grantId);
  if (existing !== undefined || client?.clientId !== PAGES_CLIENT_ID || session?.accountId === undefined)
    return existing;
  const grant = new provider.Grant({ accountId: session.accountId, clientId: PAGES_CLIENT_ID });
  grant.addOIDCScope('openid');
  await grant.save();
  return grant;
}

function isAllowed(account: Account, acrValues: string | undefined): boolean {
  return acrValues === undefined || (account.groups.includes(ADMIN_GROUP) && account.totpSecret !== undefined);
}

/** Returns the path of the authorization request. Its code is never exchanged: these pages need only the session. */
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
  return /^\/(account|console|threads)(\/[A-Za-z0-9/_-]*)?$/.test(path);
}
