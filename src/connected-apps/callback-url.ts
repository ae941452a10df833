/** Owns the rules for registered callback URLs and return URLs: pure, and compared character by character (RFC 9700 section 4.1). */
import { isLoopbackHost } from '../config-rules.ts';

export type CallbackUrlRule =
  | 'not_absolute'
  | 'not_https'
  | 'wildcard'
  | 'fragment'
  | 'userinfo'
  | 'dot_segments'
  | 'backslash'
  | 'control'
  | 'duplicate';

/** What each rule asks, in words for the person who typed the URL. */
export const CALLBACK_URL_ADVICE: Record<CallbackUrlRule, string> = {
  not_absolute: 'Give the whole URL, beginning with https:// and a host name.',
  not_https: 'Begin with https:// (plain http is for 127.0.0.1, [::1] and localhost only).',
  wildcard: 'Write out every callback URL: "*" is not allowed, they are compared character by character.',
  fragment: 'Leave out "#" and what follows it.',
  userinfo: 'Leave out the user name and password before the host.',
  dot_segments: 'Leave out "." and ".." between slashes, also when percent-encoded or followed by ";".',
  backslash: 'Use "/" instead of "\\", also when percent-encoded.',
  control: 'Leave out spaces, line breaks and other invisible characters.',
  duplicate: 'This URL is in the list twice.',
};

/**
 * Judges one URL as it is written; nothing is normalised, since what is registered is what will be compared.
 * Answers the first rule that it breaks, or undefined.
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
  // Browsers read `https:///host` as if it had two slashes; nothing else does.
  if (authority === '' || url.hostname === '') return 'not_absolute';
  if (!isSecure(scheme, url.hostname)) return 'not_https';
  return path.split('/').some(isDotSegment) ? 'dot_segments' : undefined;
}

/** Judges a list: each URL by itself, and every later copy of an earlier one. Positions are those of the list. */
export function checkCallbackUrls(urls: readonly string[]): { position: number; rule: CallbackUrlRule }[] {
  return urls.flatMap((url, position) => {
    const rule = checkCallbackUrl(url) ?? (urls.indexOf(url) < position ? 'duplicate' : undefined);
    return rule ? [{ position, rule }] : [];
  });
}

function isSecure(scheme: string, hostname: string): boolean {
  return /^https$/i.test(scheme) || (/^http$/i.test(scheme) && isLoopbackHost(hostname));
}

/** White space, controls (C0, DEL, C1), format characters (bidi, zero width, BOM), and lone surrogates, plain or percent-encoded ASCII. */
function hasInvisible(text: string): boolean {
  return /[\s\p{Cc}\p{Cf}\p{Cs}]/u.test(text) || /%(?:[01][0-9a-f]|7f)/i.test(text);
}

/** `.` and `..` in any mix of plain and encoded dots, also with a `;` parameter, which some servers cut off before resolving. */
function isDotSegment(segment: string): boolean {
  // Encoded slashes make segments of their own for servers that decode before they resolve.
  return segment.split(/%2f/i).some((part) => /^(?:\.|%2e){1,2}(?:;.*|%3b.*)?$/i.test(part));
}
