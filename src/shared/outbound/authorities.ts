/** Makes this process trust the certificate authorities of the operator, besides those that Node brings. */
import { getCACertificates, setDefaultCACertificates } from 'node:tls';

/**
 * For each TLS connection that begins from now on: to providers, platforms, webhook receivers, Redis and the collector of traces.
 * @param certificates PEM, checked (setting `CA_FILE`)
 */
export function trustAuthorities(certificates: readonly string[]): void {
  // Node parses all of its own roots again, which a process without this setting need not wait for.
  if (certificates.length === 0) return;
  setDefaultCACertificates([...new Set([...getCACertificates('default'), ...certificates])]);
}
