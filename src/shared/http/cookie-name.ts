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
