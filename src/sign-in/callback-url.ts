/** The URL that a browser comes back with. */
import type { Fail } from './fail.ts';

/** Each may stand in a callback once (R14). */
const PARAMETERS = ['code', 'state', 'iss', 'error', 'error_description'];

/** The state of a callback. @throws SignInError where it is missing, or a parameter is doubled */
export function singleState(callback: URL, fail: Fail): string {
  if (PARAMETERS.some((name) => callback.searchParams.getAll(name).length > 1)) throw fail('parameter_doubled');
  const state = callback.searchParams.get('state');
  if (!state) throw fail('state_missing');
  return state;
}

/** The callback's parameters at the redirect URI that was sent: the host and path of the request prove nothing. */
export function callbackAt(redirectUri: string, callback: URL): URL {
  const url = new URL(redirectUri);
  url.search = callback.search;
  return url;
}
