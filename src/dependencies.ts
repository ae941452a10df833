/** Owns the assembly: the only place where things are made and joined. */
import { randomBytes } from 'node:crypto';
import type { RequestListener } from 'node:http';
import { join } from 'node:path';
import type { DestinationStream } from 'pino';
import { createApp } from './app.ts';
import { containsCardNumber, scrubCardNumbers } from './bin/bin.ts';
import { createBinClient } from './bin/bin-client.ts';
import { createBuiltInDataset } from './bin/built-in-dataset.ts';
import type { Dataset } from './bin/dataset.ts';
import { createBinLookup } from './bin/lookup.ts';
import { createBinQuota } from './bin/quota.ts';
import { binRoutes } from './bin/routes.ts';
import type { Config } from './config.ts';
import { createAppStore } from './connected-apps/app-store.ts';
import type { ConnectedApp } from './connected-apps/connected-app.ts';
import { createLogoutTokens } from './connected-apps/logout-token.ts';
import { createProviderClient } from './connected-apps/provider-client.ts';
import { createProviderMetadata } from './connected-apps/provider-metadata.ts';
import { createSigningKeys } from './connected-apps/signing-keys.ts';
import { createAuthorizedFetch } from './grants/authorized-fetch.ts';
import { createConnections } from './grants/connections.ts';
import { createGrantStore } from './grants/grant-store.ts';
import { createRefresher, REFRESH_LEASE_MILLISECONDS } from './grants/refresh.ts';
import { connectionRoutes } from './grants/routes.ts';
import { createTokenVault } from './grants/token-vault.ts';
import { homeRoutes } from './home/routes.ts';
import { createPages } from './http/pages.ts';
import { createSessions } from './http/session.ts';
import { createSessionLists } from './http/session-lists.ts';
import { createSessionRecords } from './http/session-record.ts';
import { createUserSessions } from './http/user-sessions.ts';
import { createViewerGuards } from './http/viewer.ts';
import { createViews } from './http/views.ts';
import { createEvents } from './observability/events.ts';
import { createHealth, type Health } from './observability/health.ts';
import { createLogger } from './observability/logger.ts';
import { createMetrics } from './observability/metrics.ts';
import { createAddressPolicy } from './outbound/address-policy.ts';
import { createOutbound } from './outbound/outbound.ts';
import { backchannelLogout } from './sign-in/backchannel-logout.ts';
import { createSignInFlow } from './sign-in/flow.ts';
import { signInRoutes } from './sign-in/routes.ts';
import { sessionRoutes } from './sign-in/sessions.ts';
import { createStateSigner } from './sign-in/state.ts';
import { createTransactions } from './sign-in/transaction.ts';
import { checkKeyRing } from './storage/key-check.ts';
import { createKeyRing, type EncryptionKey } from './storage/key-ring.ts';
import { createLeases } from './storage/lease.ts';
import { createRedisStore } from './storage/redis-store.ts';
import { createSealer } from './storage/sealed.ts';
import { createSqliteStore } from './storage/sqlite-store.ts';
import { threadRoutes } from './threads/routes.ts';
import { createThreadCall, THREAD_LIMITS } from './threads/thread-call.ts';

export interface DependencyParts {
  config: Config;
  encryptionKeys: readonly EncryptionKey[];
  connectedApps: readonly ConnectedApp[];
  importedDataset: Dataset | undefined;
  logDestination: DestinationStream;
}

export interface Dependencies {
  app: RequestListener;
  health: Health;
  /** Finishes the refreshes that are under way, then closes everything. */
  close(): Promise<void>;
}

