/** Owns the networks that an account is held to: addresses and CIDRs, and whether an address lies in one of them. */
import { BlockList, isIP } from 'node:net';

/** An address or CIDR, such as `10.0.0.0/8` or `2001:db8::1`. */
export function isNetwork(text: string): boolean {
  return parse(text) !== undefined;
}

/** With no networks every address is fine. */
export function isInside(networks: readonly string[], address: string): boolean {
  if (networks.length === 0) return true;
  // An IPv4 caller of a socket that speaks IPv6 too.
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '');
  const family = isIP(plain) === 6 ? 'ipv6' : 'ipv4';
  return isIP(plain) !== 0 && networks.some((network) => listOf(network).check(plain, family));
}

function listOf(network: string): BlockList {
  const list = new BlockList();
  const parsed = parse(network);
  if (parsed) list.addSubnet(parsed.address, parsed.prefix, parsed.family);
  return list;
}

function parse(text: string) {
  const [, address = '', digits] = /^([0-9a-f:.]+)(?:\/(\d{1,3}))?$/i.exec(text) ?? [];
  const version = isIP(address);
  if (version === 0) return undefined;
  const bits = version === 6 ? 128 : 32;
  const prefix = digits === undefined ? bits : Number(digits);
  return prefix <= bits
    ? { address, prefix, family: version === 6 ? ('ipv6' as const) : ('ipv4' as const) }
    : undefined;
}
