/** Parses and compares IP addresses and networks (CIDR) in every form that peers, proxies and administrators use. */
import { isIP, isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { remembered } from '../remembered.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
export type Network = [address: Address, bits: number];

/** Parsed values are cached, because parsing is slow, and requests repeat the same addresses and networks. */
const MAX_REMEMBERED = 10_000;
const addresses = remembered<{ address: Address; text: string }>(MAX_REMEMBERED);
const networks = remembered<Network>(MAX_REMEMBERED);

/** Matches `203.0.113.5:4711`, `[2001:db8::1]` and `[2001:db8::1]:4711`, which some proxies send. */
const WITH_PORT = /^(?:\[([^\]]+)\]|([\d.]+)(?=:))(?::\d{1,5})?$/;

/**
 * Returns the canonical form, without port, brackets and zone; undefined for a text that is not an address. An
 * IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2) becomes the IPv4 address.
 */
export function normalAddress(text: string): string | undefined {
  return isIPv4(text) ? text : parseAddress(text)?.text;
}

/** Returns the key of limits by address: the IPv4 address, or the IPv6 /64 network of one subscriber (RFC 6177). */
export function callerNetwork(address: string): string {
  if (!address.includes(':')) return address;
  const parsed = parseAddress(address)?.address;
  if (parsed?.kind() !== 'ipv6') return address;
  const parts = (parsed as ipaddr.IPv6).parts.slice(0, 4).map((part) => part.toString(16));
  return `${parts.join(':')}::/64`;
}

/** Returns whether the address is in one of the networks; false for a text that is not an address. */
export function isInNetworks(address: string, list: readonly string[]): boolean {
  const parsed = parseAddress(address)?.address;
  if (!parsed) return false;
  return list.some((text) => {
    const network = parseNetwork(text);
    return network !== undefined && network[0].kind() === parsed.kind() && parsed.match(network);
  });
}

/** Returns whether the networks of a token or an account allow the address. An empty list allows every address. */
export function isAllowedFrom(address: string, allowed: readonly string[]): boolean {
  return allowed.length === 0 || isInNetworks(address, allowed);
}

/** Parses a CIDR, or a single address as a network of one address. Returns undefined for any other text. */
export function parseNetwork(text: string): Network | undefined {
  const cached = networks.get(text);
  if (cached) return cached;
  const network = readNetwork(text);
  if (network) networks.set(text, network);
  return network;
}

/** Returns the fault of a network, as the end of a sentence; undefined for a valid network. */
export function networkFault(text: string): string | undefined {
  const network = parseNetwork(text);
  if (!network) return 'is not an address or a CIDR such as 10.0.0.0/8 or 2001:db8::/32.';
  const [address, bits] = network;
  const family = address.kind() === 'ipv4' ? ipaddr.IPv4 : ipaddr.IPv6;
  const first = family.networkAddressFromCIDR(`${address.toString()}/${bits}`).toString();
  return first === address.toString() ? undefined : `is not the start of its network: write ${first}/${bits}.`;
}

/** More than the longest address with zone, brackets and port has. */
const MAX_CHARACTERS = 80;

function parseAddress(text: string): { address: Address; text: string } | undefined {
  if (text.length > MAX_CHARACTERS) return undefined;
  const cached = addresses.get(text);
  if (cached) return cached;
  const [, inBrackets, beforePort] = WITH_PORT.exec(text) ?? [];
  const [bare = ''] = (inBrackets ?? beforePort ?? text).split('%');
  if (isIP(bare) === 0) return undefined;
  const address = ipaddr.process(bare);
  const parsed = { address, text: address.toString() };
  addresses.set(text, parsed);
  return parsed;
}

/** Refuses short forms such as `10.1/16`, which programs interpret differently. */
function readNetwork(text: string): Network | undefined {
  const [, base = '', length] = /^([0-9a-f:.]+)(?:\/(\d{1,3}))?$/i.exec(text) ?? [];
  const family = isIP(base);
  if (family === 0) return undefined;
  const bits = length === undefined ? (family === 4 ? 32 : 128) : Number(length);
  if (bits > (family === 4 ? 32 : 128)) return undefined;
  const address = ipaddr.process(base);
  if (family === 4 || address.kind() === 'ipv6') return [address, bits];
  // Fewer bits would include IPv6 addresses.
  return bits < 96 ? undefined : [address, bits - 96];
}
