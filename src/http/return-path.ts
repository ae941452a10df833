/** Owns where a browser may be sent back to: a local path, or a return URL that was registered (R70). Pure. */
import { readings } from './card-numbers.ts';

export interface LocalSite {
  origin: string;
  isClean: (text: string) => boolean;
}

/**
 * Answers the local path to go to, or undefined for anything that a browser could take for another host.
 * Judged as browsers read it: tabs and line breaks vanish, and a backslash counts as a slash.
 * @param given what the request said
 * @param site `origin`: our own; `isClean`: false for texts that hold a card number, which no address may carry on (R86)
 */
export function localPath(given: unknown, { origin, isClean }: LocalSite): string | undefined {
  if (typeof given !== 'string' || given.length > 2000 || !/^\/(?![/\\])/.test(given)) return undefined;
  if (!readings(given).every(isClean)) return undefined;
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
  site: LocalSite & { home: string },
  returnUrls: readonly string[],
): string {
  const registered = returnUrls.find((url) => url === given);
  return registered ?? localPath(given, site) ?? site.home;
}
