/** Owns the question whether a peer is a proxy of ours, whose `X-Forwarded-*` and `X-Request-Id` count (R73). */
import { BlockList, isIPv6 } from 'node:net';

/** @param networks addresses and CIDRs, already checked (setting `TRUSTED_PROXIES`) */
export function trustedProxies(networks: readonly string[]): (address: string) => boolean {
  if (networks.length === 0) return () => false;
  const list = new BlockList();
  for (const network of networks) {
    const [address = '', bits] = network.split('/');
    const family = isIPv6(address) ? 'ipv6' : 'ipv4';
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return (address) => {
    // A dual-stack listener reports IPv4 peers as ::ffff:a.b.c.d.
    const plain = address.replace(/^::ffff:(?=\d+\.)/, '');
    return plain !== '' && list.check(plain, isIPv6(plain) ? 'ipv6' : 'ipv4');
  };
}
