/** Serves the files that pages load: our own from `views/shared/assets`, others from Pico and world-countries. */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import express, { type RequestHandler, type Response } from 'express';
import type { Countries } from 'world-countries';
import { methodNotAllowed } from '../http/problem.ts';
import { SHARED_VIEWS } from './views.ts';

const require = createRequire(import.meta.url);
const OF_PACKAGES: ReadonlyMap<string, string> = new Map([
  ['/pico.css', require.resolve('@picocss/pico/css/pico.min.css')],
]);

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

const FLAG_PATH = /^\/flags\/([a-z]{2})\.svg$/;

/**
 * The SVG behind `/flags/dk.svg`, a country by its alpha-2 code in lower case; undefined for any other path. Of
 * world-countries (ODbL), since not every system has glyphs for flag emoji.
 */
export function flagFile(path: string): string | undefined {
  const [, alpha2] = FLAG_PATH.exec(path) ?? [];
  if (alpha2 === undefined) return undefined;
  const countries: Countries = require('world-countries');
  const country = countries.find(({ cca2 }) => cca2.toLowerCase() === alpha2);
  return country && join(dirname(require.resolve('world-countries')), 'data', `${country.cca3.toLowerCase()}.svg`);
}
