/** Reads the API base URL in a token response and checks that calls may go there. Pure. */
import { isLoopbackHost } from '../config/rules.ts';
import { apiBaseUrlSchema, type ConnectedApp } from './connected-app.ts';
import { ProviderError } from './provider-error.ts';

type Rule = Pick<ConnectedApp, 'apiBaseUrlFrom'>;

/** The last label begins with a letter, which excludes IP addresses. A final dot is not allowed. */
const HOST_NAME = /^([a-z0-9-]+\.)*[a-z][a-z0-9-]*$/;

/** @returns undefined if the response names no URL. @throws ProviderError if calls to that URL are not allowed */
export function readApiBaseUrl({ apiBaseUrlFrom: from }: Rule, response: object): string | undefined {
  if (from === undefined) return undefined;
  const { member, hosts } = from;
  const value = (response as Record<string, unknown>)[member] ?? undefined;
  if (value === undefined) return undefined;
  const url = apiBaseUrlSchema.safeParse(value).success ? new URL(String(value)) : undefined;
  if (!url || !isAllowed(hosts, url)) {
    const host = url && HOST_NAME.test(url.hostname) ? url.host : undefined;
    throw new ProviderError('invalid', 'api_base_url_refused', { member, host });
  }
  return url.origin + url.pathname.replace(/\/+$/, '');
}

/** The stored URL of a grant if its app still allows the host: an administrator may have removed it from the list. */
export function allowedApiBaseUrl({ apiBaseUrlFrom: from }: Rule, storedUrl: string | undefined): string | undefined {
  return from && storedUrl !== undefined && isAllowed(from.hosts, new URL(storedUrl)) ? storedUrl : undefined;
}

/** Plain http is for loopback hosts only; the address policy also checks each call. */
function isAllowed(hosts: readonly string[], { protocol, hostname, port }: URL): boolean {
  const isPlain = protocol === 'http:';
  if (!HOST_NAME.test(hostname) || (isPlain && !isLoopbackHost(hostname))) return false;
  const portInUse = port || (isPlain ? '80' : '443');
  return hosts.some((host) => {
    const [name = '', allowedPort = '443'] = host.split(':');
    return portInUse === allowedPort && (name.startsWith('.') ? hostname.endsWith(name) : hostname === name);
  });
}
