/** Makes this process trust the operator's certificate authorities, in addition to those of Node. */
import { getCACertificates, setDefaultCACertificates } from 'node:tls';

/**
 * Trusts the certificates on each new TLS connection: to providers, platforms, webhook receivers, Redis and the trace
 * collector.
 * @param certificates checked certificates in PEM (setting `CA_FILE`)
 */
export function trustAuthorities(certificates: readonly string[]): void {
  // Node would parse all of its own roots again, which takes time.
  if (certificates.length === 0) return;
  setDefaultCACertificates([...new Set([...getCACertificates('default'), ...certificates])]);
}
