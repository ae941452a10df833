/** Assembles the sandbox: identity provider, platform and BIN lookup service on three ports. */
import { randomBytes } from 'node:crypto';
import type { RequestListener } from 'node:http';
import { type Account, type Accounts, createAccounts } from './accounts.ts';
import { type ApiTokens, createApiTokens } from './api-tokens.ts';
import { DEFAULT_REFRESH_IDLE_SECONDS, type DefaultSettings, type RefreshPolicy } from './app-settings.ts';
import { type AppRegistry, createApps } from './apps.ts';
import { createAuthorization } from './authorization.ts';
import {
  ownPagesMetadata,
  PAGES_CLIENT_ID,
  PLATFORM_CLIENT_ID,
  resourceServerMetadata,
  type SandboxClient,
} from './clients.ts';
import { createProofCheck } from './dpop-proof.ts';
import { createFaults, type Faults } from './faults.ts';
import { createGate } from './gate.ts';
import { createIdentityProvider, type IdentityProvider } from './identity-provider.ts';
import { createIntrospection } from './introspection.ts';
import { type Listeners, openListeners } from './listeners.ts';
import type { SecondFactorDemand } from './login-policy.ts';
import { OWN_CALLBACK_PATH } from './own-sign-in.ts';
import { createPages } from './pages.ts';
import { createPlatform } from './platform.ts';
import { createPlatformCalls, type PlatformCall } from './platform-calls.ts';
import { createProviderRecords } from './provider-records.ts';
import { createRateLimits, type RateLimits, USUAL_LIMITS } from './rate-limits.ts';
import { createRequestRecorder, type RecordedRequests } from './recorded-requests.ts';
import { createSecondFactor, type SecondFactor } from './second-factor.ts';
import type { Seed } from './seed.ts';
import { addSeedThreads, addSeedTokens, appsOf } from './seeding.ts';
import { createSigningKeys, generateKeys, type SigningKey, type SigningKeys } from './signing-keys.ts';
import type { Switches } from './switches.ts';
import { createThreads, type Threads } from './threads.ts';

export interface SandboxOptions {
  /** Default `127.0.0.1`. An address that is not loopback also requires `beyondLoopback`. */
  host?: string;
  /** Nothing in the sandbox is protected: every client that reaches the host can do everything. */
  beyondLoopback?: boolean | undefined;
  /** The host in URLs; default: `host`. */
  publicHost?: string | undefined;
  /** The first of three consecutive ports; 0 (default) for any three free ports. */
  port?: number;
  clients: readonly SandboxClient[];
  /** The entries of a seed file, from `readSeed`. */
  seed?: Seed | undefined;
  /** Default 60. */
  accessTokenSeconds?: number;
  /** A refresh token expires if it is not used for this long. Default 14 days. */
  refreshIdleSeconds?: number;
  /** A refresh token expires this long after the sign-in, even if it is used. Default: no limit. */
  refreshMaxSeconds?: number | undefined;
  /** Whether name, e-mail and groups are in the ID token, not only at userinfo. Default true. */
  claimsInIdToken?: boolean;
  /** Default `rotating`; with `grace` 60 seconds. */
  refreshTokens?: Partial<RefreshPolicy>;
  /** Delay of the token endpoint's responses. Default 0. */
  tokenDelayMilliseconds?: number;
  /** Whether second factors are required only with `acr_values=mfa`, or always. Default `on_request`. */
  secondFactor?: SecondFactorDemand;
  /** Default: headers state the usual limits, and no call is refused. */
  rateLimits?: Partial<RateLimits>;
  /** Maximum of approvals of one app by one account. A further approval ends the oldest one. Default: no limit. */
  maxApprovals?: number;
  /** The keys, from `generateKeys`, that sign ID tokens until the first rotation. Default: new keys. */
  signingKeys?: readonly SigningKey[];
  /** An initial access token for dynamic registration. The admin console can create more. Default: none. */
  initialAccessToken?: string;
  binService: RequestListener;
  /** Serves `/tour` on the port of the identity provider. */
  tour?: RequestListener;
  /** Milliseconds since 1970. The identity provider's token lifetimes use the clock of the process instead. */
  now?: () => number;
  /** Called for errors of the sandbox itself. */
  report?: (error: unknown) => void;
}

export interface Sandbox {
  readonly issuer: string;
  readonly platformUrl: string;
  readonly binServiceUrl: string;
  /** The accounts that sign in with the shared password. */
  readonly accounts: readonly (Account & { readonly password: string })[];
  readonly refreshTokens: RefreshPolicy;
  readonly rateLimits: RateLimits;
  readonly faults: Faults;
  readonly switches: Switches;
  readonly requests: RecordedRequests;
  /** Returns a valid code; undefined for an account without a second factor. */
  secondFactorCode(login: string): string | undefined;
  /** Closes the listeners, and the connections that are still open. */
  close(): Promise<void>;
}

export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { host = '127.0.0.1', port = 0, beyondLoopback, publicHost } = options;
  const listeners = await openListeners({ host, port, beyondLoopback, publicHost });
  try {
    return await assemble(listeners, options);
  } catch (error) {
    await listeners.close();
    throw error;
  }
}

