/** Owns how the sandbox's pages are made and sent: templates, style sheets and the headers that go with them. */
import { fileURLToPath } from 'node:url';
import { Eta } from 'eta';
import express, { type Response } from 'express';

export interface Pages {
  /** `name` is a template of views/sandbox without its ending. */
  render(name: string, data: Record<string, unknown>): string;
  /** Renders and answers, with the headers below. */
  send(res: Response, name: string, data: Record<string, unknown>): void;
  /** For every page. No `form-action`: browsers apply it to the whole redirect chain behind a form, back to the app. */
  readonly headers: Readonly<Record<string, string>>;
  /** Style sheets and icon, below `/assets`. */
  readonly assets: express.Router;
}

const HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'",
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

export function createPages(): Pages {
  const views = fileURLToPath(new URL('../../views/sandbox/', import.meta.url));
  const pico = fileURLToPath(import.meta.resolve('@picocss/pico/css/pico.min.css'));
  const eta = new Eta({ views, cache: true, autoEscape: true });

  const assets = express.Router();
  assets.get('/pico.min.css', (_req, res) => res.sendFile(pico));
  for (const name of ['sandbox.css', 'icon.svg']) {
    assets.get(`/${name}`, (_req, res) => res.sendFile(name, { root: views }));
  }
  const render = (name: string, data: Record<string, unknown>) => eta.render(`./${name}`, data);
  const send = (res: Response, name: string, data: Record<string, unknown>) => {
    res.set(HEADERS).send(render(name, data));
  };
  return { render, send, headers: HEADERS, assets };
}
