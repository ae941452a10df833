/** Routes for signing in and out: start, choice of an app, connection, callback, and sign-out. */
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { wantsData } from '../../shared/http/accept.ts';
import { formField, formFields, queryField } from '../../shared/http/body.ts';
import { holdsCardNumber } from '../../shared/http/card-numbers.ts';
import { describeBrowser } from '../../shared/http/describe-browser.ts';
import { described, type Operation, PAGE } from '../../shared/http/description.ts';
import { LOCATION, seeOther, sendLocation } from '../../shared/http/location.ts';
import { hintFields, readHints } from '../../shared/http/provider-hints.ts';
import type { RateLimits } from '../../shared/http/rate-limit.ts';
import { type LocalSite, localPath, returnTarget } from '../../shared/http/return-path.ts';
import type { Budget } from '../../shared/http/route-table.ts';
import type { Events } from '../../shared/observability/events.ts';
import type { Pages } from '../../shared/pages/pages.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { originOf } from '../../shared/sessions/actor.ts';
import { newBrowserSecret } from '../../shared/sessions/browser-sessions.ts';
import { isFromOtherSite } from '../../shared/sessions/csrf.ts';
import { sessionOf } from '../../shared/sessions/guards.ts';
import type { Sessions } from '../../shared/sessions/sessions.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import type { ConnectLinks } from '../grants/connect-links.ts';
import type { RequestInfo } from '../sign-in-record/attempt-log.ts';
import type { UserLifecycle } from '../users/users.ts';
import { createBeginSession } from './begin-session.ts';
import type { SignInFlow } from './flow.ts';
import { createRefusalLog, refusedReturn } from './refused-return.ts';
import type { StartInput } from './start.ts';

const returnTo = z
  .string()
  .optional()
  .describe('a local path of at most 512 characters, or one of the return URLs of the app; otherwise the start page');

const SIGN_IN: Operation = {
  summary: 'Begin a sign-in: leads to the authorization endpoint, or shows the apps to choose from',
  query: z.object({
    app: z.string().optional().describe('id of the app to sign in with'),
    return_to: returnTo,
    step_up: z.string().optional().describe('with any value: for the stronger sign-in of the administration'),
    ...hintFields,
  }),
  responses: { ...LOCATION, 200: { ...LOCATION[200], ...PAGE } },
};
const CALLBACK: Operation = {
  summary: 'Callback: completes a sign-in or connection',
  query: z.object({
    code: z.string().optional().describe('authorization code'),
    state: z.string().optional().describe('state of the authorization request'),
    iss: z.string().optional().describe('issuer of the provider (RFC 9207)'),
    error: z.string().optional().describe('error code of the provider'),
  }),
  responses: { 303: {} },
};
const connectFields = z.object({
  scope: z.string().optional().describe('registered scopes, separated by spaces; all of them by default'),
  return_to: returnTo,
  ...hintFields,
});
const POSTED_CALLBACK: Operation = {
  summary: 'Refuse a response that the provider sent by POST (form_post): only redirects are accepted',
  form: z.object({
    code: z.string().optional(),
    state: z.string().optional(),
    error: z.string().optional(),
  }),
  ignoresUnknown: 'OAuth 2.0 Form Post Response Mode',
  responses: {},
};
const CONNECT: Operation = {
  summary: 'Ask the user for consent: leads to the authorization endpoint',
  body: connectFields,
  form: connectFields,
  responses: LOCATION,
};
const CONNECT_BY_LINK: Operation = {
  summary: 'Ask the user of a connect link for consent: leads to the authorization endpoint',
  body: z.object(hintFields),
  form: z.object(hintFields),
  responses: LOCATION,
};
const SIGN_OUT: Operation = {
  summary: 'Sign out here and at the provider',
  query: z.object({
    return_to: z
      .string()
      .optional()
      .describe('a local path: sign out only here, sign in with another account, and continue there'),
  }),
  responses: LOCATION,
};
const SIGN_OUT_EVERYWHERE: Operation = { summary: 'Sign out in every browser', responses: LOCATION };

export interface SignInRoutes {
  /** Redirects to the authorization endpoint, or shows the apps to choose from. */
  startSignIn: RequestHandler;

  /** The user connects an app, or consents again. */
  connect: RequestHandler;

  connectByLink: RequestHandler;

  /** An administrator signs in with an app to try it, and keeps the current session. */
  tryApp: RequestHandler;

  callback: RequestHandler;

  /** Refuses a response that the provider sent by POST, and names the cause. */
  postedCallback: RequestHandler;

  signOut: RequestHandler;
  signOutEverywhere: RequestHandler;

  /**
   * Counts the starts of sign-ins and connections by address. A start stores one small pending request (R91) and a
   * record of the attempt (R95), its calls have a share of the provider's slots (R92), and it gets an audit entry only
   * if it fails (R94).
   */
  startBudget: Budget;

  /** `startBudget`, for a route that may show the apps to choose from, which costs nothing. */
  signInBudget: Budget;

  /**
   * Counts callbacks by address. One without a pending request causes no call (R8); a pending request is used once
   * (R9). Either adds to a record (R95) and causes one audit entry (R94).
   */
  callbackBudget: Budget;
}

