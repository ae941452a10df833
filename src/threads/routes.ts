/** Owns `GET /threads/current` for browser sessions. */
import { pipeline } from 'node:stream/promises';
import type { RequestHandler } from 'express';
import type { AppStore } from '../connected-apps/app-store.ts';
import { queryField } from '../http/body.ts';
import { viewerOf } from '../http/viewer.ts';
import type { ThreadCall } from './thread-call.ts';

export function threadRoutes(parts: { apps: AppStore; threads: ThreadCall }): { current: RequestHandler } {
  const { apps, threads } = parts;
  return {
    async current(req, res) {
      const app = apps.threadApp(queryField(req.query, 'app'));
      const gone = new AbortController();
      res.once('close', () => gone.abort());
      const answer = await threads.current({ userId: viewerOf(req).user.id, app, signal: gone.signal });
      // Whatever the platform sends is shown as data, never run as a page of ours.
      res
        .status(answer.status)
        .set({ ...answer.headers, 'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'; sandbox" });
      await pipeline(answer.body, res);
    },
  };
}
