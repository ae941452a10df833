/** The names of cookies: each program on a host has its own. */

/**
 * Returns a name that no program at another port or path of the host has. A browser sends a cookie to all ports of a
 * host and, since `__Host-` requires `Path=/`, to all paths.
 * @param publicHref as in `PublicUrl`. Its port, unless it is the default, and its path become part of the name
 */
export function cookieName(name: string, publicHref: string): string {
  const { protocol, port, pathname } = new URL(publicHref);
  const prefix = protocol === 'https:' ? '__Host-' : '';
  const path = pathname.replace(/\/+$/, '').replaceAll('/', '+');
  return `${prefix}${name}${port && `.${port}`}${path}`;
}

export interface CookieNames {
  /** @param id six characters of base64url */
  nameOf(id: string): string;
  /** Returns the ids of those cookies that have such a name. */
  idsIn(cookies: object): string[];
}

/** Names for cookies of which a browser has several, each with an id. */
export function cookieNames(name: string, publicHref: string): CookieNames {
  const nameOf = (id: string) => cookieName(`${name}-${id}`, publicHref);
  const [beforeId = '', afterId = ''] = nameOf('/').split('/').map(RegExp.escape);
  const pattern = new RegExp(`^${beforeId}([\\w-]{6})${afterId}$`);
  return { nameOf, idsIn: (cookies) => Object.keys(cookies).flatMap((found) => pattern.exec(found)?.[1] ?? []) };
}
