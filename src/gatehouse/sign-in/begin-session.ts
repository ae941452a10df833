/** Begins the session of a sign-in, and gives the browser a new secret for its pending requests. */
import { randomBytes } from 'node:crypto';
import type { Request, Response } from 'express';
import type { BeginningSession, BrowserSessions, NewSession } from '../../shared/sessions/browser-sessions.ts';

/**
 * Begins a session under a new id, so that an earlier id opens nothing (R17).
 * @param browserSecret of the browser, under which the pending request was stored
 */
export type BeginSession = (session: NewSession, browserSecret: string) => Promise<BeginningSession>;

export function createBeginSession(browser: BrowserSessions, req: Request, res: Response): BeginSession {
  return async (session, browserSecret) => {
    const { list, save, drop } = await browser.begin(req, session);
    return {
      list,
      drop,
      async save() {
        await save();
        const { current } = browser.readBrowserSecrets(req) ?? {};
        // If they differ, another tab has signed this user in meanwhile, and the cookie already holds a newer secret.
        if (browserSecret === current)
          browser.setBrowserSecrets(res, { current: newBrowserSecret(), earlier: browserSecret });
      },
    };
  };
}

export const newBrowserSecret = () => randomBytes(24).toString('base64url');
