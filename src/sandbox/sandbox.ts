/** Owns the sandbox as a whole: identity provider, platform and BIN lookup service on three ports of loopback. */
import { randomBytes } from 'node:crypto';
import type { RequestListener } from 'node:http';
import { type Account, createAccounts } from './accounts.ts';
import type { SandboxClient } from './clients.ts';
import { createFaults, type Faults } from './faults.ts';
import { createGate } from './gate.ts';
import { createHits, type Hits } from './hits.ts';
import { createIdentityProvider, type RefreshTokens } from './identity-provider.ts';
import { createIntrospection } from './introspection.ts';
import { type Listeners, openListeners } from './listeners.ts';
import { createPlatform } from './platform.ts';
import { createSigningKeys } from './signing-keys.ts';
import { createThreads } from './threads.ts';

export interface SandboxOptions {
  /** Loopback only. Default `127.0.0.1`. */
  host?: string;
  /** The first of three ports in a row; 0 (default) takes any three free ones. */
  port?: number;
  clients: readonly SandboxClient[];
  /** Default 60. */
  accessTokenSeconds?: number;
  /** Whether name, e-mail and groups are in the ID token as well as at userinfo. Default true. */
  claimsInIdToken?: boolean;
  /** Default `rotating`; with `grace` 60 seconds. */
  refreshTokens?: Partial<RefreshTokens>;
  binService: RequestListener;
  /** Milliseconds since 1970. Lifetimes of tokens follow the clock of the process, not this one. */
  now?: () => number;
  /** Hears of failures inside the sandbox itself. */
  report?: (error: unknown) => void;
}

export interface Sandbox {
  readonly issuer: string;
  readonly platformUrl: string;
  readonly binServiceUrl: string;
  readonly accounts: readonly (Account & { readonly password: string })[];
  readonly refreshTokens: RefreshTokens;
  readonly faults: Faults;
  readonly hits: Hits;
  /** Ends open connections too. */
  close(): Promise<void>;
}

export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const listeners = await openListeners({ host: options.host ?? '127.0.0.1', port: options.port ?? 0 });
  try {
    return await assemble(listeners, options);
  } catch (error) {
    await listeners.close();
    throw error;
  }
}

async function assemble(listeners: Listeners, options: SandboxOptions): Promise<Sandbox> {
  const { now = Date.now, report = () => undefined } = options;
  const { urls } = listeners;
  const issuer = urls['identity-provider'];
  const accounts = createAccounts();
  const signingKeys = await createSigningKeys();
  const resourceServer = { clientId: 'sandbox-platform', clientSecret: randomBytes(32).toString('base64url') };
  const { clients, accessTokenSeconds = 60, claimsInIdToken = true } = options;
  const refreshTokens: RefreshTokens = { policy: 'rotating', graceSeconds: 60, ...options.refreshTokens };
  const identityProvider = createIdentityProvider({
    issuer,
    accounts,
    clients,
    resourceServer,
    signingKeys,
    accessTokenSeconds,
    claimsInIdToken,
    refreshTokens,
    now,
    report,
  });
  const introspect = createIntrospection({ endpoint: `${issuer}/introspect`, ...resourceServer });
  const threads = createThreads({ accounts: accounts.all, baseUrl: urls.platform, startedAtMs: now() });
  const platform = createPlatform({ introspect, threads, now, report });

  const hits = createHits({ now });
  const faults = createFaults();
  const gated = createGate({ hits, faults, signingKeys, report });
  listeners.serve({
    'identity-provider': gated('identity-provider', identityProvider),
    platform: gated('platform', platform),
    'bin-service': gated('bin-service', options.binService),
  });
  return {
    issuer,
    platformUrl: urls.platform,
    binServiceUrl: urls['bin-service'],
    accounts: accounts.all.map((account) => ({ ...account, password: accounts.password })),
    refreshTokens,
    faults,
    hits,
    close: listeners.close,
  };
}
