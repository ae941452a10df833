/** Owns what is read of the URL that a browser comes back with. */
import type { Fail } from './fail.ts';

const ONCE = ['code', 'state', 'iss', 'error', 'error_description', 'response'];

/** The state, once every parameter that matters was seen to be there at most once (R14). */
export function singleState(callback: URL, fail: Fail): string {
  if (ONCE.some((name) => callback.searchParams.getAll(name).length > 1)) throw fail('parameter_doubled');
  const state = callback.searchParams.get('state');
  if (!state) throw fail('state_missing');
  return state;
}

/** The callback's parameters at the redirect URI that was sent: the request's own host and path say nothing. */
export function callbackAt(redirectUri: string, callback: URL): URL {
  const url = new URL(redirectUri);
  url.search = callback.search;
  return url;
}
