/** Findings of the doctor from the discovery response: its status, TLS and the provider's clock. */
import type { Outbound } from '../../shared/outbound/outbound.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { describeFailure, failedCall, isLimit } from '../../shared/provider/provider-error.ts';
import { discoveryUrlOf, hasDiscovery, isMetadata } from '../../shared/provider/provider-metadata.ts';
import { fetchDocument } from '../../shared/provider/provider-read.ts';
import { type Finding, failed, passed, unknown } from './finding.ts';

export interface DiscoveryFindings {
  findings: Finding[];
  /** The issuer in the metadata. */
  issuer?: string;
}

/** ID tokens are accepted with a skew of 30 s; this leaves some room. */
const MAX_SKEW_SECONDS = 20;

export async function checkDiscovery(
  { outbound, clock }: { outbound: Outbound; clock: () => number },
  app: ConnectedApp,
): Promise<DiscoveryFindings> {
  if (!hasDiscovery(app)) {
    const finding = passed('discovery', 'The endpoints are set by hand, so discovery is not needed.');
    return { findings: [finding, tlsFinding(app.endpoints?.token ?? app.issuer)] };
  }
  const url = discoveryUrlOf(app);
  const pointer = app.discoveryUrl ? '#/discoveryUrl' : '#/issuer';
  try {
    const response = await fetchDocument(outbound, url, app.id);
    const body: unknown = await response.json().catch(() => undefined);
    const issuer = isMetadata(body) ? { issuer: body.issuer } : {};
    const discovery = isLimit(response) ? LIMITED : discoveryFinding(response.status, isMetadata(body), pointer);
    return { findings: [discovery, tlsFinding(url), clockFinding(response, clock())], ...issuer };
  } catch (error) {
    const advice = failedCall(error)?.advice ?? 'Check the issuer, and that its host can be reached from here.';
    return {
      findings: [failed('discovery', `Discovery cannot be read: ${describeFailure(error)}.`, { advice, pointer })],
    };
  }
}

const LIMITED = unknown('discovery', 'The provider limits the rate of our calls (429). Check again later.');

function discoveryFinding(status: number, isProviderMetadata: boolean, pointer: string): Finding {
  if (status === 200 && isProviderMetadata) return passed('discovery', 'The provider publishes its metadata.');
  const received = status === 200 ? 'a document that is not provider metadata' : `status ${status}`;
  const redirectAdvice =
    status >= 300 && status < 400 ? ' Redirects are not followed: set discoveryUrl to the final address.' : '';
  return failed('discovery', `Discovery responds with ${received}.${redirectAdvice}`, {
    advice:
      'Check the issuer. If discovery is at another address, set discoveryUrl; if there is none, set the endpoints.',
    pointer,
  });
}

function tlsFinding(url: string): Finding {
  return url.startsWith('https:')
    ? passed('tls', 'The connection is protected and the certificate is valid.')
    : unknown('tls', 'The provider is called without TLS, which is allowed on this machine only.');
}

function clockFinding(response: Response, now: number): Finding {
  const providerTime = Date.parse(response.headers.get('date') ?? '');
  if (Number.isNaN(providerTime)) return unknown('clock', 'The response of the provider has no date.');
  // The header has whole seconds, rounded down.
  const seconds = Math.round((now - providerTime - 500) / 1000);
  const words = `This clock is ${Math.abs(seconds)} s ${seconds < 0 ? 'behind' : 'ahead of'} the provider's.`;
  if (Math.abs(seconds) <= MAX_SKEW_SECONDS)
    return passed('clock', Math.abs(seconds) <= 1 ? 'The clocks agree.' : words);
  return failed('clock', words, {
    advice: 'Synchronise the clock of this server (NTP): otherwise ID tokens seem expired or not yet valid.',
  });
}
