/** Owns where a browser may be sent back to: a local path, or a return URL that was registered (R70). Pure. */

/**
 * Answers the local path to go to, or undefined for anything that a browser could take for another host.
 * Judged as browsers read it: tabs and line breaks vanish, and a backslash counts as a slash.
 * @param given what the request said
 * @param origin our own origin
 */
export function localPath(given: unknown, origin: string): string | undefined {
  if (typeof given !== 'string' || given.length > 2000 || !/^\/(?![/\\])/.test(given)) return undefined;
  if (/[\\\s\p{Cc}\p{Cf}]/u.test(given)) return undefined;
  const url = URL.parse(given, origin);
  if (!url || url.origin !== origin) return undefined;
  const path = url.pathname + url.search + url.hash;
  // `/.//host` and the like: harmless against this origin, but not if anybody resolves it again.
  return /^\/(?!\/)/.test(path) && !/^\/(?:%2f|%5c)/i.test(path) ? path : undefined;
}

/**
 * Answers where to go: the local path, the registered URL that is given character by character, or home.
 */
export function returnTarget(
  given: unknown,
  site: { origin: string; home: string },
  returnUrls: readonly string[],
): string {
  const registered = returnUrls.find((url) => url === given);
  return registered ?? localPath(given, site.origin) ?? site.home;
}
