/**
 * One-time data for the page after a redirect, such as a notice or a new secret. Only the same session can read it, or,
 * if it was saved without one, a browser without a session that has its URL.
 */
import { randomBytes } from 'node:crypto';
import type { Request, Response } from 'express';
import { queryField } from '../http/body.ts';
import { refuseSpeculative } from '../http/speculative.ts';
import { hashOf, keys } from '../storage/keys.ts';
import type { SealedJson } from '../storage/sealed-json.ts';
import type { Store } from '../storage/store.ts';
import type { DisconnectedApp, NewSecret, Notice } from './page-data.ts';

export interface Flash {
  notice?: Notice | undefined;
  newSecret?: NewSecret | undefined;
  /** What became of each connection of a user who was deleted. */
  disconnected?: readonly DisconnectedApp[] | undefined;
}

export interface Flashes {
  /** Stores the flash, and returns the URL at which a page can `take` it. */
  save(req: Request, url: string, flash: Flash): Promise<string>;
  /**
   * Returns the flash, or `{}` unless this session was redirected here. A second request, such as a reload, gets the
   * flash only if the first response was an error or was cut off. Call it last, when nothing else can fail.
   */
  take(req: Request): Promise<Flash>;
}

const LIFETIME_SECONDS = 60;

/** Each redirect has its own record, since a session can have several tabs. */
export function createFlashes(parts: { store: Store; sealedJson: SealedJson }): Flashes {
  const { store, sealedJson } = parts;
  const keyOf = (req: Request, id: string) => keys.flash(hashOf(`${req.context.session?.ref ?? ''}:${id}`));

  const put = (key: string, value: string) => store.write([{ put: key, value, lifetimeSeconds: LIFETIME_SECONDS }]);

  return {
    async save(req, url, flash) {
      const id = randomBytes(16).toString('base64url');
      const key = keyOf(req, id);
      await put(key, await sealedJson.seal(flash, key));
      return `${url}${url.includes('?') ? '&' : '?'}done=${id}`;
    },
    async take(req) {
      const id = queryField(req, 'done');
      if (id === undefined || req.method === 'HEAD') return {};
      refuseSpeculative(req);
      const key = keyOf(req, id);
      const stored = await store.get(key);
      // Only one of several concurrent requests deletes the record, and so shows it.
      if (!stored || !(await store.write([{ delete: key, ifVersion: stored.version }]))) return {};
      const { res } = req;
      // If this write fails, too, the secret is lost, and the user has to create another one.
      res?.once('close', () => !isShown(res) && void put(key, stored.value).catch(() => undefined));
      return sealedJson.openOrThrow<Flash>(stored.value, key);
    },
  };
}

function isShown(res: Response): boolean {
  return res.writableFinished && res.statusCode < 400;
}
