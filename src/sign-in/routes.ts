/** Owns the HTTP of signing in and out: start, choice, consent, callback, sign-out. The protocol is the flow's. */
import { randomBytes } from 'node:crypto';
import type { Request, RequestHandler, Response } from 'express';
import type { AppStore } from '../connected-apps/app-store.ts';
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import { AppError } from '../errors.ts';
import { connectionJson } from '../grants/connection-view.ts';
import type { Connections } from '../grants/connections.ts';
import { formField, formFields, queryField } from '../http/body.ts';
import { browserWords } from '../http/browser-words.ts';
import { readings } from '../http/card-numbers.ts';
import type { Pages } from '../http/pages.ts';
import { type LocalSite, returnTarget } from '../http/return-path.ts';
import { destroy, regenerate, type Sessions, save } from '../http/session.ts';
import type { Viewer } from '../http/session-data.ts';
import type { UserSessions } from '../http/user-sessions.ts';
import { viewerOf } from '../http/viewer.ts';
import type { Events } from '../observability/events.ts';
import type { SignInFlow } from './flow.ts';
import type { Visit } from './recorder.ts';

export interface SignInRoutes {
  signIn: RequestHandler;
  callback: RequestHandler;
  connect: RequestHandler;
  signOut: RequestHandler;
  signOutEverywhere: RequestHandler;
  session: RequestHandler;
}

export function signInRoutes(parts: {
  apps: AppStore;
  flow: SignInFlow;
  sessions: Sessions;
  userSessions: UserSessions;
  connections: Connections;
  pages: Pages;
  events: Events;
  site: LocalSite & { href: string; home: string };
}): SignInRoutes {
  const { apps, flow, sessions, userSessions, connections, pages, events, site } = parts;

  /** Sends the browser to the provider, and gives it the cookie that its pending requests are kept under. */
  const begin = async (
    req: Request,
    res: Response,
    app: ConnectedApp,
    purpose: 'sign_in' | 'connect',
    scopes?: string[],
  ) => {
    const knownBrowser = sessions.readBrowserId(req);
    const browserId = knownBrowser ?? randomBytes(24).toString('base64url');
    const given =
      purpose === 'connect'
        ? (formField(req.body, 'return_to') ?? queryField(req, 'return_to'))
        : queryField(req, 'return_to');
    const home = purpose === 'connect' ? `${site.home.replace(/\/$/, '')}/connections/${app.id}` : site.home;
    const returnTo = returnTarget(given, { ...site, home }, app.returnUrls);
    const { user } = req.context.viewer ?? {};
    const visit = { ...visitOf(req), browserId, isNewBrowser: knownBrowser === undefined };
    const stepUp = purpose === 'sign_in' && queryField(req, 'step_up') !== undefined;
    const url = await flow.start({ app, returnTo, user, purpose, scopes, stepUp, visit });
    const cookie = sessions.browserIdCookie(browserId);
    res.cookie(cookie.name, cookie.value, cookie.options);
    seeOther(res, url);
  };

  /** Ends this browser's session: before all else, so that nothing the provider or the grant does keeps somebody signed in. */
  const leave = async (req: Request, res: Response) => {
    await destroy(req);
    res.clearCookie(sessions.cookie.name, sessions.cookie.options);
  };

  const goOn = async (res: Response, { app, user }: Viewer) => {
    const url = await flow.endSessionUrl(app, user.id).catch(() => undefined);
    res.redirect(303, url ?? site.home);
  };

  return {
    async signIn(req, res) {
      const id = queryField(req, 'app');
      const candidates = apps.signInApps();
      if (id === undefined && candidates.length > 1) {
        const suffix = returnSuffix(queryField(req, 'return_to'), site);
        const signInApps = candidates.map((app) => ({
          id: app.id,
          name: app.name,
          url: `${site.href}/sign-in?app=${app.id}${suffix}`,
        }));
        return pages.send(res, 'choose-sign-in', { page: pages.frame(req, 'Choose how to sign in'), signInApps });
      }
      const app = id === undefined ? candidates[0] : candidates.find((one) => one.id === id);
      if (!app) throw new AppError('not_found', { detail: 'There is no such way to sign in here.' });
      await begin(req, res, app, 'sign_in');
    },

    async connect(req, res) {
      const app = apps.find(String(req.params.app));
      if (!app) throw new AppError('not_found', { detail: 'There is no connected app with this id.' });
      await begin(req, res, app, 'connect', chosenScopes(app, req.body));
    },

    async callback(req, res) {
      // The address holds a code: it goes to nobody as a referrer (R16).
      res.set('Referrer-Policy', 'no-referrer');
      const callback = new URL(req.originalUrl, site.origin);
      const browserId = sessions.readBrowserId(req);
      const finished = await flow.finish({
        appId: String(req.params.app),
        callback,
        userId: req.context.viewer?.user.id,
        visit: { ...visitOf(req), browserId },
      });
      if (finished.kind === 'already_done') return res.redirect(303, site.home);
      if (finished.kind === 'signed_in') {
        // A new id, so that nobody holds the session who held the browser before (R17).
        await regenerate(req);
        req.session.user = finished.user;
        req.session.app = finished.app;
        req.session.providerSession = finished.providerSession;
        req.session.acr = finished.acr;
        req.session.browser = browserWords(req.headers['user-agent']);
        req.session.address = req.ip;
        req.session.csrfToken = randomBytes(32).toString('base64url');
        await save(req);
        await finished.complete().catch(async (error: unknown) => {
          await leave(req, res);
          throw error;
        });
      }
      return seeOther(res, finished.returnTo);
    },

    async signOut(req, res) {
      const { viewer } = req.context;
      if (!viewer) return res.redirect(303, site.home);
      await leave(req, res);
      events.signedOut({ userId: viewer.user.id, everywhere: false, origin: visitOf(req).origin });
      return goOn(res, viewer);
    },

    async signOutEverywhere(req, res) {
      const { viewer } = req.context;
      if (!viewer) return res.redirect(303, site.home);
      await userSessions.endAll(viewer.user.id);
      await leave(req, res);
      events.signedOut({ userId: viewer.user.id, everywhere: true, origin: visitOf(req).origin });
      return goOn(res, viewer);
    },

    async session(req, res) {
      if (!req.context.viewer) {
        res.json({ signedIn: false });
        return;
      }
      const { user, csrfToken, expiresAt } = viewerOf(req);
      const made = await connections.list(user.id);
      res.json({
        signedIn: true,
        user: {
          id: user.id,
          issuer: user.issuer,
          subject: user.subject,
          name: user.name ?? null,
          email: user.email ?? null,
          admin: user.admin,
        },
        csrfToken,
        expiresAt: new Date(expiresAt).toISOString(),
        connections: made.map((connection) => connectionJson(connection, apps.find(connection.app), site.href)),
      });
    },
  };
}

