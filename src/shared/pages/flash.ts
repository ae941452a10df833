/** One-time data for the page after a redirect, such as a notice or a new secret: read once, by the same session. */
import { randomBytes } from 'node:crypto';
import type { Request, Response } from 'express';
import { queryField } from '../http/body.ts';
import { sessionOf } from '../sessions/guards.ts';
import { hashOf, keys } from '../storage/keys.ts';
import type { SealedJson } from '../storage/sealed-json.ts';
import type { Store } from '../storage/store.ts';
import type { MadeSecret, Notice } from './page-data.ts';

export interface Flash {
  notice?: Notice | undefined;
  made?: MadeSecret | undefined;
}

export interface Flashes {
  /** Returns the URL at which a page can `take` the flash. For routes behind a guard that demands a user. */
  keep(req: Request, url: string, flash: Flash): Promise<string>;
  /**
   * Empty unless this session was redirected here; a second call, such as a reload, finds nothing, unless the first response
   * became an error or broke off. Call it last, when nothing else can fail.
   */
  take(req: Request): Promise<Flash>;
}

const LIFETIME_SECONDS = 60;

/** A record for each redirect, so that two tabs of one session get their own. */
export function createFlashes(parts: { store: Store; sealedJson: SealedJson }): Flashes {
  const { store, sealedJson } = parts;
  const keyOf = (req: Request, id: string) => keys.flash(hashOf(`${sessionOf(req).ref}:${id}`));

  const put = (key: string, value: string) => store.write([{ put: key, value, lifetimeSeconds: LIFETIME_SECONDS }]);

  return {
    async keep(req, url, flash) {
      const id = randomBytes(16).toString('base64url');
      const key = keyOf(req, id);
      await put(key, await sealedJson.seal(flash, key));
      return `${url}${url.includes('?') ? '&' : '?'}done=${id}`;
    },
    async take(req) {
      const id = queryField(req, 'done');
      if (id === undefined || !req.context.session || req.method === 'HEAD') return {};
      const key = keyOf(req, id);
      const stored = await store.get(key);
      // Of several concurrent requests, only the one that deletes the record shows it.
      if (!stored || !(await store.write([{ delete: key, ifVersion: stored.version }]))) return {};
      const { res } = req;
      // If the store fails as well, the secret is lost: another can be made.
      res?.once('close', () => !isShown(res) && void put(key, stored.value).catch(() => undefined));
      return sealedJson.openOrThrow<Flash>(stored.value, key);
    },
  };
}

function isShown(res: Response): boolean {
  return res.writableFinished && res.statusCode < 400;
}
