/** Owns `GET /threads/current` for browser sessions. */
import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { AppStore } from '../connected-apps/app-store.ts';
import { AppError } from '../errors.ts';
import { queryField } from '../http/body.ts';
import type { Relayed } from '../http/front-door.ts';
import { viewerOf } from '../http/viewer.ts';
import type { ThreadCall } from './thread-call.ts';

export function threadRoutes(parts: { apps: AppStore; threads: ThreadCall }): { current: Relayed } {
  const { apps, threads } = parts;
  return {
    async current(req, res) {
      const app = apps.threadApp(queryField(req, 'app'));
      const gone = new AbortController();
      // Only for a caller who left: an answer that is complete closes as well, and needs no costly abort.
      res.once('close', () => res.writableFinished || gone.abort());
      // Closed before anybody listened.
      if (res.destroyed) return;
      const answer = await threads.current({ userId: viewerOf(req).user.id, app, signal: gone.signal });
      if (gone.signal.aborted) return;
      // Whatever the platform sends is shown as data, never run as a page of ours.
      const policy = "default-src 'none'; frame-ancestors 'none'; sandbox";
      res.statusCode = answer.status;
      for (const [name, value] of Object.entries(answer.headers)) res.setHeader(name, value);
      res.setHeader('Content-Security-Policy', policy);
      await pass(answer.body, res);
    },
  };
}

/**
 * Resolves once the answer is whole or the caller has gone. Where the body breaks off the answer is left unfinished, so that
 * whoever handles the error can report it and cut the connection.
 */
function pass(body: Readable, res: ServerResponse): Promise<void> {
  return new Promise((resolve, reject) => {
    res.once('close', resolve);
    body.once('error', (cause) =>
      reject(new AppError('upstream_error', { logDetail: 'the answer of the platform broke off', cause })),
    );
    body.pipe(res);
  });
}
