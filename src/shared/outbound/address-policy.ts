/** Decides which addresses Gatehouse may call: public ones, and the private ones that `INTERNAL_HOSTS` names. */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { isInNetworks, parseNetwork } from '../config/networks.ts';
import { asciiHost, isLoopbackHost } from '../config/rules.ts';

/** Advice for a URL that must not be called. It does not repeat the URL. */
export const ADDRESS_ADVICE = {
  not_absolute: 'it must be an absolute URL that begins with https://.',
  not_https: 'it must begin with https://, or be on a loopback host that INTERNAL_HOSTS names.',
  userinfo: 'leave out the user name and the password.',
  private_address: 'the address is private: add the host to INTERNAL_HOSTS if it may be called.',
  forbidden_address: 'the address may never be called: use a public address, or one of a private network.',
} as const;
export type AddressRule = keyof typeof ADDRESS_ADVICE;

export interface AddressPolicy {
  /** Checks a URL without resolving its host name. Returns the rule that the URL breaks. */
  checkUrl(text: string): AddressRule | undefined;
  /** Checks an address that the host name resolved to. Returns the rule that the address breaks. */
  checkAddress(hostname: string, address: string): AddressRule | undefined;
  /** Returns true if `INTERNAL_HOSTS` names this host. */
  isNamed(hostname: string): boolean;
}

/** Metadata services of cloud providers outside the link-local ranges. */
const METADATA_ADDRESSES = new Set([
  // AWS: instance metadata, EKS Pod Identity.
  'fd00:ec2::254',
  'fd00:ec2::23',
  // Azure.
  '168.63.129.16',
  // Google Cloud.
  'fd20:ce::254',
  // Oracle Cloud.
  '192.0.0.192',
  'fd00:c1::a9fe:a9fe',
  // Alibaba Cloud.
  '100.100.100.200',
  'fd00:100::100:200',
  // Akamai.
  'fd00:a9fe:a9fe::1',
  // Scaleway.
  'fd00:42::42',
]);
/** All routed IPv6 addresses (RFC 4291 section 2.4); the other ranges hold old notations of IPv4 addresses. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3');
const INTERNAL_RANGES = new Set(['loopback', 'private', 'uniqueLocal', 'carrierGradeNat']);

/** @param internalHosts host names, addresses and CIDRs in loopback or private ranges (setting `INTERNAL_HOSTS`) */
export function createAddressPolicy(internalHosts: readonly string[]): AddressPolicy {
  const networks = internalHosts.filter((entry) => parseNetwork(entry) !== undefined);
  const names = new Set(internalHosts.filter((entry) => !networks.includes(entry)).map(asciiHost));

  const isNamed = (hostname: string) => names.has(asciiHost(hostname));

  const checkAddress = (hostname: string, address: string): AddressRule | undefined => {
    const parsedAddress = ipaddr.process(address);
    const range = parsedAddress.range();
    if (METADATA_ADDRESSES.has(parsedAddress.toString())) return 'forbidden_address';
    if (range === 'unicast') return isRouted(parsedAddress) ? undefined : 'forbidden_address';
    if (!INTERNAL_RANGES.has(range)) return 'forbidden_address';
    const isListed = isNamed(hostname) || isInNetworks(address, networks);
    return isListed ? undefined : 'private_address';
  };

  const checkUrl = (text: string): AddressRule | undefined => {
    const url = URL.parse(text);
    if (!url || !/^https?:$/.test(url.protocol)) return 'not_absolute';
    if (url.username || url.password) return 'userinfo';
    const hostname = url.hostname.replace(/^\[|\]$/g, '');
    const brokenRule = isIP(hostname) ? checkAddress(hostname, hostname) : undefined;
    if (brokenRule) return brokenRule;
    if (url.protocol === 'https:') return undefined;
    // A loopback address that passed the check above is in `internalHosts`.
    return isLoopbackHost(hostname) && (isIP(hostname) || isNamed(hostname)) ? undefined : 'not_https';
  };

  return { checkUrl, checkAddress, isNamed };
}

function isRouted(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  return address.kind() === 'ipv4' || (address as ipaddr.IPv6).match(GLOBAL_UNICAST);
}
