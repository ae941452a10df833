/** Owns networks as an administrator writes them: how a CIDR is read, and whether an address lies in one. Pure. */
import ipaddr from 'ipaddr.js';
import { remembered } from '../remembered.ts';

/** Why this is no network, as a sentence; undefined for a good one. One address counts as a network of itself. */
export function networkFault(text: string): string | undefined {
  const network = parse(text);
  if (!network) return 'Give networks such as 10.0.0.0/8, 2001:db8::/32, or a single address.';
  const [address, bits] = network;
  const first = address.kind() === 'ipv4' ? ipaddr.IPv4 : ipaddr.IPv6;
  const base = first.networkAddressFromCIDR(`${address.toString()}/${bits}`).toString();
  return base === address.toString()
    ? undefined
    : `The network of this address begins at ${base}: write ${base}/${bits}.`;
}

/** False for what is no address at all. An IPv4 address that came in IPv6's clothes counts as itself. */
export function isInNetworks(address: string, networks: readonly string[]): boolean {
  const given = addressOf(address);
  if (!given) return false;
  return networks.some((text) => {
    const network = read(text);
    return network !== undefined && network[0].kind() === given.kind() && given.match(network);
  });
}

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Those of services that call again and again. */
const knownAddresses = remembered<Address>(10_000);

function addressOf(text: string): Address | undefined {
  const kept = knownAddresses.get(text);
  if (kept) return kept;
  if (!ipaddr.isValid(text)) return undefined;
  const address = ipaddr.process(text);
  knownAddresses.set(text, address);
  return address;
}

type Network = [Address, number];

/** Those of relay tokens, which every call asks for. */
const known = remembered<Network>(10_000);

function read(text: string): Network | undefined {
  const kept = known.get(text);
  if (kept) return kept;
  const network = parse(text);
  if (network) known.set(text, network);
  return network;
}

function parse(text: string): Network | undefined {
  try {
    if (text.includes('/')) return isFourPart(text) ? ipaddr.parseCIDR(text) : undefined;
    if (!isFourPart(text)) return undefined;
    const address = ipaddr.parse(text);
    return [address, address.kind() === 'ipv4' ? 32 : 128];
  } catch {
    return undefined;
  }
}

/** `10.1/16` and `0x0a.0.0.0` mean something else to each reader. */
function isFourPart(text: string): boolean {
  const [address = ''] = text.split('/');
  return address.includes(':') || ipaddr.IPv4.isValidFourPartDecimal(address);
}