export function signInRoutes(parts: {
  apps: CurrentApps;
  flow: SignInFlow;
  links: Pick<ConnectLinks, 'openFor'>;
  lifecycle: Pick<UserLifecycle, 'signOut'>;
  browser: Sessions['browser'];
  limits: Pick<RateLimits, 'take'>;
  pages: Pages;
  events: Events;
  clock: () => number;
  site: LocalSite & { href: string; home: string };
}): SignInRoutes {
  const { apps, flow, links, lifecycle, browser, limits, pages, events, site } = parts;
  const logRefusal = createRefusalLog(events.returnRefused, parts.clock);

  const startBudget: Budget = { take: ({ context }) => void limits.take('sign-in', context.address) };

  const isChoiceOfApps = (appId: string | undefined) => appId === undefined && apps.signInApps().length > 1;

  /**
   * Starts an attempt, and sets the cookie whose secret the browser's pending requests are stored under.
   * @returns the URL of the provider
   */
  const startAttempt = async (req: Request, res: Response, start: StartInput): Promise<string> => {
    const storedSecrets = browser.readBrowserSecrets(req);
    const storedSecret = storedSecrets.findLast(({ isEarlier }) => !isEarlier);
    const browserSecret = storedSecret ?? newBrowserSecret();
    const { secret } = browserSecret;
    const info = requestInfo(req, [secret]);
    const url = await flow.start({ ...start, info, browserSecret: secret, isNewBrowser: storedSecret === undefined });
    browser.setBrowserSecrets(req, res, storedSecret ? storedSecrets : [...storedSecrets, browserSecret]);
    return url;
  };

  const leadToProvider = async (req: Request, res: Response, start: StartInput) =>
    sendLocation(req, res, await startAttempt(req, res, start), site.origin);

  /** Where the browser goes at the end. @param home for a request that names no allowed return address */
  const returnOf = (
    req: Request,
    app: ConnectedApp,
    home: string,
    requested = formField(req.body, 'return_to') ?? queryField(req, 'return_to'),
  ) => {
    const refused = refusedReturn(requested, { ...site, home }, app.returnUrls);
    if (refused) logRefusal({ ...refused, app: app.id, route: req.context.route, origin: originOf(req) });
    return { returnTo: returnTarget(requested, { ...site, home }, app.returnUrls), refused };
  };

  const signOut =
    ({ everywhere }: { everywhere: boolean }): RequestHandler =>
    async (req, res) => {
      const { session } = req.context;
      const requested = queryField(req, 'return_to');
      const returnPath = localPath(requested, site);
      const refused = refusedReturn(requested, site, undefined);
      if (refused) logRefusal({ ...refused, route: req.context.route, origin: originOf(req) });
      const signInParameters = returnPath && new URLSearchParams({ prompt: 'select_account', return_to: returnPath });
      const signInUrl = signInParameters && `${site.href}/sign-in?${signInParameters}`;
      if (!session) {
        // The session has expired, but a pending request could still sign in. Other sites cannot clear the cookies.
        if (!isFromOtherSite(req, site.origin)) browser.clearCookies(req, res);
        return sendLocation(req, res, signInUrl ?? site.home, site.origin);
      }
      const idToken = await browser.readIdToken(req);
      const signOutFacts = { userId: session.user.id, everywhere, origin: originOf(req) };
      if (everywhere) {
        await lifecycle.signOut(session.user.id);
        events.signedOut(signOutFacts);
        await browser.end(req, res);
      } else {
        await browser.end(req, res);
        events.signedOut(signOutFacts);
      }
      const url = signInUrl ?? (await flow.endSessionUrl(session.app, idToken).catch(() => undefined));
      return sendLocation(req, res, url ?? site.home, site.origin);
    };

  return {
    startSignIn: described<RequestHandler>(SIGN_IN, async (req, res) => {
      const id = queryField(req, 'app');
      const candidates = apps.signInApps();
      const hints = readHints((name) => queryField(req, name));
      if (isChoiceOfApps(id)) {
        const returnTo = queryField(req, 'return_to');
        // The return path is checked once an app is chosen. A card number is dropped now, before the page repeats it.
        const refused = returnTo && holdsCardNumber(returnTo) ? refusedReturn(returnTo, site, undefined) : undefined;
        if (refused) logRefusal({ ...refused, route: req.context.route, origin: originOf(req) });
        const parameters = { ...(returnTo && !holdsCardNumber(returnTo) && { return_to: returnTo }), ...hints };
        if (wantsData(req)) {
          const query = new URLSearchParams(parameters);
          return sendLocation(req, res, `${site.href}/sign-in${query.size > 0 ? `?${query}` : ''}`, site.origin);
        }
        const signInApps = candidates.map(({ id: app }) => {
          const url = `${site.href}/sign-in?${new URLSearchParams({ app, ...parameters })}`;
          return {
            id: app,
            name: apps.nameOf(app),
            url,
            otherUrl: hints.prompt ? undefined : `${url}&prompt=select_account`,
          };
        });
        return pages.send(res, 'sign-in/choose', { page: pages.frame(req, 'Choose how to sign in'), signInApps });
      }
      const app = id === undefined ? candidates[0] : candidates.find((candidate) => candidate.id === id);
      if (!app) throw new AppError('not_found', { detail: 'There is no sign-in app with this id.' });
      const stepUp = queryField(req, 'step_up') !== undefined;
      const { user } = req.context.session ?? {};
      const returning = returnOf(req, app, site.home);
      await leadToProvider(req, res, { purpose: 'sign_in', user, app, ...returning, stepUp, hints });
    }),

    connect: described<RequestHandler>(CONNECT, async (req, res) => {
      const app = apps.find(String(req.params.app));
      if (!app) throw new AppError('not_found', { detail: 'There is no connected app with this id.' });
      const { user } = sessionOf(req);
      const returning = returnOf(req, app, `${site.home}connections/${app.id}`);
      const hints = readHints((name) => req.body[name]);
      const scopes = chosenScopes(app, req.body);
      await leadToProvider(req, res, { purpose: 'connect', user, app, ...returning, scopes, hints });
    }),

    connectByLink: described<RequestHandler>(CONNECT_BY_LINK, async (req, res) => {
      const { user } = sessionOf(req);
      const { id, app: appId, scopes, returnUrl } = await links.openFor(user.id, String(req.params.link));
      const app = apps.find(appId);
      if (!app || !scopes.every((scope) => app.scopes.includes(scope)))
        throw new AppError('not_found', {
          detail: 'The app has changed since this link was created. Ask for a new link.',
        });
      const home = `${site.home}connections/${app.id}`;
      const returning = returnOf(req, app, home, returnUrl ?? home);
      const link = { link: id, linkPath: req.baseUrl + req.path };
      const hints = readHints((name) => req.body[name]);
      await leadToProvider(req, res, { purpose: 'connect', user, ...link, app, ...returning, scopes, hints });
    }),

    async tryApp(req, res) {
      const app = apps.find(String(req.params.id));
      if (!app) throw new AppError('not_found', { detail: 'There is no connected app with this id.' });
      const { user } = sessionOf(req);
      await leadToProvider(req, res, {
        purpose: 'connect',
        trial: true,
        user,
        app,
        returnTo: site.home,
        hints: {},
      });
    },

    callback: described<RequestHandler>(CALLBACK, async (req, res) => {
      // The URL holds a code, so it is never sent as a referrer (R16).
      res.set('Referrer-Policy', 'no-referrer');
      const callback = new URL(req.originalUrl, site.origin);
      const browserSecrets = browser.readBrowserSecrets(req);
      const end = await flow.handleCallback({
        appId: String(req.params.app),
        callback,
        user: req.context.session?.user,
        signInApp: req.context.session?.app,
        browserSecrets,
        info: requestInfo(
          req,
          browserSecrets.map(({ secret }) => secret),
        ),
        beginSession: createBeginSession(browser, req, res),
      });
      if ('url' in end) return seeOther(res, end.url);
      startBudget.take(req, res);
      seeOther(res, await startAttempt(req, res, end.startOver));
    }),

    postedCallback: described<RequestHandler>(POSTED_CALLBACK, (req) =>
      flow.refusePost({
        appId: String(req.params.app),
        state: formField(req.body, 'state'),
        error: formField(req.body, 'error'),
        info: requestInfo(req, []),
      }),
    ),

    signOut: described<RequestHandler>(SIGN_OUT, signOut({ everywhere: false })),
    signOutEverywhere: described<RequestHandler>(SIGN_OUT_EVERYWHERE, signOut({ everywhere: true })),

    startBudget,
    signInBudget: {
      take(req, res) {
        if (!isChoiceOfApps(queryField(req, 'app'))) startBudget.take(req, res);
      },
    },
    callbackBudget: { take: ({ context }) => void limits.take('callback', context.address) },
  };
}

function requestInfo(req: Request, browserSecrets: readonly string[]): RequestInfo {
  const { reference } = req.context;
  return { reference, browser: describeBrowser(req.headers['user-agent']), origin: originOf(req), browserSecrets };
}

/** Only registered scopes can be requested (R4). `openid` always is, if it is registered. */
function chosenScopes(app: ConnectedApp, body: unknown): string[] | undefined {
  const requested = formFields(body, 'scope').join(' ').trim();
  // `choose` marks a form that offers a choice: there, no ticked box means no scope. In other forms it means all.
  if (requested === '' && formField(body, 'choose') === undefined) return undefined;
  const chosen = new Set(requested.split(/ +/).filter((scope) => scope !== ''));
  if (chosen.size === 0 && !app.scopes.includes('openid')) {
    throw new AppError('invalid_request', { detail: 'Choose something that the app may do, or disconnect it.' });
  }
  if (![...chosen].every((scope) => app.scopes.includes(scope))) {
    throw new AppError('invalid_request', { detail: 'Choose from the scopes that are registered for this app.' });
  }
  return app.scopes.filter((scope) => scope === 'openid' || chosen.has(scope));
}
