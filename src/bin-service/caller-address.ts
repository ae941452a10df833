/** Owns whose request it is: the address it came from, through proxies of ours alone, and the name it is counted under. */
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { clientAddress } from '../http/client-address.ts';
import { trustedProxies } from '../http/trusted-proxies.ts';

export interface Caller {
  /** Canonical; an IPv4 address that came as IPv6 stands as IPv4. */
  address: string;
  /** The address, or the first 64 bits of an IPv6 one: whoever has one address of such a network has them all. */
  countedAs: string;
}

const MOST_REMEMBERED = 10_000;

/** @param networks addresses and CIDRs of proxies, already checked (setting `TRUSTED_PROXIES`) */
export function callerAddresses(networks: readonly string[]): (req: IncomingMessage) => Caller {
  const addressOf = clientAddress(trustedProxies(networks));
  const known = new Map<string, Caller>();

  const callerAt = (address: string): Caller => {
    const found = known.get(address);
    if (found) return found;
    if (known.size >= MOST_REMEMBERED) known.clear();
    const caller = describe(address);
    known.set(address, caller);
    return caller;
  };

  return (req) => callerAt(addressOf(req));
}

function describe(text: string): Caller {
  // A zone names a network card of this machine.
  const bare = text.split('%')[0] ?? '';
  if (!isIP(bare)) return { address: 'unknown', countedAs: 'unknown' };
  const address = ipaddr.process(bare);
  if (address.kind() === 'ipv4') return { address: address.toString(), countedAs: address.toString() };
  const network = (address as ipaddr.IPv6).parts.slice(0, 4).map((part) => part.toString(16));
  return { address: address.toString(), countedAs: `${network.join(':')}::/64` };
}
