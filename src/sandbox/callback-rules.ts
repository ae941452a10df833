/** Checks callback URLs, which must be absolute, exact, and safe to receive a code. Each fault has a name. */

export const CALLBACK_FAULTS = {
  not_absolute: 'is not an absolute URL, such as https://app.example.com/callback',
  not_https: 'must begin with https:; http: is allowed only for 127.0.0.1, [::1] and localhost',
  wildcard: 'contains a wildcard; name each callback URL in full',
  fragment: 'contains a fragment (#), which never reaches a server',
  userinfo: 'contains a user name or password before the host',
  dot_segments: 'contains a path segment of dots, which browsers resolve to another path',
  backslash: 'contains a backslash, which browsers read as a slash',
  control: 'contains a space or a control character',
  duplicate: 'is listed twice',
} as const;

export type CallbackFault = keyof typeof CALLBACK_FAULTS;

const LOOPBACK_HOSTS = new Set(['127.0.0.1', '[::1]', 'localhost']);

/** Returns the faults of each URL. A URL that may be registered has an empty list. */
export function callbackFaults(urls: readonly string[]): CallbackFault[][] {
  return urls.map((url, index) => [...faultsOf(url), ...(urls.indexOf(url) < index ? ['duplicate' as const] : [])]);
}

function faultsOf(text: string): CallbackFault[] {
  const faults: CallbackFault[] = [];
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to find
  if (/[\u0000-\u0020\u007f-\u00a0]/.test(text)) faults.push('control');
  if (text.includes('\\')) faults.push('backslash');
  if (text.includes('*')) faults.push('wildcard');
  if (text.includes('#')) faults.push('fragment');
  const url = URL.parse(text);
  // URL.parse also accepts `https:host` and `https:/host`, and reads them as another URL.
  if (url === null || !/^[a-z][a-z0-9+.-]*:\/\/[^/\\]/i.test(text)) return [...faults, 'not_absolute'];
  if (url.username !== '' || url.password !== '' || /^[^/?#]*:\/\/[^/?#]*@/.test(text)) faults.push('userinfo');
  if (hasDotSegment(text)) faults.push('dot_segments');
  const isPlainLoopback = url.protocol === 'http:' && LOOPBACK_HOSTS.has(url.hostname);
  if (url.protocol !== 'https:' && !isPlainLoopback) faults.push('not_https');
  return faults;
}

/** Returns true also for `..;` and encoded dots, which some servers behind proxies read as the parent folder. */
function hasDotSegment(text: string): boolean {
  const path = text.replace(/^[^:]*:\/\/[^/?#]*/, '').split(/[?#]/)[0] ?? '';
  return path.split(/[/\\]|%2f|%5c/i).some((segment) => /^(\.|%2e){1,2}(;.*)?$/i.test(segment));
}
