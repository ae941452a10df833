/** Owns the sandbox as a whole: identity provider, platform and BIN lookup service on three ports. */
import { randomBytes } from 'node:crypto';
import type { RequestListener } from 'node:http';
import { type Account, type Accounts, createAccounts } from './accounts.ts';
import { createAdmission } from './admission.ts';
import { type ApiTokens, createApiTokens } from './api-tokens.ts';
import { DEFAULT_REFRESH_IDLE_SECONDS, type RefreshTokens, type StartedWith } from './app-settings.ts';
import { createApps } from './apps.ts';
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
import { createHits, type Hits } from './hits.ts';
import { createIdentityProvider, type IdentityProvider } from './identity-provider.ts';
import { createIntrospection } from './introspection.ts';
import { type Listeners, openListeners } from './listeners.ts';
import type { SecondFactorDemand } from './login-policy.ts';
import { OWN_CALLBACK_PATH } from './own-sign-in.ts';
import { createPages } from './pages.ts';
import { createPlatform } from './platform.ts';
import { createProviderRecords } from './provider-records.ts';
import { createRateLimits, type RateLimits, USUAL_LIMITS } from './rate-limits.ts';
import { createSecondFactor, type SecondFactor } from './second-factor.ts';
import type { Seed } from './seed.ts';
import { appsOf, plantThreads, plantTokens } from './seeding.ts';
import { createSigningKeys, type SigningKeys } from './signing-keys.ts';
import { createThreads } from './threads.ts';

export interface SandboxOptions {
  /** Default `127.0.0.1`; anything but loopback needs `beyondLoopback` too. */
  host?: string;
  /** Whoever reaches the host may do everything: nothing in the sandbox is protected. */
  beyondLoopback?: boolean;
  /** The host in URLs, where it is another one than is listened on. */
  publicHost?: string;
  /** The first of three ports in a row; 0 (default) takes any three free ones. */
  port?: number;
  clients: readonly SandboxClient[];
  /** What `readSeed` made of a seed file. */
  seed?: Seed;
  /** Default 60. */
  accessTokenSeconds?: number;
  /** A refresh token ends when it was not used for so long. Default 14 days. */
  refreshIdleSeconds?: number;
  /** A refresh token ends so long after the sign-in, however often it is used. Default: it does not. */
  refreshMaxSeconds?: number;
  /** Whether name, e-mail and groups are in the ID token as well as at userinfo. Default true. */
  claimsInIdToken?: boolean;
  /** Default `rotating`; with `grace` 60 seconds. */
  refreshTokens?: Partial<RefreshTokens>;
  /** The token endpoint keeps its answers back for so long. Default 0. */
  tokenDelayMilliseconds?: number;
  /** Whether accounts that have a second factor show it when an app asks (`acr_values=mfa`), or always. Default `on_request`. */
  secondFactor?: SecondFactorDemand;
  /** Default: headers as usual, and nothing refused. */
  rateLimits?: Partial<RateLimits>;
  /** One more approval of the same app by the same account ends the oldest. Default: no limit. */
  approvalsKept?: number;
  /** Lets apps register themselves; the admin console makes more of them. Default: none. */
  initialAccessToken?: string;
  binService: RequestListener;
  /** Milliseconds since 1970. Lifetimes of the identity provider's tokens follow the clock of the process, not this one. */
  now?: () => number;
  /** Hears of failures inside the sandbox itself. */
  report?: (error: unknown) => void;
}

export interface Sandbox {
  readonly issuer: string;
  readonly platformUrl: string;
  readonly binServiceUrl: string;
  /** The people who can sign in with the password that everyone has. */
  readonly accounts: readonly (Account & { readonly password: string })[];
  readonly refreshTokens: RefreshTokens;
  readonly rateLimits: RateLimits;
  readonly faults: Faults;
  readonly hits: Hits;
  /** A code that the second factor of this login takes now; undefined where it has none. */
  secondFactorCode(login: string): string | undefined;
  /** Ends open connections too. */
  close(): Promise<void>;
}

