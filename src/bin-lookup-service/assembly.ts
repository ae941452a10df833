/** Assembles the BIN lookup service from its parts. */
import { createSecretKey, hkdfSync, randomBytes } from 'node:crypto';
import type { IncomingMessage, RequestListener } from 'node:http';
import { builtInDataset } from '../shared/bin/built-in-dataset.ts';
import type { DatasetFile } from '../shared/bin/dataset-file.ts';
import { testCards } from '../shared/bin/test-cards.ts';
import { isInNetworks } from '../shared/config/networks.ts';
import { clientAddress } from '../shared/http/client-address.ts';
import { refusalReporter } from '../shared/http/problem.ts';
import { createRateLimits, limitsOf } from '../shared/http/rate-limit.ts';
import type { OnRefused } from '../shared/http/refusal.ts';
import { requestContext } from '../shared/http/request-context.ts';
import { securityHeaders } from '../shared/http/security-headers.ts';
import { createEvents } from '../shared/observability/events.ts';
import { createHealth, type Health } from '../shared/observability/health.ts';
import { createLogger, type LogDestination } from '../shared/observability/logger.ts';
import { createMetrics } from '../shared/observability/metrics.ts';
import { watchStorage } from '../shared/observability/storage-watch.ts';
import { createAddressPolicy } from '../shared/outbound/address-policy.ts';
import { createOutbound } from '../shared/outbound/outbound.ts';
import { createPages } from '../shared/pages/pages.ts';
import { BIN_SERVICE_VIEWS } from '../shared/pages/views.ts';
import { createProvider } from '../shared/provider/provider.ts';
import { createSessionStore } from '../shared/sessions/sessions.ts';
import { storageProbe } from '../shared/storage/probe.ts';
import { startScheduledTasks } from '../shared/storage/scheduled-task.ts';
import { createSealer, type Sealer } from '../shared/storage/sealed.ts';
import { createSealedJson } from '../shared/storage/sealed-json.ts';
import type { Store } from '../shared/storage/store.ts';
import { createAccountApp } from './account-app.ts';
import { accountRoutes } from './account-routes.ts';
import { createAccounts, type KeyAccess } from './accounts.ts';
import { createBans } from './bans.ts';
import { createBrowsers } from './browser.ts';
import { confirmationHandler } from './payments.ts';
import { createQuota } from './quota.ts';
import { createBinService } from './service.ts';
import type { BinServiceSettings } from './settings.ts';
import { createSignIn } from './sign-in.ts';

export interface BinServiceAssembly {
  listener: RequestListener;
  health: Health;
  onRefused: OnRefused;
  /** Releases reserved requests and closes everything but the store. */
  close(): Promise<void>;
}

export interface BinServiceParts {
  settings: BinServiceSettings;
  store: Store;
  /** The data set that is searched before the built-in one. */
  datasetFile?: DatasetFile | undefined;
  logDestination: LogDestination;
  /** Keys that are valid in addition to those of accounts. */
  fixedAccess?: ((key: string) => KeyAccess | undefined) | undefined;
  /** For a sandbox only: whether test cards have all facts, marked as test data. */
  withTestCards?: boolean | undefined;
  /** For a demo only: seconds after which a request for a plan is confirmed. */
  confirmSeconds?: number | undefined;
}

