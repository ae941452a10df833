/** The cookies of the browserless user agent (RFC 6265): by host and path, shared between ports. */

export interface Cookie {
  name: string;
  value: string;
  host: string;
  path: string;
  secure: boolean;
  /** The whole Set-Cookie line. */
  line: string;
}

export interface CookieJar {
  all(): readonly Cookie[];
  get(name: string): string | undefined;
  /** Sets a cookie, or removes it if the value is undefined. */
  set(url: string, name: string, value: string | undefined): void;
  clear(): void;
  /** The Cookie header for a request to `url`; empty if there is none to send. */
  header(url: string): string;
  store(url: string, setCookies: readonly string[]): void;
}

export function createCookieJar(): CookieJar {
  let cookies: Cookie[] = [];

  function storeLine(url: string, line: string): void {
    const cookie = parseCookie(url, line);
    const { name, host, path } = cookie;
    cookies = cookies.filter((other) => other.name !== name || other.host !== host || other.path !== path);
    if (!isExpired(attributesOf(line))) cookies.push(cookie);
  }

  return {
    all: () => cookies,
    get: (name) => cookies.find((cookie) => cookie.name === name)?.value,
    set: (url, name, value) =>
      storeLine(url, value === undefined ? `${name}=; Path=/; Max-Age=0` : `${name}=${value}; Path=/`),
    clear() {
      cookies = [];
    },
    header(url) {
      const { hostname, pathname, protocol } = new URL(url);
      return cookies
        .filter((cookie) => cookie.host === hostname && covers(cookie.path, pathname))
        .filter((cookie) => !cookie.secure || protocol === 'https:')
        .sort((a, b) => b.path.length - a.path.length)
        .map(({ name, value }) => `${name}=${value}`)
        .join('; ');
    },
    store(url, setCookies) {
      for (const line of setCookies) storeLine(url, line);
    },
  };
}

function parseCookie(url: string, line: string): Cookie {
  const { hostname, pathname } = new URL(url);
  const [name, value] = split(line.split(';')[0] ?? '');
  const attributes = attributesOf(line);
  const pathAttribute = attributes.get('path') ?? '';
  const path = pathAttribute.startsWith('/')
    ? pathAttribute
    : pathname.slice(0, Math.max(1, pathname.lastIndexOf('/')));
  return { name, value, host: hostname, path, secure: attributes.has('secure'), line };
}

function attributesOf(line: string): Map<string, string> {
  const pairs = line.split(';').slice(1).map(split);
  return new Map(pairs.map(([name, value]) => [name.toLowerCase(), value]));
}

function split(text: string): [string, string] {
  const at = text.indexOf('=');
  return at < 0 ? [text.trim(), ''] : [text.slice(0, at).trim(), text.slice(at + 1).trim()];
}

function covers(path: string, pathname: string): boolean {
  return pathname === path || pathname.startsWith(path.endsWith('/') ? path : `${path}/`);
}

function isExpired(attributes: ReadonlyMap<string, string>): boolean {
  const maxAge = attributes.get('max-age');
  if (maxAge !== undefined) return Number(maxAge) <= 0;
  const expires = attributes.get('expires');
  return expires !== undefined && Date.parse(expires) <= Date.now();
}
