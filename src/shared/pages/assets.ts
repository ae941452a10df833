/** Serves the files that pages load: our own from `views/shared/assets`, others from Pico and world-countries. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import express, { type RequestHandler, type Response } from 'express';
import { methodNotAllowed } from '../http/problem.ts';
import { flagFile } from './flags.ts';
import { SHARED_VIEWS } from './views.ts';

const { resolve } = createRequire(import.meta.url);
const OF_PACKAGES: ReadonlyMap<string, string> = new Map([['/pico.css', resolve('@picocss/pico/css/pico.min.css')]]);

/** The names do not change with the content, so browsers may cache them for an hour only. */
function cacheable(res: Response): void {
  res.setHeader('Cache-Control', 'public, max-age=3600');
}

/** @param directory absolute path of our own files */
export function assets(directory = join(SHARED_VIEWS, 'assets')): RequestHandler {
  const own = express.static(directory, { index: false, redirect: false, dotfiles: 'ignore', setHeaders: cacheable });
  const refuseMethod = methodNotAllowed(['GET', 'HEAD']);
  return (req, res, next) => {
    req.context.route = '/assets';
    if (req.method !== 'GET' && req.method !== 'HEAD') return refuseMethod(req, res, next);
    const file = OF_PACKAGES.get(req.path) ?? flagFile(req.path);
    if (file === undefined) return own(req, res, next);
    cacheable(res);
    return res.sendFile(file, { cacheControl: false }, (error) => error && next(error));
  };
}
