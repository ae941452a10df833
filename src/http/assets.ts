/** Owns the files that pages load: our own from `views/assets`, and those of Pico, uPlot and world-countries from their packages. */
import { createRequire } from 'node:module';
import express, { type RequestHandler, type Response } from 'express';
import { flagFile } from './flags.ts';
import { methodNotAllowed } from './problem.ts';

const { resolve } = createRequire(import.meta.url);
const OF_PACKAGES: ReadonlyMap<string, string> = new Map([
  ['/pico.css', resolve('@picocss/pico/css/pico.min.css')],
  ['/uplot.js', resolve('uplot/dist/uPlot.iife.min.js')],
  ['/uplot.css', resolve('uplot/dist/uPlot.min.css')],
]);

/** The names do not change with their content, so browsers ask again after an hour. */
function cacheable(res: Response): void {
  res.setHeader('Cache-Control', 'public, max-age=3600');
}

/** @param directory absolute path of `views/assets` */
export function assets(directory: string): RequestHandler {
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
