/** The client's address: the peer's, or the one that a trusted proxy sends in `X-Forwarded-For` (R73, R104). */
import type { IncomingMessage } from 'node:http';
import proxyaddr from 'proxy-addr';
import { isInNetworks, normalAddress } from '../config/networks.ts';

/**
 * Returns the normalised address; `unknown` if a trusted proxy sends no address, or the peer has disconnected (RFC 7239
 * section 6.2).
 */
export type ClientAddress = (req: IncomingMessage) => string;

/** `untrusted`: an unlisted peer sends `X-Forwarded-For`. `unreadable`: a trusted proxy sends it without an address. */
export type ForwardedFault = 'untrusted' | 'unreadable';

export const UNKNOWN_ADDRESS = 'unknown';

/**
 * @param trustedProxies valid addresses and CIDRs (setting `TRUSTED_PROXIES`)
 * @param onFault called once for each kind of fault, with the address of the peer
 */
export function clientAddress(
  trustedProxies: readonly string[],
  onFault?: (fault: ForwardedFault, peer: string) => void,
): ClientAddress {
  const isTrusted = (address: string) => isInNetworks(address, trustedProxies);
  const reportedFaults = new Set<ForwardedFault>();
  const report = (fault: ForwardedFault, peer: string) => {
    if (reportedFaults.has(fault)) return;
    reportedFaults.add(fault);
    onFault?.(fault, peer);
  };
  return (req) => {
    const peer = normalAddress(req.socket.remoteAddress ?? '') ?? UNKNOWN_ADDRESS;
    if (req.headers['x-forwarded-for'] === undefined) return peer;
    if (!isTrusted(peer)) {
      report('untrusted', peer);
      return peer;
    }
    const address = normalAddress(proxyaddr(req, isTrusted));
    // Never fall back to the proxy's address: a relay token may be bound to the proxy's network.
    if (address === undefined) report('unreadable', peer);
    return address ?? UNKNOWN_ADDRESS;
  };
}
