/** Checks and parses the values of settings. Pure. A fault says what to do. */
import { isIP, isIPv6 } from 'node:net';
import { domainToASCII } from 'node:url';
import ipaddr from 'ipaddr.js';
import { networkFault, parseNetwork } from './networks.ts';

export interface PublicUrl {
  /** The URL without a trailing slash: links are `${href}/path`. */
  href: string;
  origin: string;
  /** Host and port, as in a `Host` header. */
  host: string;
  /** `''` or `/path`, without a trailing slash. */
  basePath: string;
  secure: boolean;
}

/** Returns the trimmed entries between commas and line breaks. Keeps empty entries; an empty text has one. */
export function splitEntries(text: string): string[] {
  return text.trim().split(/\s*[,\n]\s*/);
}

export function splitList(text: string): string[] {
  return splitEntries(text).filter((entry) => entry !== '');
}

/** Returns whether two listeners on one port would collide: they have the same host, or one has a wildcard address. */
export function wouldCollide(a: { host: string }, b: { host: string }): boolean {
  const hosts = [a.host.toLowerCase(), b.host.toLowerCase()];
  return hosts[0] === hosts[1] || hosts.some((host) => host === '0.0.0.0' || host === '::');
}

/** 32 random bytes have more than 20 distinct values; fewer than 10 do not happen by chance. */
const MIN_DISTINCT = 10;

/** Returns true for few different bytes, and if runs such as `abcdef` or `0123` make up most of the secret. */
export function isGuessable(secret: Buffer): boolean {
  const steps = new Map<number, number>();
  for (let index = 1; index < secret.length; index += 1) {
    const step = secret.readUInt8(index) - secret.readUInt8(index - 1);
    steps.set(step, (steps.get(step) ?? 0) + 1);
  }
  return new Set(secret).size < MIN_DISTINCT || Math.max(...steps.values()) > secret.length / 2;
}

/** Returns the fault of a secret that is too weak to sign with, as the end of a sentence without the secret. */
export function weakSecretFault(secret: string): string | undefined {
  if (secret.length < 32) return 'is shorter than 32 characters';
  if (isGuessable(Buffer.from(secret))) return 'is a pattern that can be guessed';
  if (/change.?me|example|placeholder|secret.?secret|your[-_ ]/i.test(secret)) return 'is a placeholder';
  return undefined;
}

export function parsePublicUrl(text: string): { publicUrl?: PublicUrl; fault?: string } {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol)) return { fault: 'must be an absolute URL that begins with https://' };
  if (url.username || url.password) return { fault: 'must not contain a user name or password.' };
  if (url.search || url.hash) return { fault: 'must not have a query or a fragment.' };
  // `URL` writes the host in lower case and in ASCII. Browsers treat a host with a final dot as another one.
  url.hostname = url.hostname.replace(/\.$/, '');
  if (url.protocol === 'http:' && !isLoopbackHost(url.hostname)) {
    return { fault: 'must begin with https:// (plain http is for loopback addresses only).' };
  }
  const basePath = url.pathname.replace(/\/+$/, '');
  if (!/^(\/[A-Za-z0-9_.~-]+)*$/.test(basePath))
    return { fault: 'has a path with characters other than A-Z a-z 0-9 _ . ~ -' };
  const secure = url.protocol === 'https:';
  return { publicUrl: { href: url.origin + basePath, origin: url.origin, host: url.host, basePath, secure } };
}

/** Returns true for `localhost`, names below it, 127.0.0.0/8 and ::1, with or without brackets. */
export function isLoopbackHost(hostname: string): boolean {
  const bare = hostname.replace(/^\[|\]$/g, '');
  if (isIP(bare)) return ipaddr.process(bare).range() === 'loopback';
  return bare === 'localhost' || bare.endsWith('.localhost');
}

/** Refuses a network of every address, with which each caller could choose its own client address. */
export function trustedProxyFault(entry: string): string | undefined {
  const network = parseNetwork(entry);
  return network && network[1] === 0 ? 'trusts every peer: name the addresses of your proxies.' : networkFault(entry);
}

const INTERNAL_RANGES = ['loopback', 'private', 'uniqueLocal', 'carrierGradeNat'];

/** Returns a host name as it is looked up: in ASCII, in lower case, without a final dot. */
export const asciiHost = (host: string): string => domainToASCII(host).replace(/\.$/, '') || host;

/** Does not resolve host names, because their addresses are checked at each connection. */
export function internalHostFault(entry: string): string | undefined {
  const network = parseNetwork(entry);
  if (network) {
    const [address, bits] = network;
    const isInside = INTERNAL_RANGES.includes(address.range()) && bits >= (address.kind() === 'ipv4' ? 8 : 7);
    return isInside ? networkFault(entry) : 'is not inside a loopback or private range.';
  }
  const host = asciiHost(entry);
  return /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i.test(host) &&
    !/^[\d.]+$/.test(host)
    ? undefined
    : 'is not a host name, an address or a CIDR.';
}

/** Returns host and port as in a URL, with brackets around an IPv6 address. */
export function hostAndPort({ host, port }: { host: string; port: number }): string {
  return `${isIPv6(host) ? `[${host}]` : host}:${port}`;
}

/** Returns true for an http(s) URL without path, query and fragment. It may have credentials. */
export function isProxyUrl(text: string): boolean {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol) || !/^\/?$/.test(url.pathname + url.search + url.hash)) return false;
  return isPercentEncoded(url.username + url.password);
}

/** Returns false for a text with a `%` that begins no character. */
function isPercentEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** Returns true for a URL to which paths can be appended. */
export function isBaseUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && !url.search && !url.hash && !url.username;
}

export function withoutTrailingSlash(url: string): string {
  return url.replace(/\/+$/, '');
}

/** Parses `name=value` pairs (OpenTelemetry). Returns undefined if they cannot be sent as headers. */
export function parseOtlpHeaders(text: string): Record<string, string> | undefined {
  const pairs = splitList(text).map((entry) => /^([!#$%&'*+.^_`|~\w-]+)\s*=\s*(.*)$/.exec(entry));
  try {
    const headers = pairs.map((pair) => [pair?.[1] ?? '', decodeURIComponent(pair?.[2] ?? '')]);
    const isSendable = headers.every(([name, value = '']) => name !== '' && /^[\t\x20-\x7e]*$/.test(value));
    return isSendable ? Object.fromEntries(headers) : undefined;
  } catch {
    return undefined;
  }
}
