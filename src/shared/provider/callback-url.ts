/** Rules for callback URLs and return URLs, which are compared character by character (RFC 9700 section 4.1). Pure. */
import { isLoopbackHost } from '../config/rules.ts';
import { asBrowsersWrite, hasBrokenEscape, PERCENT_ADVICE, withoutSecrets } from './url-spelling.ts';

const ADVICE = {
  not_absolute: 'Enter the whole URL, beginning with https:// and a host name.',
  not_https: 'Begin with https:// (plain http is for 127.0.0.1, [::1] and localhost only).',
  several: 'Enter each URL on its own.',
  wildcard: 'Write out every callback URL: "*" is not allowed, they are compared character by character.',
  fragment: 'Leave out "#" and what follows it.',
  userinfo: 'Leave out the user name and password before the host.',
  dot_segments: 'Leave out "." and ".." between slashes, also when percent-encoded or followed by ";".',
  backslash: 'Use "/" instead of "\\", also when percent-encoded.',
  control: 'Leave out spaces, line breaks and other invisible characters.',
  escape: PERCENT_ADVICE,
  duplicate: 'This URL is in the list twice.',
};
/** `spelling`: browsers write the URL in another way. `own_host`: on the host of this Gatehouse, but not the right one. */
export type CallbackUrlRule = keyof typeof ADVICE | 'spelling' | 'own_host';

export interface CallbackUrlFault {
  rule: CallbackUrlRule;
  /** What to do, in one or two sentences. */
  detail: string;
  /** The URL that was probably meant. */
  suggestedUrl?: string;
}

/**
 * Checks a URL without changing it, because providers compare it character by character.
 * @returns the first rule that it breaks, or undefined
 */
export function checkCallbackUrl(text: string): CallbackUrlFault | undefined {
  const rule = brokenRule(text);
  if (rule) return { rule, detail: ADVICE[rule] };
  const written = asBrowsersWrite(text);
  if (written === undefined || written === text) return undefined;
  const shown = withoutSecrets(written);
  const form = shown === withoutSecrets(text) ? 'its query in another way' : `this URL as ${shown}`;
  const detail = `Browsers write ${form}, and it is compared character by character.`;
  return { rule: 'spelling', detail, suggestedUrl: written };
}

function brokenRule(text: string): keyof typeof ADVICE | undefined {
  if (hasInvisible(text)) return 'control';
  if (urlsIn(text).length > 1) return 'several';
  if (text.includes('\\') || /%5c/i.test(text)) return 'backslash';
  if (text.includes('*') || /%2a/i.test(text)) return 'wildcard';
  if (text.includes('#')) return 'fragment';
  const parts = /^([a-z][a-z0-9+.-]*):\/\/([^/?]*)([^?]*)/i.exec(text);
  const url = parts ? URL.parse(text) : null;
  if (!parts || !url) return 'not_absolute';
  const [, scheme = '', authority = '', path = ''] = parts;
  if (authority.includes('@')) return 'userinfo';
  // `URL` reads `https:///host` as if it had two slashes; other parsers do not.
  if (authority === '' || /^\.*$/.test(url.hostname)) return 'not_absolute';
  if (!isSecure(scheme, url.hostname)) return 'not_https';
  if (hasBrokenEscape(text)) return 'escape';
  return path.split('/').some(isDotSegment) ? 'dot_segments' : undefined;
}

/** The place of an app: its callback URL here, and `PUBLIC_URL`. */
export interface OwnCallback {
  callbackUrl: string;
  publicHref: string;
}

/** Checks each URL of a list, and that the list has no duplicates. @param own unless the URLs are not of one app here */
export function checkCallbackUrls(
  urls: readonly string[],
  own?: OwnCallback,
): (CallbackUrlFault & { position: number })[] {
  return urls.flatMap((url, position) => {
    const fault = (own && checkOwnHost(url, urls, own)) ?? checkCallbackUrl(url);
    if (fault) return [{ position, ...fault }];
    return urls.indexOf(url) < position ? [{ position, rule: 'duplicate', detail: ADVICE.duplicate }] : [];
  });
}

/**
 * Finds a URL that cannot work: on its own host, Gatehouse receives the callbacks of an app at one URL only. A list
 * without that URL may also have it with `www.`, or without the path of `PUBLIC_URL`.
 */
function checkOwnHost(
  url: string,
  urls: readonly string[],
  { callbackUrl, publicHref }: OwnCallback,
): CallbackUrlFault | undefined {
  if (url === callbackUrl) return undefined;
  const rule = 'own_host';
  const hasOwn = urls.includes(callbackUrl);
  const isHere = `${withoutDetails(url)}/`.startsWith(`${withoutDetails(publicHref)}/`);
  if (isHere && hasOwn)
    return {
      rule,
      detail: `On its own host, Gatehouse receives callbacks of this app only at ${callbackUrl}. Remove this URL.`,
    };
  if (!isHere && (hasOwn || !resembles(url, callbackUrl, publicHref))) return undefined;
  return { rule, detail: `Did you mean ${callbackUrl}? Providers compare every character.`, suggestedUrl: callbackUrl };
}

/** Returns true if only the path of `PUBLIC_URL` or `www.` is missing or added, beside the details. */
function resembles(url: string, callbackUrl: string, publicHref: string): boolean {
  const host = (text: string) =>
    withoutDetails(text)
      .replace(/^www\./, '')
      .split('/')[0];
  const ownPath = callbackUrl.slice(publicHref.length).toLowerCase();
  return host(url) === host(publicHref) && withoutDetails(url).endsWith(ownPath);
}

/** The URL without what is easily mistaken: scheme, case, query, fragment, final and double slashes, default port. */
const withoutDetails = (url: string) =>
  (asBrowsersWrite(url.trim()) ?? url)
    .toLowerCase()
    .replace(/^https?:\/\//, '')
    .replace(/[?#].*$/s, '')
    .replace(/(?<!\/)\/+$/, '')
    .replaceAll(/\/{2,}/g, '/');

/**
 * Returns the URLs of a pasted text: one for each line or word, also if they are quoted or separated by commas.
 * Lookbehinds keep the time linear: a run of quotes or commas is tried once, not from each of its characters.
 */
export function urlsIn(text: string): string[] {
  // A query may contain a comma before another URL.
  return text
    .split(/\s+|(?<!["<>])["<>]+(?=https?:\/\/|[\s,;\]]|$)/i)
    .flatMap((word) =>
      word.includes('?') ? [word.replace(/(?<![,;])[,;]+$/, '')] : word.split(/[,;](?=https?:\/\/|$)/i),
    )
    .filter((url) => !/^[[\],;]*$/.test(url));
}

function isSecure(scheme: string, hostname: string): boolean {
  return /^https$/i.test(scheme) || (/^http$/i.test(scheme) && isLoopbackHost(hostname));
}

/** White space, controls, bidi and zero-width characters, lone surrogates, and percent-encoded controls. */
function hasInvisible(text: string): boolean {
  return /[\s\p{Cc}\p{Cf}\p{Cs}]/u.test(text) || /%(?:[01][0-9a-f]|7f)/i.test(text);
}

/** `.` and `..`, plain or encoded, also before a `;` parameter, which some servers remove before they resolve dots. */
function isDotSegment(segment: string): boolean {
  // An encoded slash ends a segment for servers that decode before they resolve dots.
  return segment.split(/%2f/i).some((part) => /^(?:\.|%2e){1,2}(?:;.*|%3b.*)?$/i.test(part));
}
