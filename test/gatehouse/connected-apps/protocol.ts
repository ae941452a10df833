/** The client for a provider as Gatehouse has it, with the hostile provider, and a sign-in without a browser. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, vi } from 'vitest';
import { parseConnectedApps } from '../../../src/gatehouse/connected-apps/app-file.ts';
import { createOwnKeys, type OwnKeys } from '../../../src/gatehouse/connected-apps/own-keys.ts';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type Outbound } from '../../../src/shared/outbound/outbound.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import {
  createProviderClient,
  type OnTokens,
  type ProviderClient,
} from '../../../src/shared/provider/provider-client.ts';
import { ProviderError } from '../../../src/shared/provider/provider-error.ts';
import { createProviderJwts } from '../../../src/shared/provider/provider-jwt.ts';
import { createProviderMetadata } from '../../../src/shared/provider/provider-metadata.ts';
import { createSigningKeys } from '../../../src/shared/provider/signing-keys.ts';
import type { TokenResponse } from '../../../src/shared/provider/token-response.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { makeSealer } from '../../support/encryption-keys.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';

export const REDIRECT_URI = 'https://gatehouse.example.com/oauth/callback/elsewhere';
export const REQUEST = {
  redirectUri: REDIRECT_URI,
  state: 'state-1',
  nonce: 'nonce-1',
  codeVerifier: 'verifier-0123456789-0123456789-0123456789-01',
  scopes: ['openid', 'profile', 'offline_access'],
};

/** One provider for a test file, and for each test a client without cached data. */
export interface Protocol {
  readonly provider: HostileProvider;
  readonly outbound: Outbound;
  readonly store: Store;
  readonly ownKeys: OwnKeys;
  client: ProviderClient;
  app: ConnectedApp;
  /** The clock for discovery and keys, in milliseconds; only tests advance it. */
  elapsed: number;
  freshClient(onTokens?: OnTokens): ProviderClient;
  /** An app for the hostile provider, or for another instance of it. */
  appOf(changes?: Record<string, unknown>, ofProvider?: HostileProvider): ConnectedApp;
  logIn(app?: ConnectedApp): Promise<TokenResponse>;
}

export function useProtocol(): Protocol {
  let provider: HostileProvider;
  let outbound: Outbound;
  let store: Store;
  let directory: string;

  function freshClient(onTokens?: OnTokens): ProviderClient {
    const monotonicClock = () => protocol.elapsed;
    const metadata = createProviderMetadata({ outbound, monotonicClock, random: () => 0.5 });
    const signingKeys = createSigningKeys({ outbound, monotonicClock });
    const jwts = createProviderJwts({ metadata, signingKeys, clock: () => Date.now() });
    return createProviderClient({ outbound, metadata, jwts, ownKeys: protocol.ownKeys, onTokens });
  }

  function appOf(changes: Record<string, unknown> = {}, ofProvider: HostileProvider = provider): ConnectedApp {
    const env = { HOSTILE_CLIENT_SECRET: ofProvider.clientSecret };
    const text = JSON.stringify([ofProvider.app('https://gatehouse.example.com', changes)]);
    const { apps, faults } = parseConnectedApps(text, { env, readFile: () => '' });
    if (!apps[0] || faults.length > 0) throw new Error(faults.join());
    return apps[0];
  }

  async function logIn(app = protocol.app): Promise<TokenResponse> {
    const authorizationUrl = await protocol.client.authorizationUrl(app, REQUEST);
    const redirect = await fetch(authorizationUrl, { redirect: 'manual' });
    const callbackUrl = new URL(redirect.headers.get('location') ?? '');
    return protocol.client.exchangeCode(app, callbackUrl, REQUEST);
  }

  // The other members are set before each test.
  const protocol = { elapsed: 0, freshClient, appOf, logIn } as Protocol;
  beforeAll(async () => {
    provider = await startHostileProvider();
    outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
    directory = mkdtempSync(join(tmpdir(), 'gatehouse-protocol-'));
    store = await createSqliteStore({ directory, clock: Date.now, random: Math.random });
    const ownKeys = createOwnKeys({ store, sealedJson: createSealedJson(makeSealer()), clock: Date.now });
    Object.assign(protocol, { provider, outbound, store, ownKeys });
  });
  beforeEach(() => {
    protocol.client = freshClient();
    protocol.app = appOf();
  });
  afterEach(() => {
    vi.useRealTimers();
    provider.reset();
  });
  afterAll(async () => {
    await outbound.close();
    await provider.close();
    await store.close();
    rmSync(directory, { recursive: true });
  });
  return protocol;
}

/** The `ProviderError` that this call must fail with. */
export async function failureOf(call: Promise<unknown>): Promise<{ failure: string; reason: string }> {
  try {
    await call;
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    return { failure: error.failure, reason: error.reason };
  }
  throw new Error('The call did not fail.');
}