export function assembleBinService(parts: BinServiceParts): BinServiceAssembly {
  const { settings, store, datasetFile } = parts;
  const { publicUrl, free, plans } = settings;
  const clock = Date.now;
  const randomToken = () => randomBytes(32).toString('base64url');

  const metrics = createMetrics(parts.logDestination.dropped);
  const logger = createLogger({ level: settings.logLevel, destination: parts.logDestination });
  const events = createEvents({ logger, metrics });
  if (datasetFile) {
    const { dataset, report } = datasetFile;
    const { skipped: badRows, conflicts } = report;
    events.binDatasetLoaded({ source: dataset.source, rows: dataset.size, badRows, conflicts: conflicts.count });
  }

  // Load it before the first request, because loading blocks the process.
  const builtIn = builtInDataset();

  const outbound = createOutbound({ policy: createAddressPolicy(settings.internalHosts), proxy: settings.proxy });
  const monotonicClock = () => performance.now();
  const { provider } = createProvider({ outbound, clock, monotonicClock, random: Math.random });

  const accounts = createAccounts({ store, clock, randomBytes, planConfirmed: events.planConfirmed });
  const quota = createQuota({ counters: store, clock });
  const bans = createBans({ counters: store, ...settings.bans, clock });
  const limits = createRateLimits({ store, clock, perMinute: limitsOf(RATE_LIMITS) });
  const addressOf = clientAddress(settings.trustedProxies, events.forwardedFault);

  const signInUrl = `${publicUrl.href}/account/sign-in`;
  const redirectUri = `${publicUrl.href}/account/callback`;
  const sealer = accountSealer(settings.signIn?.clientSecret ?? randomToken());
  const sealedJson = createSealedJson(sealer, events.recordRefused);
  const sessions = createSessionStore({ store, sealedJson, lifetimes: settings.session, clock });
  const browsers = createBrowsers({
    records: sessions.records,
    publicUrl,
    randomToken,
    signInUrl,
  });
  const signIn =
    settings.signIn &&
    createSignIn({ settings: settings.signIn, provider, store, clock, randomToken, redirectUri, signInUrl });

  const pages = createPages({
    storage: { store, sealedJson },
    config: settings,
    views: BIN_SERVICE_VIEWS,
    home: '/account',
    clock,
  });
  const isTrusted = (address: string) => isInNetworks(address, settings.trustedProxies);
  const { basePath, href: publicHref } = publicUrl;
  const headers = securityHeaders(publicHref);
  const app = createAccountApp({
    publicUrl,
    begin: requestContext({ metrics, isTrusted, addressOf, headers }),
    routes: accountRoutes({
      accounts,
      browsers,
      signIn,
      quota,
      plans,
      free,
      pages,
      publicUrl,
      limits,
      randomToken,
      clock,
      confirmSeconds: parts.confirmSeconds,
    }),
    confirmPlan: confirmationHandler({ accounts, limits, token: settings.paymentToken }),
    browsers,
    problems: { pages, events, references: NO_REFERENCES, publicHref, basePath, clock },
    isTrusted,
  });

  const listener = createBinService({
    datasets: [() => datasetFile?.dataset, () => builtIn],
    testData: parts.withTestCards ? testCards() : undefined,
    accounts: { accessOf: (key) => parts.fixedAccess?.(key) ?? accounts.accessOf(key) },
    quota,
    bans,
    limits,
    addressOf,
    free,
    basePath,
    accountUrl: settings.signIn && `${publicHref}/account`,
    publicHref,
    onResponse: (result) => events.binLookedUp({ result, count: 1 }),
    onFailure: (error, requestId) => logger.error({ requestId, err: error }, 'lookup failed'),
    onRefused: (refused) => logger.info(refused, 'lookup refused'),
    pages: { isPage, listener: app },
  });
  const scheduledTasks = startScheduledTasks({ store, random: Math.random, scheduledTasks: sessions.scheduledTasks });
  const storage = watchStorage({ probe: storageProbe(store, settings), events, monotonicClock });
  return {
    listener,
    onRefused: refusalReporter(events),
    health: createHealth({ storage, metrics, headers: [...headers].flat() }),
    async close() {
      await storage.close();
      await scheduledTasks.close();
      await limits.close();
      await outbound.close();
    },
  };
}

/** The requests a minute. Only sign-ins are limited here, because each stores a record: plans limit lookups. */
const RATE_LIMITS = { address: 0, signIns: 60, session: 0, relayToken: 0 };

/** This service has no administration pages on which a reference can be looked up. */
const NO_REFERENCES = { record: async () => undefined };

/**
 * Derives the key from the only secret that all processes share. Without that secret there are no accounts or sessions.
 */
function accountSealer(secret: string): Sealer {
  const key = createSecretKey(Buffer.from(hkdfSync('sha256', secret, '', 'accounts', 32)));
  return createSealer([{ kid: 'accounts', key }]);
}

/** Returns whether a page responds. At `GET /`, programs get a problem document that explains the API instead. */
function isPage(path: string, { headers }: IncomingMessage): boolean {
  if (path === '/') return headers.accept?.includes('text/html') ?? false;
  return path === '/account' || path.startsWith('/account/') || path.startsWith('/assets/');
}
