/** Owns the list of all routes, read from the one screen that has them, so that no test forgets a new one. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export interface ListedRoute {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** As in the table, such as `/bin/:bin`. */
  pattern: string;
  /** The pattern with values that exist. */
  path: string;
}

const VALUES: Record<string, string> = {
  bin: '45717360',
  app: 'platform',
  code: 'not_found',
  id: 'Nobodys-session_',
  change: 'enable',
};

/** Asked by providers: no cookie counts there, and they prove themselves by a signature. */
export const BY_PROVIDERS = '/oauth/backchannel-logout/:app';

export const ROUTES = listedIn('app.ts');

/** All of the administration, pages and API. */
export const ADMIN_ROUTES = listedIn('admin/routes.ts');

function listedIn(file: string): readonly ListedRoute[] {
  const source = readFileSync(fileURLToPath(new URL(`../../src/${file}`, import.meta.url)), 'utf8');
  return [...source.matchAll(/\[\s*'(GET|POST|PUT|DELETE)',\s*'(\/[^']*)'/g)].map(([, method, pattern = '']) => ({
    method: method as ListedRoute['method'],
    pattern,
    path: pattern.replace(/:(\w+)/g, (_all, name: string) => {
      const value = VALUES[name];
      if (value === undefined) throw new Error(`Say in test/support/routes.ts what stands for :${name}.`);
      return value;
    }),
  }));
}

/** Asked by back-end services: no cookie counts there, and the relay token decides. */
export const BY_SERVICES = '/relay/';

/** Routes by which a browser changes something. */
export const CHANGES = ROUTES.filter(
  ({ method, pattern }) => method === 'POST' && pattern !== BY_PROVIDERS && !pattern.startsWith(BY_SERVICES),
);