export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { host = '127.0.0.1', port = 0, beyondLoopback = false, publicHost } = options;
  const listeners = await openListeners({ host, port, beyondLoopback, ...(publicHost ? { publicHost } : {}) });
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
  plantTokens(seed, accounts, apiTokens);
  const signingKeys = await createSigningKeys();
  const refreshTokens: RefreshTokens = { policy: 'rotating', graceSeconds: 60, ...options.refreshTokens };
  const rateLimits: RateLimits = { ...USUAL_LIMITS, ...options.rateLimits };
  const platformClient = { clientId: PLATFORM_CLIENT_ID, clientSecret: randomBytes(32).toString('base64url') };
  const shared = { accounts, secondFactor, apiTokens, signingKeys, platformClient, now, report };
  const identityProvider = openIdentityProvider(urls, options, { ...shared, refreshTokens });
  if (options.initialAccessToken) await identityProvider.makeInitialAccessToken(options.initialAccessToken);
  const platform = openPlatform(listeners, seed, { ...shared, rateLimits });

  const hits = createHits({ now });
  const faults = createFaults();
  const gated = createGate({ hits, faults, signingKeys, report });
  listeners.serve({
    'identity-provider': gated('identity-provider', identityProvider.app),
    platform: gated('platform', platform),
    'bin-service': gated('bin-service', options.binService),
  });
  const withPassword = accounts.all.filter(({ kind, id }) => kind === 'person' && !accounts.hasOwnPassword(id));
  return {
    issuer: urls['identity-provider'],
    platformUrl: urls.platform,
    binServiceUrl: urls['bin-service'],
    accounts: withPassword.map((account) => ({ ...account, password: accounts.password })),
    refreshTokens,
    rateLimits,
    faults,
    hits,
    secondFactorCode(login) {
      const account = accounts.byLogin(login);
      return account && secondFactor.currentCode(account)?.code;
    },
    close: listeners.close,
  };
}

interface SharedParts {
  accounts: Accounts;
  secondFactor: SecondFactor;
  apiTokens: ApiTokens;
  signingKeys: SigningKeys;
  /** By which the platform introspects tokens. */
  platformClient: { clientId: string; clientSecret: string };
  now: () => number;
  report: (error: unknown) => void;
}

function openIdentityProvider(
  urls: Listeners['urls'],
  options: SandboxOptions,
  { refreshTokens, platformClient, ...shared }: SharedParts & { refreshTokens: RefreshTokens },
): IdentityProvider {
  const { now } = shared;
  const issuer = urls['identity-provider'];
  const apps = createApps({
    clients: [...options.clients, ...appsOf(options.seed)],
    started: startedWith(options),
    refreshTokens,
    own: [
      resourceServerMetadata(platformClient.clientId, platformClient.clientSecret),
      ownPagesMetadata(PAGES_CLIENT_ID, issuer + OWN_CALLBACK_PATH),
    ],
    now,
  });
  const graceSeconds = (clientId: string) => {
    const settings = apps.settingsOf(clientId);
    return settings.refreshPolicy === 'grace' ? settings.graceSeconds : 0;
  };
  return createIdentityProvider({
    ...shared,
    issuer,
    platformUrl: urls.platform,
    apps,
    records: createProviderRecords({ now, maxRecords: 50_000, graceSeconds }),
    pages: createPages(),
    platformClientId: platformClient.clientId,
    claimsInIdToken: options.claimsInIdToken ?? true,
    secondFactorDemand: options.secondFactor ?? 'on_request',
    approvalsKept: options.approvalsKept ?? Number.POSITIVE_INFINITY,
  });
}

function openPlatform(
  { urls, innerIssuer }: Listeners,
  seed: Seed | undefined,
  { accounts, apiTokens, platformClient, rateLimits, now, report }: SharedParts & { rateLimits: RateLimits },
): RequestListener {
  const threads = createThreads({ accounts, baseUrl: urls.platform, startedAtMs: now(), now });
  plantThreads(seed, accounts, threads);
  const admission = createAdmission({
    introspect: createIntrospection({ endpoint: `${innerIssuer}/introspect`, ...platformClient }),
    apiTokens,
    accounts,
    proofFits: createProofCheck({ now }),
    baseUrl: urls.platform,
  });
  return createPlatform({ admission, threads, countCall: createRateLimits({ now, limits: rateLimits }), report });
}

function startedWith(options: SandboxOptions): StartedWith {
  const { refreshMaxSeconds } = options;
  return {
    accessTokenSeconds: options.accessTokenSeconds ?? 60,
    refreshIdleSeconds: options.refreshIdleSeconds ?? DEFAULT_REFRESH_IDLE_SECONDS,
    ...(refreshMaxSeconds === undefined ? {} : { refreshMaxSeconds }),
    tokenDelayMilliseconds: options.tokenDelayMilliseconds ?? 0,
  };
}
