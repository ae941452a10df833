/** Moves what a provider publishes, and the settings of an app there, to loopback: by one rule for all providers. */
import type { Json } from './profile.ts';

/** The members of a registration that are sent to the provider as they are. */
const SENT = new Set(['scopes', 'parameters', 'tokenParameters', 'signIn']);

/** Settings with URLs and hosts of the provider moved to loopback. @param apiHost in place of hosts that APIs may have */
export function settingsAtLoopback(settings: Json, local: (url: string) => string, apiHost: string): Json {
  const move = (value: unknown, name = ''): unknown => {
    if (name === 'hosts') return [apiHost];
    if (typeof value === 'string') return local(value);
    if (typeof value !== 'object' || value === null || Array.isArray(value) || SENT.has(name)) return value;
    return Object.fromEntries(Object.entries(value).map(([member, inner]) => [member, move(inner, member)]));
  };
  return move(settings) as Json;
}

/** Only its URLs: scopes may look like some. */
export function documentAtLoopback(document: Json, local: (url: string) => string): Json {
  const isUrl = (name: string) => name === 'issuer' || /_(endpoint|uri)$/.test(name);
  return Object.fromEntries(
    Object.entries(document).map(([name, value]) => [name, isUrl(name) ? local(String(value)) : value]),
  );
}
