/** Rules for callback URLs and return URLs, which are compared character by character (RFC 9700 section 4.1). Pure. */
import { isLoopbackHost } from '../config/rules.ts';

/** Advice for each rule, shown next to the field. */
export const CALLBACK_URL_ADVICE = {
  not_absolute: 'Enter the whole URL, beginning with https:// and a host name.',
  not_https: 'Begin with https:// (plain http is for 127.0.0.1, [::1] and localhost only).',
  wildcard: 'Write out every callback URL: "*" is not allowed, they are compared character by character.',
  fragment: 'Leave out "#" and what follows it.',
  userinfo: 'Leave out the user name and password before the host.',
  dot_segments: 'Leave out "." and ".." between slashes, also when percent-encoded or followed by ";".',
  backslash: 'Use "/" instead of "\\", also when percent-encoded.',
  control: 'Leave out spaces, line breaks and other invisible characters.',
  duplicate: 'This URL is in the list twice.',
};
export type CallbackUrlRule = keyof typeof CALLBACK_URL_ADVICE;

/**
 * Checks a URL without normalizing it, because providers compare it character by character.
 * @returns the first rule that it breaks, or undefined
 */
export function checkCallbackUrl(text: string): CallbackUrlRule | undefined {
  if (hasInvisible(text)) return 'control';
  if (text.includes('\\') || /%5c/i.test(text)) return 'backslash';
  if (text.includes('*') || /%2a/i.test(text)) return 'wildcard';
  if (text.includes('#')) return 'fragment';
  const parts = /^([a-z][a-z0-9+.-]*):\/\/([^/?]*)([^?]*)/i.exec(text);
  const url = parts ? URL.parse(text) : null;
  if (!parts || !url) return 'not_absolute';
  const [, scheme = '', authority = '', path = ''] = parts;
  if (authority.includes('@')) return 'userinfo';
  // `URL` reads `https:///host` as if it had two slashes; other parsers do not.
  if (authority === '' || url.hostname === '') return 'not_absolute';
  if (!isSecure(scheme, url.hostname)) return 'not_https';
  return path.split('/').some(isDotSegment) ? 'dot_segments' : undefined;
}

/** Checks each URL of a list, and that the list has no duplicates. */
export function checkCallbackUrls(urls: readonly string[]): { position: number; rule: CallbackUrlRule }[] {
  return urls.flatMap((url, position) => {
    const rule = checkCallbackUrl(url) ?? (urls.indexOf(url) < position ? 'duplicate' : undefined);
    return rule ? [{ position, rule }] : [];
  });
}

/**
 * The URL with the host as browsers send it: in ASCII, in lower case, without a final dot and without the default port
 * (WHATWG URL Standard). The rest stays as it is.
 * @returns undefined if the host is written so already
 */
export function asciiForm(url: string): string | undefined {
  const [, scheme = '', authority = '', rest = ''] = /^([a-z][a-z0-9+.-]*:\/\/)([^/?#]*)(.*)$/is.exec(url) ?? [];
  const host = URL.parse(scheme + authority)?.host.replace(/\.(?=:|$)/, '');
  const asciiUrl = host && scheme.toLowerCase() + host + rest;
  return asciiUrl === url ? undefined : asciiUrl;
}

/** Adds the ASCII form, in which look-alike letters of other scripts show. */
export function withAsciiForm(url: string): string {
  const asciiUrl = asciiForm(url);
  return asciiUrl === undefined ? url : `${url} (for browsers ${asciiUrl})`;
}

/**
 * The callback URL of an app here from which `url` differs only in the form of its host, case, scheme, `www.`, query,
 * fragment or slashes.
 * @returns undefined for a correct callback URL, and for a URL that resembles none
 */
export function intendedCallbackUrl(url: string, publicHref: string): string | undefined {
  const id = /\/oauth\/callback\/([a-z0-9-]{1,40})$/.exec(withoutDetails(url))?.[1];
  const callbackUrl = `${publicHref}/oauth/callback/${id}`;
  return url !== callbackUrl && withoutDetails(url) === withoutDetails(callbackUrl) ? callbackUrl : undefined;
}

/** The first URL that looks like a misspelled `callbackUrl`, which is the callback URL of an app here. */
export const findSimilarUrl = (urls: readonly string[], callbackUrl: string, publicHref: string): string | undefined =>
  urls.find((url) => intendedCallbackUrl(url, publicHref) === callbackUrl);

const withoutDetails = (url: string) =>
  (asciiForm(url) ?? url)
    .toLowerCase()
    .replace(/^https?:\/\/(?:www\.)?/, '')
    .replace(/\/*(?:[?#].*)?$/, '')
    .replaceAll(/([^:])\/{2,}/g, '$1/');

function isSecure(scheme: string, hostname: string): boolean {
  return /^https$/i.test(scheme) || (/^http$/i.test(scheme) && isLoopbackHost(hostname));
}

/** White space, controls, bidi and zero-width characters, lone surrogates, and percent-encoded controls and spaces. */
function hasInvisible(text: string): boolean {
  return /[\s\p{Cc}\p{Cf}\p{Cs}]/u.test(text) || /%(?:[01][0-9a-f]|7f)/i.test(text);
}

/** `.` and `..`, plain or encoded, also before a `;` parameter, which some servers remove before they resolve dots. */
function isDotSegment(segment: string): boolean {
  // An encoded slash ends a segment for servers that decode before they resolve dots.
  return segment.split(/%2f/i).some((part) => /^(?:\.|%2e){1,2}(?:;.*|%3b.*)?$/i.test(part));
}
