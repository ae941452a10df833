/** Reads facts about a provider for the form of a new app, or says why they cannot be read. */
import { ADDRESS_ADVICE } from '../../shared/outbound/address-policy.ts';
import type { Outbound } from '../../shared/outbound/outbound.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { isIssuerTemplate } from '../../shared/provider/issuer.ts';
import { failedCall, failedCallText, LIMITED_WORDS, ProviderError } from '../../shared/provider/provider-error.ts';
import {
  ENDPOINT_MEMBERS,
  hasDiscovery,
  type ProviderMetadata,
  type ProviderMetadataSource,
} from '../../shared/provider/provider-metadata.ts';
import { capitalised, cutText } from '../../shared/text.ts';

export interface ProviderFacts {
  /** Names of the provider's endpoints. */
  endpoints: string[];
  scopes: string[];
  authMethods: string[];
  /** Whether the metadata lists PKCE with S256; undefined if it lists no methods. */
  pkce: boolean | undefined;
  par: 'offered' | 'required' | undefined;
  dpop: boolean;
  backchannelLogout: boolean;
  /** Endpoint for dynamic client registration (RFC 7591), if there is one. */
  registrationEndpoint: string | undefined;
}

/** `issuer`: the one in the provider's metadata, if it differs from the requested one. */
export type FactsRead =
  | { facts: ProviderFacts; fault?: never; issuer?: never }
  | { facts?: never; fault: string; issuer?: string | undefined };

const MAX_LISTED = 40;
const MAX_TEXT_LENGTH = 200;

/** @param location `discoveryUrl`: only if it differs from the usual one. `endpoints`: those set by hand */
export type ReadProviderFacts = (location: {
  issuer: string;
  discoveryUrl: string | undefined;
  endpoints?: ConnectedApp['endpoints'];
}) => Promise<FactsRead>;

export function createProviderFacts(parts: {
  metadata: Pick<ProviderMetadataSource, 'load'>;
  examine: Outbound['examine'];
}): ReadProviderFacts {
  const { metadata, examine } = parts;
  return async (location) => {
    const { issuer, discoveryUrl } = location;
    const rule = hasDiscovery(location) ? await examine(discoveryUrl ?? issuer) : undefined;
    if (rule) return { fault: capitalised(ADDRESS_ADVICE[rule]) };
    try {
      return { facts: factsOf(await metadata.load(location)) };
    } catch (error) {
      const callError = failedCall(error);
      return callError ? { fault: failedCallText(callError) } : { fault: faultOf(error), issuer: otherIssuer(error) };
    }
  };
}

function factsOf(metadata: ProviderMetadata): ProviderFacts {
  const {
    registration_endpoint: registration,
    code_challenge_methods_supported: challenges,
    pushed_authorization_request_endpoint: par,
  } = metadata;
  return {
    endpoints: Object.entries(ENDPOINT_MEMBERS).flatMap(([name, member]) =>
      metadata[member] === undefined ? [] : [ENDPOINT_WORDS[name] ?? name],
    ),
    scopes: textsOf(metadata.scopes_supported).filter((scope) => /^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/.test(scope)),
    authMethods: textsOf(metadata.token_endpoint_auth_methods_supported),
    pkce: Array.isArray(challenges) ? challenges.includes('S256') : undefined,
    par:
      metadata.require_pushed_authorization_requests === true ? 'required' : par === undefined ? undefined : 'offered',
    dpop: textsOf(metadata.dpop_signing_alg_values_supported).length > 0,
    backchannelLogout: metadata.backchannel_logout_supported === true,
    registrationEndpoint: typeof registration === 'string' ? registration : undefined,
  };
}

const ENDPOINT_WORDS: Readonly<Record<string, string>> = { endSession: 'end-session', jwks: 'signing keys' };

function textsOf(value: unknown): string[] {
  const texts = (Array.isArray(value) ? value : []).filter((item) => typeof item === 'string');
  return texts.filter(({ length }) => length <= MAX_TEXT_LENGTH).slice(0, MAX_LISTED);
}

function faultOf(error: unknown): string {
  const { reason, facts } = ProviderError.from(error);
  if (facts.limited) return LIMITED_WORDS;
  const status = facts.status === undefined ? '' : ` (it responded with ${facts.status})`;
  const words: Record<string, string> = {
    issuer_mismatch: mismatchFault(facts.issuer),
    discovery_failed: `There is no provider metadata at this address${status}. If the provider has none, enter the endpoints by hand.`,
    discovery_not_json: 'The document at this address is not provider metadata.',
    endpoint_refused: `The provider names an address that must not be called${facts.endpoint ? ` (${facts.endpoint})` : ''}.`,
    endpoint_missing: 'The metadata lacks the authorization or the token endpoint: enter them by hand.',
  };
  return words[reason] ?? 'The provider’s metadata cannot be read.';
}

function mismatchFault(issuer = ''): string {
  const shortIssuer = cutText(issuer, 200);
  if (isIssuerTemplate(issuer)) {
    return `The metadata there is for many tenants. Enter the issuer of one tenant or, to name several below, ${shortIssuer} with this address as the discovery URL.`;
  }
  return `The metadata there names another issuer${shortIssuer === '' ? '' : `: enter ${shortIssuer} if you trust it`}. A slash at the end counts.`;
}

/** Returns the issuer that the provider names, if it can be entered in place of the requested one. */
function otherIssuer(error: unknown): string | undefined {
  const { reason, facts } = ProviderError.from(error);
  const issuer = reason === 'issuer_mismatch' ? facts.issuer : undefined;
  return issuer !== undefined && issuer.length <= 2000 && !isIssuerTemplate(issuer) ? issuer : undefined;
}