/** @throws WrongKeyError, DatabaseFileError, RedisRefusedError, AppError `storage_unavailable` */
export async function createDependencies(parts: DependencyParts): Promise<Dependencies> {
  const { config, connectedApps } = parts;
  const { publicUrl } = config;
  const clock = Date.now;
  const random = Math.random;

  const metrics = createMetrics();
  const logger = createLogger({ level: config.logLevel, scrub: scrubCardNumbers, destination: parts.logDestination });
  const events = createEvents({ logger, metrics });

  const store = config.redis
    ? await createRedisStore({ ...config.redis, random })
    : await createSqliteStore({ directory: config.dataDirectory, clock, random });
  const sealer = createSealer(createKeyRing(parts.encryptionKeys));
  await checkKeyRing(store, sealer).catch(async (error: unknown) => {
    await store.close();
    throw error;
  });

  const outbound = createOutbound({ policy: createAddressPolicy(config.internalHosts) });
  const apps = createAppStore(connectedApps);
  const metadata = createProviderMetadata({ outbound, clock, random });
  const signingKeys = createSigningKeys({ outbound, clock });
  const provider = createProviderClient({ outbound, metadata, signingKeys });

  const grants = createGrantStore({ store, sealer, clock });
  const leases = createLeases({ store, milliseconds: REFRESH_LEASE_MILLISECONDS });
  const refresher = createRefresher({ grants, provider, leases, events, clock, random });
  const vault = createTokenVault({ grants, refresher, clock });
  const connections = createConnections({ grants, provider, events, clock });
  const authorizedFetch = createAuthorizedFetch({ vault, grants, outbound });
  const threads = createThreadCall({ authorizedFetch, publicHref: publicUrl.href, limits: THREAD_LIMITS, clock });

  const { service } = config.bin;
  const lookup = createBinLookup({
    imported: parts.importedDataset,
    builtIn: createBuiltInDataset(),
    client: service && createBinClient({ ...service, fetch: outbound.fetch, store, clock }),
    quota: service && createBinQuota({ store, limit: service.monthlyQuota, clock }),
    store,
    clock,
    events: {
      answered: (source) => events.binLookedUp({ source }),
      cacheFailed: (error) => events.binCacheFailed({ cause: error }),
      remoteAnswered: (outcome, reason) =>
        outcome === 'unavailable' && events.binServiceFailed({ reason: reason ?? outcome }),
    },
  });

  const lists = createSessionLists({ store, maxSeconds: config.session.maxSeconds, clock });
  const records = createSessionRecords({ store, lists, lifetimes: config.session, clock });
  const sessions = createSessions({ records, secrets: config.sessionSecrets, publicUrl });
  const userSessions = createUserSessions({ records, lists });
  const views = join(import.meta.dirname, '..', 'views');
  const pages = createPages({ views: createViews({ directory: views }), config });
  const [onlySignInApp, ...otherSignInApps] = apps.signInApps();
  const adminApp = config.admin.app ?? (otherSignInApps.length === 0 ? onlySignInApp?.id : undefined);
  const flow = createSignInFlow({
    apps,
    provider,
    connections,
    transactions: createTransactions({ store, sealer, clock }),
    states: createStateSigner({ secrets: config.sessionSecrets, randomBytes }),
    admin: { ...config.admin, app: adminApp },
    events,
    clock,
    randomToken: () => randomBytes(32).toString('base64url'),
    publicHref: publicUrl.href,
  });
  const isClean = (text: string) => !containsCardNumber(text);
  const site = { isClean, origin: publicUrl.origin, href: publicUrl.href, home: `${publicUrl.basePath}/` };
  const publicHref = publicUrl.href;

  const app = createApp({
    config,
    routes: {
      bin: binRoutes({ lookup, pages, events, publicHref }),
      connections: connectionRoutes({ apps, connections, pages, publicHref }),
      home: homeRoutes({ apps, connections, threads, pages, events, publicHref }),
      signIn: signInRoutes({ apps, flow, sessions, userSessions, connections, pages, events, site }),
      sessions: sessionRoutes({ userSessions, cookie: sessions.cookie, pages, events, basePath: publicUrl.basePath }),
      backchannelLogout: backchannelLogout({
        apps,
        logoutTokens: createLogoutTokens({ metadata, signingKeys, clock }),
        userSessions,
        store,
        events,
      }),
      threads: threadRoutes({ apps, threads }),
    },
    guards: createViewerGuards({ sessions, publicHref, basePath: publicUrl.basePath }),
    sessions,
    metrics,
    problems: { pages, events, publicHref, basePath: publicUrl.basePath, clock },
    isClean,
    assetsDirectory: join(views, 'assets'),
  });

  // Nobody waits for it: whoever needs such a grant settles it then.
  void refresher.settleAbandoned(apps.find).catch(() => undefined);

  return {
    app,
    health: createHealth({ ready: () => store.ready(), registry: metrics.registry }),
    async close() {
      await refresher.settle();
      await outbound.close();
      await store.close();
    },
  };
}