/** 303 without a body: negotiating one that no browser shows costs more than the rest of the answer. */
function seeOther(res: Response, url: string): void {
  res.status(303).location(url).set('Content-Length', '0').end();
}

/** The request as its sign-in record tells it. */
function visitOf(req: Request): Visit {
  const { reference, id: requestId } = req.context;
  return { reference, browser: browserWords(req.headers['user-agent']), origin: { address: req.ip, requestId } };
}

/** Which app's return URLs count is known only once one is chosen; a card number goes no further all the same. */
function returnSuffix(returnTo: string | undefined, { isClean }: LocalSite): string {
  return returnTo === undefined || !readings(returnTo).every(isClean)
    ? ''
    : `&return_to=${encodeURIComponent(returnTo)}`;
}

/** Only registered scopes can be asked for (R4); an OpenID provider is always asked for `openid`. */
function chosenScopes(app: ConnectedApp, body: unknown): string[] | undefined {
  const given = formFields(body, 'scope').join(' ').trim();
  // A page that offers a choice says so: there no box ticked means none, and elsewhere all.
  if (given === '' && formField(body, 'choose') === undefined) return undefined;
  const chosen = new Set(given.split(/ +/).filter((scope) => scope !== ''));
  if (chosen.size === 0 && !app.scopes.includes('openid')) {
    throw new AppError('invalid_request', { detail: 'Choose something that the app may do, or disconnect it.' });
  }
  if (![...chosen].every((scope) => app.scopes.includes(scope))) {
    throw new AppError('invalid_request', { detail: 'Choose among the scopes that are registered for this app.' });
  }
  return app.scopes.filter((scope) => scope === 'openid' || chosen.has(scope));
}
