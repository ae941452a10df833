/** How a URL must be spelled where it is compared character by character, or read by people. Pure. */

/**
 * Returns the URL as browsers write it (WHATWG URL Standard): scheme and host in lower case and in ASCII, no default
 * port, other characters percent-encoded. The host has no final dot. An origin has no slash, like `location.origin`.
 * @returns undefined for a text that is no URL
 */
export function asBrowsersWrite(text: string): string | undefined {
  const url = URL.parse(text);
  if (!url) return undefined;
  // Browsers take a host with a final dot for another one, but it resolves to the same.
  url.hostname = url.hostname.replace(/(?<!\.)\.+$/, '');
  return /^[^:]+:\/\/[^/?#]*$/.test(text) ? url.origin : url.href;
}

/** Returns a URL for a message: a user name, a password, a query and a fragment may be secrets (R22). */
export const withoutSecrets = (url: string): string => url.replace(/\/\/[^/?#]*@/, '//…@').replace(/([?#]).*$/s, '$1…');

/** The advice for a URL with a `%` that begins no escape. */
export const PERCENT_ADVICE =
  'After each "%" there must be two of 0-9 and A-F. Write a percent sign that is meant as such as %25.';

/** Returns true if a `%` begins no escape (RFC 3986 section 2.1). */
export const hasBrokenEscape = (text: string): boolean => /%(?![0-9a-f]{2})/i.test(text);

/**
 * Returns the advice for a URI with characters that no URI has (RFC 3986 section 2): letters of other scripts can look
 * like those of ASCII.
 */
export function uriAdvice(text: string): string | undefined {
  if (hasBrokenEscape(text)) return PERCENT_ADVICE;
  if (/^[\x21-\x7e]*$/.test(text)) return undefined;
  const written = asBrowsersWrite(text);
  if (written === undefined) return 'Use only visible ASCII characters.';
  const shown = withoutSecrets(written);
  return shown === withoutSecrets(text) ? 'Write what follows the path in ASCII.' : `Write it in ASCII, as ${shown}.`;
}
