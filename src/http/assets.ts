/** Owns the files that pages load: our own from `views/assets`, and Pico's style sheet from its package. */
import { createRequire } from 'node:module';
import express, { type RequestHandler, type Response } from 'express';
import { methodNotAllowed } from './problem.ts';

const PICO = createRequire(import.meta.url).resolve('@picocss/pico/css/pico.min.css');

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
    if (req.path !== '/pico.css') return own(req, res, next);
    cacheable(res);
    return res.sendFile(PICO, { cacheControl: false }, (error) => error && next(error));
  };
}