async function assemble(listeners: Listeners, options: SandboxOptions): Promise<Sandbox> {
  const { now = Date.now, report = () => undefined, seed } = options;
  const { urls } = listeners;
  const accounts = createAccounts(seed ? { builtIn: seed.builtInUsers, more: seed.users } : {});
  const secondFactor = createSecondFactor({ now });
  const apiTokens = createApiTokens({ now });
  addSeedTokens(seed, accounts, apiTokens);
  const signingKeys = createSigningKeys(options.signingKeys ?? (await generateKeys()));
  const refreshTokens: RefreshPolicy = { policy: 'rotating', graceSeconds: 60, ...options.refreshTokens };
  const rateLimits: RateLimits = { ...USUAL_LIMITS, ...options.rateLimits };
  const platformClient = { clientId: PLATFORM_CLIENT_ID, clientSecret: randomBytes(32).toString('base64url') };
  const apps = createApps({
    clients: [...options.clients, ...appsOf(seed)],
    defaults: defaultSettings(options),
    refreshTokens,
    own: [
      resourceServerMetadata(platformClient.clientId, platformClient.clientSecret),
      ownPagesMetadata(PAGES_CLIENT_ID, urls['identity-provider'] + OWN_CALLBACK_PATH),
    ],
    now,
  });
  const threads = createThreads({ accounts, baseUrl: urls.platform, startedAtMs: now(), now });
  addSeedThreads(seed, accounts, threads);
  const platformCalls = createPlatformCalls({ threads, baseUrl: urls.platform });
  const shared = {
    accounts,
    apps,
    threads,
    platformCalls,
    secondFactor,
    apiTokens,
    signingKeys,
    platformClient,
    now,
    report,
  };
  const identityProvider = openIdentityProvider(urls, options, shared);
  if (options.initialAccessToken) await identityProvider.createInitialAccessToken(options.initialAccessToken);
  const platform = openPlatform(listeners, { ...shared, rateLimits });

  const requests = createRequestRecorder({ now });
  const faults = createFaults();
  const gated = createGate({ requests, faults, signingKeys, report });
  listeners.serve({
    'identity-provider': gated('identity-provider', identityProvider.app),
    platform: gated('platform', platform),
    'bin-lookup-service': gated('bin-lookup-service', options.binService),
  });
  const sharedPasswordAccounts = accounts.all.filter(
    ({ kind, id }) => kind === 'person' && !accounts.hasOwnPassword(id),
  );
  return {
    issuer: urls['identity-provider'],
    platformUrl: urls.platform,
    binServiceUrl: urls['bin-lookup-service'],
    accounts: sharedPasswordAccounts.map((account) => ({ ...account, password: accounts.password })),
    refreshTokens,
    rateLimits,
    faults,
    switches: identityProvider.switches,
    requests,
    secondFactorCode(login) {
      const account = accounts.byLogin(login);
      return account && secondFactor.currentCode(account)?.code;
    },
    close: listeners.close,
  };
}

interface SharedParts {
  accounts: Accounts;
  apps: AppRegistry;
  threads: Threads;
  platformCalls: readonly PlatformCall[];
  secondFactor: SecondFactor;
  apiTokens: ApiTokens;
  signingKeys: SigningKeys;
  /** The client with which the platform introspects tokens. */
  platformClient: { clientId: string; clientSecret: string };
  now: () => number;
  report: (error: unknown) => void;
}

function openIdentityProvider(
  urls: Listeners['urls'],
  options: SandboxOptions,
  { platformClient, ...shared }: SharedParts,
): IdentityProvider {
  const { apps, now } = shared;
  const graceSeconds = (clientId: string) => {
    const settings = apps.settingsOf(clientId);
    return settings.refreshPolicy === 'grace' ? settings.graceSeconds : 0;
  };
  return createIdentityProvider({
    ...shared,
    issuer: urls['identity-provider'],
    platformUrl: urls.platform,
    tour: options.tour,
    records: createProviderRecords({ now, maxRecords: 50_000, graceSeconds }),
    pages: createPages(),
    platformClientId: platformClient.clientId,
    claimsInIdToken: options.claimsInIdToken ?? true,
    secondFactorDemand: options.secondFactor ?? 'on_request',
    maxApprovals: options.maxApprovals ?? Number.POSITIVE_INFINITY,
  });
}

function openPlatform(
  { urls, innerIssuer }: Listeners,
  parts: SharedParts & { rateLimits: RateLimits },
): RequestListener {
  const { accounts, apps, platformCalls: calls, apiTokens, platformClient, rateLimits, now, report } = parts;
  const authorization = createAuthorization({
    introspect: createIntrospection({ endpoint: `${innerIssuer}/introspect`, ...platformClient }),
    apiTokens,
    accounts,
    apps,
    isProofValid: createProofCheck({ now }),
    baseUrl: urls.platform,
    now,
  });
  const countCall = createRateLimits({ now, limits: rateLimits });
  return createPlatform({ authorization, calls, issuer: urls['identity-provider'], countCall, report });
}

function defaultSettings(options: SandboxOptions): DefaultSettings {
  const { accessTokenSeconds = 60, refreshIdleSeconds = DEFAULT_REFRESH_IDLE_SECONDS } = options;
  const { refreshMaxSeconds, tokenDelayMilliseconds = 0 } = options;
  return { accessTokenSeconds, refreshIdleSeconds, refreshMaxSeconds, tokenDelayMilliseconds };
}
