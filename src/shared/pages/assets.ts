/**
 * Serves the files that pages load: those of `views/shared/assets`, Pico, and the flags of world-countries. Their
 * addresses have a version of their content, so browsers keep them for a year, and load others after an upgrade.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import type { RequestHandler } from 'express';
import type { Countries } from 'world-countries';
import { compressed } from '../http/compressed.ts';
import { methodNotAllowed } from '../http/problem.ts';
import { once } from '../once.ts';

const require = createRequire(import.meta.url);

export const SHARED_ASSETS = join(import.meta.dirname, '../../..', 'views/shared/assets');

export interface Assets {
  /** The path of the files with their version, `/assets/VERSION`, which is below the base path. */
  path: string;
  /** Serves the files to a GET below `/assets`, and passes other requests on. */
  serve: RequestHandler;
}

/**
 * The files are read once. If a new version replaced them on disk while the process runs, it would otherwise serve new
 * content at the address of the old one, and browsers would keep it for a year.
 *
 * While processes are replaced one by one, a page of one version may ask a process of the other for its files. It gets
 * the file that this process has, which is not kept: the page works, with a style that may be of the other version.
 * @param files the content by the path below `/assets/VERSION`
 * @param others files that are read from disk when they are needed. `version` stands for their content; `find` returns
 *   the absolute path of a file
 */
export function createAssets(
  files: ReadonlyMap<string, Buffer>,
  others: { version: string; find(path: string): string | undefined } = { version: '', find: () => undefined },
): Assets {
  const version = versionOf(files, others.version);
  const contents = new Map([...files].map(([path, content]) => [path, compressed(content)]));
  return {
    path: `/assets/${version}`,
    serve(req, res, next) {
      const [, sentVersion, path = ''] = VERSIONED_PATH.exec(req.path) ?? [];
      const sendContent = contents.get(path);
      const file = sendContent ? undefined : others.find(path);
      if (!sendContent && !file) return next();
      res.set('Cache-Control', sentVersion === version ? 'public, max-age=31536000, immutable' : 'no-store');
      if (file) return res.sendFile(file, { cacheControl: false }, (error) => error && next(error));
      res.type(extname(path));
      return sendContent?.(req, res);
    },
  };
}

const VERSIONED_PATH = /^\/([a-p]{16})(\/.+)$/;

/** Returns letters only, since digits could look like a card number to the guard and to logs. */
function versionOf(files: ReadonlyMap<string, Buffer>, versionOfOthers: string): string {
  const hash = createHash('sha256').update(versionOfOthers);
  for (const [path, content] of files) hash.update(`\0${path}\0${content.length}\0`).update(content);
  const letterOf = (hexDigit: string) => 'abcdefghijklmnop'.charAt(Number.parseInt(hexDigit, 16));
  return hash.digest('hex').slice(0, 16).replace(/./g, letterOf);
}

/** Reads all files of a folder, by their paths below it, such as `/icons/gate.svg`. */
export function readFiles(directory: string): Map<string, Buffer> {
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = entries.map(({ parentPath, name }) => join(parentPath, name)).sort();
  return new Map(paths.map((path) => [path.slice(directory.length), readFileSync(path)]));
}

/** The files of Gatehouse and the BIN lookup service. */
export const sharedAssets = once(() => {
  const pico = readFileSync(require.resolve('@picocss/pico/css/pico.min.css'));
  const { version } = require('world-countries/package.json');
  return createAssets(readFiles(SHARED_ASSETS).set('/pico.css', pico), { version, find: flagFile });
});

/** Serves `sharedAssets` at `/assets`. */
export function assets(): RequestHandler {
  const { serve } = sharedAssets();
  const refuseMethod = methodNotAllowed(['GET', 'HEAD']);
  return (req, res, next) => {
    req.context.route = '/assets';
    return (req.method === 'GET' || req.method === 'HEAD' ? serve : refuseMethod)(req, res, next);
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
