/** Serves the files that pages load: those of `views/shared/assets`, Pico and world-countries. */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import express, { type RequestHandler, type Response } from 'express';
import type { Countries } from 'world-countries';
import { methodNotAllowed } from '../http/problem.ts';
import { SHARED_VIEWS } from './views.ts';

const require = createRequire(import.meta.url);
const PACKAGE_FILES: ReadonlyMap<string, string> = new Map([
  ['/pico.css', require.resolve('@picocss/pico/css/pico.min.css')],
]);

/** Browsers may cache files for only an hour, since the names do not change with the content. */
function setCaching(res: Response): void {
  res.setHeader('Cache-Control', 'public, max-age=3600');
}

/** @param directory the absolute path of Gatehouse's own files */
export function assets(directory = join(SHARED_VIEWS, 'assets')): RequestHandler {
  const serveOwnFile = express.static(directory, {
    index: false,
    redirect: false,
    dotfiles: 'ignore',
    setHeaders: setCaching,
  });
  const refuseMethod = methodNotAllowed(['GET', 'HEAD']);
  return (req, res, next) => {
    req.context.route = '/assets';
    if (req.method !== 'GET' && req.method !== 'HEAD') return refuseMethod(req, res, next);
    const file = PACKAGE_FILES.get(req.path) ?? flagFile(req.path);
    if (file === undefined) return serveOwnFile(req, res, next);
    setCaching(res);
    return res.sendFile(file, { cacheControl: false }, (error) => error && next(error));
  };
}

const FLAG_PATH = /^\/flags\/([a-z]{2})\.svg$/;

/**
 * Returns the file of a flag, such as `/flags/dk.svg`, which names the alpha-2 code of the country in lower case;
 * undefined for any other path. The flags are those of world-countries (ODbL), since not every system has glyphs for
 * flag emoji.
 */
export function flagFile(path: string): string | undefined {
  const [, alpha2] = FLAG_PATH.exec(path) ?? [];
  if (alpha2 === undefined) return undefined;
  const countries: Countries = require('world-countries');
  const country = countries.find(({ cca2 }) => cca2.toLowerCase() === alpha2);
  return country && join(dirname(require.resolve('world-countries')), 'data', `${country.cca3.toLowerCase()}.svg`);
}
