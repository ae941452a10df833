/** Owns the rule which hosts Gatehouse may call: public addresses, and of the private ones only those that are named. */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { isLoopbackHost } from '../config-rules.ts';

export type AddressRule = 'not_absolute' | 'not_https' | 'userinfo' | 'private_address' | 'forbidden_address';

/** What to do about a URL that must not be called; it never repeats the URL. */
export const ADDRESS_ADVICE: Readonly<Record<AddressRule, string>> = {
  not_absolute: 'it must be an absolute URL that begins with https://.',
  not_https: 'it must begin with https://, or name the host in INTERNAL_HOSTS where it is a loopback one.',
  userinfo: 'leave out the user name and the password.',
  private_address: 'the address is a private one: name the host in INTERNAL_HOSTS if it may be called.',
  forbidden_address: 'the address may never be called: give a public one, or one inside a private network.',
};

export interface AddressPolicy {
  /** Judges a URL as it is written, before anything is resolved. Answers the rule that it breaks, or undefined. */
  checkUrl(url: string): AddressRule | undefined;
  /** Judges an address that a host name resolved to. */
  checkAddress(hostname: string, address: string): AddressRule | undefined;
}

/** Cloud metadata services that do not lie in a link-local range. */
const METADATA_ADDRESSES = new Set(['fd00:ec2::254', '100.100.100.200', '192.0.0.192']);
/** All IPv6 that is routed lies here (RFC 4291 section 2.4); elsewhere are old ways to write an IPv4 address. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3');
const INTERNAL_RANGES = new Set(['loopback', 'private', 'uniqueLocal', 'carrierGradeNat']);

/** @param internalHosts host names, addresses and CIDRs inside loopback or private ranges (setting `INTERNAL_HOSTS`) */
export function createAddressPolicy(internalHosts: readonly string[]): AddressPolicy {
  const names = new Set(internalHosts.filter((entry) => !isNetwork(entry)).map((entry) => entry.toLowerCase()));
  const networks = internalHosts.filter(isNetwork).map(parseNetwork);

  const checkAddress = (hostname: string, address: string): AddressRule | undefined => {
    const parsed = ipaddr.process(address);
    const range = parsed.range();
    if (METADATA_ADDRESSES.has(parsed.toString())) return 'forbidden_address';
    if (range === 'unicast') return isRouted(parsed) ? undefined : 'forbidden_address';
    if (!INTERNAL_RANGES.has(range)) return 'forbidden_address';
    const named = names.has(hostname.toLowerCase());
    const listed = networks.some(([network, bits]) => network.kind() === parsed.kind() && parsed.match(network, bits));
    return named || listed ? undefined : 'private_address';
  };

  const checkUrl = (text: string): AddressRule | undefined => {
    const url = URL.parse(text);
    if (!url || !/^https?:$/.test(url.protocol)) return 'not_absolute';
    if (url.username || url.password) return 'userinfo';
    const hostname = url.hostname.replace(/^\[|\]$/g, '');
    const fault = isIP(hostname) ? checkAddress(hostname, hostname) : undefined;
    if (fault) return fault;
    return url.protocol === 'http:' && !(isLoopbackHost(hostname) && isListed(hostname)) ? 'not_https' : undefined;
  };

  const isListed = (hostname: string) =>
    names.has(hostname.toLowerCase()) || (isIP(hostname) !== 0 && checkAddress(hostname, hostname) === undefined);

  return { checkUrl, checkAddress };
}

function isRouted(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  return address.kind() === 'ipv4' || (address as ipaddr.IPv6).match(GLOBAL_UNICAST);
}

function isNetwork(entry: string): boolean {
  return isIP(entry.split('/')[0] ?? '') !== 0;
}

function parseNetwork(entry: string): [ipaddr.IPv4 | ipaddr.IPv6, number] {
  if (entry.includes('/')) return ipaddr.parseCIDR(entry);
  const address = ipaddr.process(entry);
  return [address, address.kind() === 'ipv4' ? 32 : 128];
}
