/** The API's base URL that a token response names for its user: whether calls may go there. Pure. */
import { isLoopbackHost } from '../config/rules.ts';
import { apiBaseUrlSchema, type ConnectedApp } from './connected-app.ts';
import { ProviderError } from './provider-error.ts';

type Rule = Pick<ConnectedApp, 'apiBaseUrlFrom'>;

/** Its last label begins with a letter, so that it is no address, and no dot follows. */
const HOST_NAME = /^([a-z0-9-]+\.)*[a-z][a-z0-9-]*$/;

/** @returns undefined where the response names none. @throws ProviderError where no calls may go to the one that it names */
export function statedApiBaseUrl({ apiBaseUrlFrom: from }: Rule, response: object): string | undefined {
  if (from === undefined) return undefined;
  const { member, hosts } = from;
  const stated = (response as Record<string, unknown>)[member] ?? undefined;
  if (stated === undefined) return undefined;
  const url = apiBaseUrlSchema.safeParse(stated).success ? new URL(String(stated)) : undefined;
  if (!url || !isAllowed(hosts, url)) {
    const host = url && HOST_NAME.test(url.hostname) ? url.host : undefined;
    throw new ProviderError('invalid', 'api_base_url_refused', { member, host });
  }
  return url.origin + url.pathname.replace(/\/+$/, '');
}

/** The one of a grant while its app allows calls to it: an administrator may have taken the host off the list since. */
export function grantedApiBaseUrl({ apiBaseUrlFrom: from }: Rule, granted: string | undefined): string | undefined {
  return from && granted !== undefined && isAllowed(from.hosts, new URL(granted)) ? granted : undefined;
}

/** Plain http is for loopback hosts, as everywhere; the address policy decides at each call. */
function isAllowed(hosts: readonly string[], { protocol, hostname, port }: URL): boolean {
  const isPlain = protocol === 'http:';
  if (!HOST_NAME.test(hostname) || (isPlain && !isLoopbackHost(hostname))) return false;
  const portInUse = port || (isPlain ? '80' : '443');
  return hosts.some((host) => {
    const [name = '', ownPort = '443'] = host.split(':');
    return portInUse === ownPort && (name.startsWith('.') ? hostname.endsWith(name) : hostname === name);
  });
}
