/** Owns the question from which address a request comes: the peer's own, or what proxies of ours say of theirs (R73). */
import type { IncomingMessage } from 'node:http';

export type ClientAddress = (req: IncomingMessage) => string;

/**
 * The nearest address that is no proxy of ours; the peer's where it is none itself, whatever its headers claim.
 * @param isTrusted whether this address is a proxy of ours
 */
export function clientAddress(isTrusted: (address: string) => boolean): ClientAddress {
  return (req) => {
    const peer = plain(req.socket.remoteAddress ?? '');
    const forwarded = req.headers['x-forwarded-for'];
    if (forwarded === undefined || !isTrusted(peer)) return peer;
    const hops = String(forwarded)
      .split(',')
      .map((hop) => plain(hop.trim()));
    return hops.findLast((hop) => !isTrusted(hop)) ?? hops[0] ?? peer;
  };
}

/** A dual-stack listener reports IPv4 peers as ::ffff:a.b.c.d. */
function plain(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/, '');
}
