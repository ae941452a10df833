/** Rewrites the `Link` header of a platform (RFC 8288), so that callers page through declared routes. Pure. */

import type { ThreadApp } from '../connected-apps/current-apps.ts';
import { matchCall } from '../connected-apps/route-match.ts';

const MAX_LINKS = 50;
/** One link with its parameters, which are tokens or quoted texts (RFC 8288 section 3), and the comma after it. */
const LINK =
  /[ \t]*<([^<>\s]*)>((?:[ \t]*;[ \t]*[\w!#$%&'*+.^`|~-]+(?:[ \t]*=[ \t]*(?:"(?:[^"\\]|\\.)*"|[^\s",;<>]+))?)*)[ \t]*(?:,|$)/y;

/**
 * Returns the header with addresses below `prefix`; undefined if it cannot be passed on: a target is no call of a
 * declared route with GET, or the header cannot be read.
 * @param apiUrl the URL below which the platform is called
 * @param prefix the path below which callers find the platform, such as `/api/APP`
 */
export function rewrittenLinks(app: ThreadApp, link: string, apiUrl: string, prefix: string): string | undefined {
  const links = linksIn(link);
  const rewrittenLinks = links?.map(({ target, parameters }) => {
    const path = callOf(app, target, apiUrl);
    return path === undefined ? undefined : `<${prefix}${path}>${parameters}`;
  });
  return rewrittenLinks?.every((text) => text !== undefined) ? rewrittenLinks.join(', ') : undefined;
}

function linksIn(header: string): { target: string; parameters: string }[] | undefined {
  const links: { target: string; parameters: string }[] = [];
  LINK.lastIndex = 0;
  while (LINK.lastIndex < header.length) {
    const [, target, parameters = ''] = LINK.exec(header) ?? [];
    // With an anchor, the link is that of another resource.
    if (target === undefined || links.length === MAX_LINKS || /;[ \t]*anchor\b/i.test(parameters)) return undefined;
    links.push({ target, parameters });
  }
  return links;
}

/** Returns path and query of a call of a declared route; undefined if the target is none. */
function callOf(app: ThreadApp, target: string, apiUrl: string): string | undefined {
  // A target that begins with two slashes names a host; one without a slash is relative to a path that callers lack.
  if (!/^(?:https?:\/\/|\/(?!\/))/i.test(target)) return undefined;
  const base = new URL(apiUrl);
  const url = URL.parse(target, base);
  const basePath = base.pathname.replace(/\/+$/, '');
  const isBelow = url?.origin === base.origin && url.pathname.startsWith(`${basePath}/`);
  if (!url || !isBelow || url.username !== '' || url.password !== '' || url.hash !== '') return undefined;
  try {
    return matchCall(app, 'GET', url.pathname.slice(basePath.length) + url.search).path;
  } catch {
    return undefined;
  }
}
