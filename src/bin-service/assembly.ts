/** Owns the assembly of the BIN lookup service: the only place where its parts are made and joined. */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage, RequestListener } from 'node:http';
import { join } from 'node:path';
import type { DestinationStream } from 'pino';
import { containsCardNumber, scrubCardNumbers } from '../bin/bin.ts';
import type { DatasetFile } from '../bin/dataset-file.ts';
import { createProviderClient } from '../connected-apps/provider-client.ts';
import { createProviderMetadata } from '../connected-apps/provider-metadata.ts';
import { createSigningKeys } from '../connected-apps/signing-keys.ts';
import { createPages, type Pages } from '../http/pages.ts';
import { requestContext } from '../http/request-context.ts';
import { securityHeaders } from '../http/security-headers.ts';
import { createSessionIndex } from '../http/session-index.ts';
import { createSessionLists } from '../http/session-lists.ts';
import { createSessionRecords } from '../http/session-record.ts';
import { trustedProxies } from '../http/trusted-proxies.ts';
import { createViews } from '../http/views.ts';
import { createEvents } from '../observability/events.ts';
import { createHealth, type Health } from '../observability/health.ts';
import { createLogger } from '../observability/logger.ts';
import { createMetrics } from '../observability/metrics.ts';
import { createAddressPolicy } from '../outbound/address-policy.ts';
import { createOutbound } from '../outbound/outbound.ts';
import { startChores } from '../storage/chore.ts';
import type { Store } from '../storage/store.ts';
import { createAccountApp } from './account-app.ts';
import { accountRoutes } from './account-routes.ts';
import { createAccounts } from './accounts.ts';
import { createBans } from './bans.ts';
import { createBrowsers } from './browser.ts';
import { callerAddresses } from './caller-address.ts';
import { createQuota } from './quota.ts';
import { createBinService } from './service.ts';
import type { BinServiceSettings } from './settings.ts';
import { createSignIn } from './sign-in.ts';

export interface BinServiceAssembly {
  listener: RequestListener;
  health: Health;
  /** Gives back what is reserved, and closes everything but the store. */
  close(): Promise<void>;
}

export function assembleBinService(parts: {
  settings: BinServiceSettings;
  store: Store;
  /** Default: the built-in one. */
  datasetFile?: DatasetFile | undefined;
  logDestination: DestinationStream;
}): BinServiceAssembly {
  const { settings, store, datasetFile } = parts;
  const { publicUrl, freeMonthlyRequests, plans } = settings;
  const clock = Date.now;
  const randomToken = () => randomBytes(32).toString('base64url');
  const isClean = (text: string) => !containsCardNumber(text);

  const metrics = createMetrics();
  const logger = createLogger({ level: settings.logLevel, scrub: scrubCardNumbers, destination: parts.logDestination });
  const events = createEvents({ logger, metrics });
  if (datasetFile) {
    const { dataset, report } = datasetFile;
    events.binDatasetLoaded({ source: dataset.source, rows: dataset.size, badRows: report.skipped });
  }

  const outbound = createOutbound({ policy: createAddressPolicy(settings.internalHosts), proxy: settings.proxy });
  const metadata = createProviderMetadata({ outbound, clock, random: Math.random });
  const signingKeys = createSigningKeys({ outbound, clock });
  const provider = createProviderClient({ outbound, metadata, signingKeys, ownKeys: NO_KEYS });

  const accounts = createAccounts({ store, clock, randomBytes });
  const quota = createQuota({ counters: store, clock });
  const bans = createBans({ counters: store, ...settings.bans, clock });
  const callerOf = callerAddresses(settings.trustedProxies);

  const tryAgain = `${publicUrl.href}/account/sign-in`;
  const redirectUri = `${publicUrl.href}/account/callback`;
  const lists = createSessionLists({ store, maxSeconds: settings.session.maxSeconds, clock });
  const records = createSessionRecords({ store, lists, lifetimes: settings.session, clock });
  const browsers = createBrowsers({ records, secure: publicUrl.secure, randomToken, signInUrl: tryAgain });
  const signIn =
    settings.signIn &&
    createSignIn({ settings: settings.signIn, provider, accounts, store, clock, randomToken, redirectUri, tryAgain });

  const views = join(import.meta.dirname, '..', '..', 'views');
  const pages = withOwnFrame(createPages({ views: createViews({ directory: views }), config: settings }));
  const isTrusted = trustedProxies(settings.trustedProxies);
  const headers = securityHeaders(publicUrl.secure);
  const { basePath, href: publicHref } = publicUrl;
  const app = createAccountApp({
    publicUrl,
    begin: requestContext({ metrics, isTrusted, isClean, headers }),
    routes: accountRoutes({
      ...{ accounts, browsers, signIn, quota, callerOf, plans, freeMonthlyRequests, pages, publicUrl },
      ...{ randomToken, clock },
    }),
    browsers,
    problems: { pages, events, publicHref, basePath, clock },
    isTrusted,
    isClean,
    assetsDirectory: join(views, 'assets'),
  });

  const listener = createBinService({
    ...{ dataset: datasetFile?.dataset, accounts, quota, bans, callerOf, freeMonthlyRequests, basePath },
    onAnswer: (source) => events.binLookedUp({ source, count: 1 }),
    onFailure: (error) => logger.error({ err: error }, 'look-up failed'),
    pages: { isPage, listener: app },
  });
  const { sweep } = createSessionIndex({ store, records, clock });
  const chores = startChores({
    store,
    random: Math.random,
    chores: [{ name: 'sweep-sessions', everyMilliseconds: 600_000, work: sweep }],
  });
  return {
    listener,
    health: createHealth({ ready: () => store.ready(), registry: metrics.registry }),
    async close() {
      await chores.stop();
      await quota.close();
      await outbound.close();
    },
  };
}

/** Its one registration authenticates by its secret. */
const NO_KEYS = { sign: () => Promise.reject(new Error('This service signs nothing.')) };

/** A program that asks for the root gets the problem document that says what to ask for. */
function isPage(path: string, { headers }: IncomingMessage): boolean {
  if (path === '/') return headers.accept?.includes('text/html') ?? false;
  return path === '/account' || path.startsWith('/account/') || path.startsWith('/assets/');
}

/** Pages that are drawn in Gatehouse's frame, such as errors, would lead signed-in people to places that are not here. */
function withOwnFrame(pages: Pages): Pages {
  return {
    ...pages,
    frame(req, title) {
      const { user: _user, csrfToken: _token, ...frame } = pages.frame(req, title);
      return frame;
    },
  };
}
