/** Owns the rules that single settings are judged by: pure, and with what to do in the words of each fault. */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

export interface PublicUrl {
  /** Without a trailing slash: links are `${href}/path`. */
  href: string;
  origin: string;
  /** Host with port, as in a `Host` header. */
  host: string;
  /** `''` or `/path`, without a trailing slash. */
  basePath: string;
  secure: boolean;
}

export function splitList(text: string): string[] {
  return text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}

/** True where two listeners would want the same port of the same address; a wildcard takes them all. */
export function doMeet(one: { host: string }, other: { host: string }): boolean {
  const hosts = [one.host.toLowerCase(), other.host.toLowerCase()];
  return hosts[0] === hosts[1] || hosts.some((host) => host === '0.0.0.0' || host === '::');
}

/** Answers why a secret is too weak to sign with, or undefined. Never repeats it. */
export function weakSecretFault(secret: string): string | undefined {
  if (secret.length < 32) return 'is shorter than 32 characters';
  if (new Set(secret).size < 10) return 'repeats so few characters that it can be guessed';
  if (/change.?me|example|placeholder|secret.?secret|your[-_ ]/i.test(secret)) return 'is a placeholder';
  return undefined;
}

export function parsePublicUrl(given: string): { publicUrl?: PublicUrl; fault?: string } {
  const url = URL.parse(given);
  if (!url || !/^https?:$/.test(url.protocol)) return { fault: 'must be an absolute URL that begins with https://' };
  if (url.username || url.password) return { fault: 'must not hold a user name or password.' };
  if (url.search || url.hash) return { fault: 'must not have a query or a fragment.' };
  if (url.protocol === 'http:' && !isLoopbackHost(url.hostname)) {
    return { fault: 'must begin with https:// (plain http is for loopback addresses only).' };
  }
  const basePath = url.pathname.replace(/\/+$/, '');
  if (!/^(\/[A-Za-z0-9_.~-]+)*$/.test(basePath))
    return { fault: 'has a path with characters other than A-Z a-z 0-9 _ . ~ -' };
  const secure = url.protocol === 'https:';
  return { publicUrl: { href: url.origin + basePath, origin: url.origin, host: url.host, basePath, secure } };
}

/** True for `localhost`, names below it, 127.0.0.0/8 and ::1, written with or without brackets. */
export function isLoopbackHost(hostname: string): boolean {
  const bare = hostname.replace(/^\[|\]$/g, '');
  if (isIP(bare)) return ipaddr.process(bare).range() === 'loopback';
  return bare === 'localhost' || bare.endsWith('.localhost');
}

export function parseNetwork(text: string): { address: ipaddr.IPv4 | ipaddr.IPv6; bits: number } | undefined {
  try {
    if (!text.includes('/')) {
      const address = isIP(text) ? ipaddr.process(text) : undefined;
      return address && { address, bits: address.kind() === 'ipv4' ? 32 : 128 };
    }
    const [address, bits] = ipaddr.parseCIDR(text);
    return isIP(text.slice(0, text.indexOf('/'))) ? { address, bits } : undefined;
  } catch {
    return undefined;
  }
}

const INTERNAL_RANGES = ['loopback', 'private', 'uniqueLocal', 'carrierGradeNat'];

/** A name is taken as it is: what it resolves to is checked at each connection. */
export function internalHostFault(entry: string): string | undefined {
  const network = parseNetwork(entry);
  if (network) {
    const inside =
      INTERNAL_RANGES.includes(network.address.range()) && network.bits >= (network.address.kind() === 'ipv4' ? 8 : 7);
    return inside ? undefined : 'is not inside a loopback or private range.';
  }
  return /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i.test(entry) &&
    !/^[\d.]+$/.test(entry)
    ? undefined
    : 'is not a host name, an address or a CIDR.';
}

/** `name=value` pairs as OpenTelemetry writes them, or undefined where they cannot be sent. */
export function parseOtlpHeaders(text: string): Record<string, string> | undefined {
  const pairs = splitList(text).map((entry) => /^([!#$%&'*+.^_`|~\w-]+)\s*=\s*(.*)$/.exec(entry));
  try {
    const headers = pairs.map((pair) => [pair?.[1] ?? '', decodeURIComponent(pair?.[2] ?? '')]);
    const sendable = headers.every(([name, value = '']) => name !== '' && /^[\t\x20-\x7e]*$/.test(value));
    return sendable ? Object.fromEntries(headers) : undefined;
  } catch {
    return undefined;
  }
}
