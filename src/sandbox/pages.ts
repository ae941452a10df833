/** Renders and sends the sandbox's pages. */
import { readFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Eta } from 'eta';
import type { RequestHandler, Response } from 'express';
import { createAssets, SHARED_ASSETS } from '../shared/pages/assets.ts';
import { inDrawnOrder, withFocus } from '../shared/pages/drawn-faults.ts';
import { SHARED_VIEWS } from '../shared/pages/views.ts';

/** No list of the sandbox has the search of long lists. */
const isLong = () => false;

export interface Pages {
  /** Renders a page. @param name the name of a template in views/sandbox, without its extension */
  render(name: string, data: Record<string, unknown>): string;
  /** Renders and sends the page with `headers`. */
  send(res: Response, name: string, data: Record<string, unknown>): void;
  /** There is no `form-action`, because browsers apply it to every redirect after a form, including that to the app. */
  readonly headers: Readonly<Record<string, string>>;
  /** Serves style sheets, scripts and icon below `/assets`. */
  readonly serveAssets: RequestHandler;
}

const HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'",
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

export function createPages(): Pages {
  const views = fileURLToPath(new URL('../../views/', import.meta.url));
  const pico = fileURLToPath(import.meta.resolve('@picocss/pico/css/pico.min.css'));
  const eta = new Eta({ views, cache: true, autoEscape: true });
  // The names of shared templates begin with `/`, like those of the other programs.
  eta.readFile = (path) => {
    const isOwn = path.startsWith(join(views, 'sandbox/'));
    return readFileSync(isOwn ? path : join(SHARED_VIEWS, relative(views, path)), 'utf8');
  };

  const ownFiles = ['sandbox.css', 'icon.svg', 'tour.js'].map((name) => join(views, 'sandbox', name));
  const files = [...ownFiles, pico, join(SHARED_ASSETS, 'back.js')];
  const assets = createAssets(new Map(files.map((file) => [`/${basename(file)}`, readFileSync(file)])));
  const render = (name: string, data: Record<string, unknown>) =>
    eta.render(`/sandbox/${name}`, { ...data, show: { inDrawnOrder, withFocus, isLong }, assets: assets.path });
  const send = (res: Response, name: string, data: Record<string, unknown>) => {
    res.set(HEADERS).send(render(name, data));
  };
  return { render, send, headers: HEADERS, serveAssets: assets.serve };
}
