/** Owns what a provider tells of itself to somebody who is about to register an app there, or in words why it tells nothing. */
import { ADDRESS_ADVICE } from '../outbound/address-policy.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { ConnectedApp } from './connected-app.ts';
import { ProviderError } from './provider-error.ts';
import type { ProviderMetadata, ProviderMetadataSource } from './provider-metadata.ts';

export interface ProviderFacts {
  /** Names of its endpoints, as in a registration. */
  endpoints: string[];
  scopes: string[];
  authMethods: string[];
  /** Where clients register themselves (RFC 7591); undefined where they cannot. */
  registrationEndpoint: string | undefined;
}

export type FactsRead = { facts: ProviderFacts; fault?: never } | { facts?: never; fault: string };

const MOST_SCOPES = 40;

export async function readProviderFacts(
  { metadata, examine }: { metadata: ProviderMetadataSource; examine: Outbound['examine'] },
  { issuer, discoveryUrl }: { issuer: string; discoveryUrl: string | undefined },
): Promise<FactsRead> {
  const rule = await examine(discoveryUrl ?? issuer);
  if (rule) return { fault: asSentence(ADDRESS_ADVICE[rule]) };
  try {
    return { facts: factsOf(await metadata.load(stranger(issuer, discoveryUrl))) };
  } catch (error) {
    return { fault: wordsFor(ProviderError.from(error)) };
  }
}

function factsOf(known: ProviderMetadata): ProviderFacts {
  return {
    endpoints: Object.entries(ENDPOINTS).flatMap(([member, name]) => (known[member] === undefined ? [] : [name])),
    scopes: textsOf(known.scopes_supported).filter((scope) => /^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/.test(scope)),
    authMethods: textsOf(known.token_endpoint_auth_methods_supported),
    registrationEndpoint: typeof known.registration_endpoint === 'string' ? known.registration_endpoint : undefined,
  };
}

const ENDPOINTS: Readonly<Record<string, string>> = {
  authorization_endpoint: 'authorization',
  token_endpoint: 'token',
  userinfo_endpoint: 'userinfo',
  revocation_endpoint: 'revocation',
  end_session_endpoint: 'end-session',
  introspection_endpoint: 'introspection',
  jwks_uri: 'signing keys',
};

function textsOf(value: unknown): string[] {
  return (Array.isArray(value) ? value : []).filter((one) => typeof one === 'string').slice(0, MOST_SCOPES);
}

/** No app of this list: there is just enough of it to be asked for. */
function stranger(issuer: string, discoveryUrl: string | undefined): ConnectedApp {
  const nothing = {
    id: '',
    name: '',
    clientId: '',
    clientSecret: undefined,
    scopes: [],
    callbackUrls: [],
    returnUrls: [],
  };
  const at = discoveryUrl === undefined ? { issuer } : { issuer, discoveryUrl };
  return { ...nothing, ...at, tokenEndpointAuthMethod: 'none' } as unknown as ConnectedApp;
}

function wordsFor({ reason, facts }: ProviderError): string {
  const status = facts.status === undefined ? '' : ` (it answered ${facts.status})`;
  const words: Record<string, string> = {
    issuer_mismatch:
      'The description there names another issuer. Compare character by character: a slash at the end counts.',
    discovery_failed: `There is no description of a provider at this address${status}. Where it has none, give the endpoints by hand.`,
    discovery_not_json: 'What is at this address is no description of a provider.',
    endpoint_refused: `The provider names an address that must not be called${facts.endpoint ? ` (${facts.endpoint})` : ''}.`,
    endpoint_missing: 'The description lacks the authorization or the token endpoint: give them by hand.',
    address: 'The host name leads to an address that must not be called: name it in INTERNAL_HOSTS if it may be.',
    timeout: 'The provider did not answer in time.',
  };
  return (
    words[reason] ?? 'The provider could not be reached: check the address, and whether it is reachable from here.'
  );
}

const asSentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
