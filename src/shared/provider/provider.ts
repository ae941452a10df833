/** Creates the client for providers, with its sources of metadata and signing keys. */
import type { Outbound } from '../outbound/outbound.ts';
import type { AssertionSigner } from './client-credentials.ts';
import { createProviderClient, type OnTokens, type ProviderClient } from './provider-client.ts';
import { createProviderJwts, type ProviderJwts } from './provider-jwt.ts';
import { createProviderMetadata, type OnMetadata, type ProviderMetadataSource } from './provider-metadata.ts';
import { createSigningKeys } from './signing-keys.ts';

export interface ProviderParts {
  outbound: Outbound;
  /** Milliseconds since the epoch. */
  clock: () => number;
  /** Milliseconds, independent of the system's time. */
  monotonicClock: () => number;
  random: () => number;
}

export interface Provider {
  metadata: ProviderMetadataSource;
  jwts: ProviderJwts;
  provider: ProviderClient;
}

/** @param parts `ownKeys` for private_key_jwt */
export function createProvider(
  parts: ProviderParts & { ownKeys?: AssertionSigner; onTokens?: OnTokens; onMetadata?: OnMetadata },
): Provider {
  const { outbound, clock, monotonicClock, random, ownKeys, onTokens, onMetadata } = parts;
  const metadata = createProviderMetadata({ outbound, clock, monotonicClock, random, onRead: onMetadata });
  const signingKeys = createSigningKeys({ outbound, clock, monotonicClock });
  const jwts = createProviderJwts({ metadata, signingKeys, clock });
  return { metadata, jwts, provider: createProviderClient({ outbound, metadata, jwts, clock, ownKeys, onTokens }) };
}
