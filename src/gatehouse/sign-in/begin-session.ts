/** Begins the session of a sign-in, and gives the browser a new secret for its pending requests. */
import type { Request, Response } from 'express';
import {
  type BeginningSession,
  type BrowserSecret,
  type BrowserSessions,
  type NewSession,
  newBrowserSecret,
} from '../../shared/sessions/browser-sessions.ts';

/**
 * Begins a session under a new id, so that an earlier id opens nothing (R17).
 * @param browserSecret of the browser, under which the pending request was stored
 */
export type BeginSession = (session: NewSession, browserSecret: BrowserSecret) => Promise<BeginningSession>;

export function createBeginSession(browser: BrowserSessions, req: Request, res: Response): BeginSession {
  return async (session, browserSecret) => {
    const { list, save, drop } = await browser.begin(req, session);
    return {
      list,
      drop,
      async save() {
        await save();
        // Another tab has signed this user in meanwhile, and the browser has a newer secret.
        if (browserSecret.isEarlier) return;
        const earlierSecrets = browser.readBrowserSecrets(req).map((secret) => ({ ...secret, isEarlier: true }));
        browser.setBrowserSecrets(req, res, [...earlierSecrets, newBrowserSecret()]);
      },
    };
  };
}
