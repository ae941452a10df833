/** Matches the `resource` of a token exchange (RFC 8693 section 2.1, RFC 8707) to a connected app. */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';

/** True if the app declares the resource. If the app declares none, true for its API base URL and the URLs below it. */
export function isResourceOf(app: ConnectedApp, resource: string): boolean {
  if (app.resources) return app.resources.includes(resource);
  if (app.apiBaseUrl === undefined) return false;
  const [base, url] = [URL.parse(app.apiBaseUrl), URL.parse(resource)];
  if (!base || !url || url.hash !== '' || url.origin !== base.origin) return false;
  const path = base.pathname.replace(/\/+$/, '');
  return url.pathname === path || url.pathname.startsWith(`${path}/`);
}
