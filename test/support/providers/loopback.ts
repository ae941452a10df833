/** Moves the URLs of a provider's metadata and of an app's settings to loopback. */
import type { Json } from './profile.ts';

/** Members of a registration that are sent to the provider unchanged. */
const SENT = new Set(['scopes', 'parameters', 'tokenParameters', 'signIn']);

/** Moves URLs and hosts in the settings of an app to loopback. @param apiHost replaces the allowed hosts of the API */
export function settingsAtLoopback(settings: Json, local: (url: string) => string, apiHost: string): Json {
  const move = (value: unknown, name = ''): unknown => {
    if (name === 'hosts') return [apiHost];
    if (typeof value === 'string') return local(value);
    if (typeof value !== 'object' || value === null || Array.isArray(value) || SENT.has(name)) return value;
    return Object.fromEntries(Object.entries(value).map(([member, inner]) => [member, move(inner, member)]));
  };
  return move(settings) as Json;
}

/** Moves the URLs of provider metadata to loopback, but not scopes that look like URLs. */
export function documentAtLoopback(document: Json, local: (url: string) => string): Json {
  const isUrl = (name: string) => name === 'issuer' || /_(endpoint|uri)$/.test(name);
  return Object.fromEntries(
    Object.entries(document).map(([name, value]) => [name, isUrl(name) ? local(String(value)) : value]),
  );
}
