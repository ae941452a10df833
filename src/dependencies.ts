/** Owns the assembly: the only place where things are made and joined. */
import { randomBytes } from 'node:crypto';
import type { RequestListener } from 'node:http';
import { join } from 'node:path';
import type { DestinationStream } from 'pino';
import { createAdminGuards } from './admin/guards.ts';
import { createAdministration } from './administration.ts';
import { apiDocs } from './api-docs/routes.ts';
import { createApp } from './app.ts';
import { auditedEvents } from './audit/audited-events.ts';
import { createAuditNotes } from './audit/notes.ts';
import { talliedEvents } from './audit/tallied-events.ts';
import { createTallies } from './audit/tallies.ts';
import { createAuditTrail } from './audit/trail.ts';
import { containsCardNumber, scrubCardNumbers } from './bin/bin.ts';
import type { DatasetFile } from './bin/dataset-file.ts';
import { createBinEnrichment } from './bin/enrichment.ts';
import { binRoutes } from './bin/routes.ts';
import type { Config } from './config.ts';
import type { TracingSettings } from './config-groups.ts';
import { createAppRegistry } from './connected-apps/app-registry.ts';
import { createAppStore } from './connected-apps/app-store.ts';
import type { ConnectedApp } from './connected-apps/connected-app.ts';
import { createIdTokens } from './connected-apps/id-token.ts';
import { createLogoutTokens } from './connected-apps/logout-token.ts';
import { createObservations } from './connected-apps/observations.ts';
import { createOwnKeys } from './connected-apps/own-keys.ts';
import { createProviderClient } from './connected-apps/provider-client.ts';
import { createProviderMetadata } from './connected-apps/provider-metadata.ts';
import { createSigningKeys } from './connected-apps/signing-keys.ts';
import type { ProblemCode } from './errors.ts';
import { createAuthorizedFetch } from './grants/authorized-fetch.ts';
import { createConnectionIndex } from './grants/connection-index.ts';
import { createConnections } from './grants/connections.ts';
import { createDisconnectEveryone } from './grants/disconnect-everyone.ts';
import { createGrantStore } from './grants/grant-store.ts';
import { createNarrowedTokens } from './grants/narrowed-token.ts';
import { createRefresher, REFRESH_LEASE_MILLISECONDS } from './grants/refresh.ts';
import { createRefreshOutcomes } from './grants/refresh-outcome.ts';
import { createRevocations, persistentRevoke } from './grants/revocations.ts';
import { connectionRoutes } from './grants/routes.ts';
import { createTokenVault } from './grants/token-vault.ts';
import { homeRoutes } from './home/routes.ts';
import { clientAddress } from './http/client-address.ts';
import { createPages } from './http/pages.ts';
import { createRateLimits } from './http/rate-limit.ts';
import { createSessions } from './http/session.ts';
import { createSessionIndex } from './http/session-index.ts';
import { createSessionLists } from './http/session-lists.ts';
import { createSessionRecords } from './http/session-record.ts';
import { trustedProxies } from './http/trusted-proxies.ts';
import { createUserSessions } from './http/user-sessions.ts';
import { createViewerGuards } from './http/viewer.ts';
import { createViews } from './http/views.ts';
import { createEvents } from './observability/events.ts';
import { createHealth, type Health } from './observability/health.ts';
import { createLogger } from './observability/logger.ts';
import { createMetrics, type Metrics } from './observability/metrics.ts';
import type { Tracing } from './observability/tracing.ts';
import { type OpenedStorage, openStorage } from './open-storage.ts';
import { createAddressPolicy } from './outbound/address-policy.ts';
import { createOutbound } from './outbound/outbound.ts';
import { tracedOutbound, withoutContext } from './outbound/traced-outbound.ts';
import { announcedEvents } from './relay/announced-events.ts';
import { assertionRoutes } from './relay/assertion-routes.ts';
import { createRelay } from './relay/relay.ts';
import { relayRoutes } from './relay/routes.ts';
import { tokenExchangeRoute } from './relay/token-routes.ts';
import { createWebhooks } from './relay/webhook.ts';
import { createWebhookMessages } from './relay/webhook-messages.ts';
import { startWebhookSender } from './relay/webhook-sender.ts';
import { backchannelLogout } from './sign-in/backchannel-logout.ts';
import { erasureRoutes } from './sign-in/erasure.ts';
import { createSignInFlow } from './sign-in/flow.ts';
import { userIdOf } from './sign-in/identity.ts';
import { createSignInRecords } from './sign-in/record.ts';
import { createRecorder } from './sign-in/recorder.ts';
import { signInRoutes } from './sign-in/routes.ts';
import { sessionRoutes } from './sign-in/sessions.ts';
import { createStateSigner } from './sign-in/state.ts';
import { createTransactions } from './sign-in/transaction.ts';
import { startChores } from './storage/chore.ts';
import { refoundIfEmpty } from './storage/key-check.ts';
import type { EncryptionKey } from './storage/key-ring.ts';
import { answerKeyRollCall } from './storage/key-roll-call.ts';
import { createLeases } from './storage/lease.ts';
import { threadRoutes } from './threads/routes.ts';
import { THREAD_LIMITS } from './threads/thread-call.ts';
import { createPeople } from './users/people.ts';
import { createUserStore } from './users/user-store.ts';

/** By address: enough for a service that was set up wrongly to notice, too few to look for relay or admin tokens. */
const TOKEN_GUESSES_PER_MINUTE = 100;

export interface DependencyParts {
  config: Config;
  encryptionKeys: readonly EncryptionKey[];
  connectedApps: readonly ConnectedApp[];
  datasetFile: DatasetFile | undefined;
  logDestination: DestinationStream;
}

export interface Dependencies {
  app: RequestListener;
  /** For what is refused before a request reaches the app. */
  countProblem(code: ProblemCode): void;
  health: Health;
  /** Finishes the refreshes that are under way, then closes everything. */
  close(): Promise<void>;
}

/** @throws StartRefused where the storage must not be used as it is, AppError `storage_unavailable`; then nothing is left open */
export async function createDependencies(parts: DependencyParts): Promise<Dependencies> {
  const { config, encryptionKeys } = parts;
  const storage = await openStorage({ config, encryptionKeys, clock: Date.now, random: Math.random });
  try {
    return await assemble(parts, storage);
  } catch (error) {
    await storage.store.close();
    throw error;
  }
}

async function assemble(parts: DependencyParts, { store, sealer, wasEmpty }: OpenedStorage): Promise<Dependencies> {
  const { config, connectedApps } = parts;
  const { publicUrl } = config;
  const clock = Date.now;
  const random = Math.random;

  const metrics = createMetrics();
  const logger = createLogger({ level: config.logLevel, scrub: scrubCardNumbers, destination: parts.logDestination });
  const house = createEvents({ logger, metrics });
  await answerKeyRollCall(store, sealer);

  const audit = createAuditTrail({
    store,
    clock,
    days: config.auditDays,
    scrub: scrubCardNumbers,
    tell: (record) => house.audited({ audit: record }),
  });
  const noteEmpty = () => audit.append({ event: 'storage.found_empty', actor: { kind: 'system' } });
  if (wasEmpty) await noteEmpty();
  const lost = (entries: number) => house.auditLost({ entries });
  const notes = createAuditNotes({ trail: audit, clock, lost });
  const tallies = createTallies({ store, clock });

  const isClean = (text: string) => !containsCardNumber(text);
  const tracing = config.tracing && (await openTracing(config.tracing, { metrics, isClean }));
  const calls = createOutbound({
    policy: createAddressPolicy(config.internalHosts),
    proxy: config.proxy,
    limits: config.upstream,
    onBusy: () => metrics.outboundRefused.inc(),
  });
  metrics.watchOutbound(calls.load);
  const outbound = tracing ? tracedOutbound(calls, tracing.beginCall) : calls;
  // To a BIN lookup service nothing goes that could be taken for more digits than a BIN has, ids of traces included (R86).
  const binCalls = tracing ? tracedOutbound(calls, withoutContext(tracing.beginCall)) : calls;
  const webhooks = createWebhooks({ store, sealer, clock });
  const messages = createWebhookMessages({ ...{ store, webhooks, outbound, clock, random }, audit: notes });
  const events = announcedEvents(talliedEvents(auditedEvents(house, notes.note), tallies), messages.announce);
  const apps = createAppStore(connectedApps);
  const registry = await createAppRegistry({ store, sealer, apps, clock });
  const metadata = createProviderMetadata({ outbound, clock, random });
  const signingKeys = createSigningKeys({ outbound, clock });
  const ownKeys = createOwnKeys({ store, sealer, clock, onReplaced: (cause) => house.ownKeysReplaced({ cause }) });
  const observations = createObservations({ store, clock });
  const provider = observations.watch(createProviderClient({ outbound, metadata, signingKeys, ownKeys }));

  const connectionIndex = createConnectionIndex({ store, clock });
  const grants = connectionIndex.listed(createGrantStore({ store, sealer, clock }));
  const findApp = apps.find;
  const revocations = createRevocations({ store, sealer, grants, provider, findApp, events, clock, random });
  const leases = createLeases({ store, milliseconds: REFRESH_LEASE_MILLISECONDS });
  const refresher = createRefresher({
    grants,
    provider: persistentRevoke(provider, revocations),
    leases,
    events,
    clock,
    random,
  });
  const vault = createTokenVault({ grants, refresher, clock });
  const connections = createConnections({ grants, revocations, events, clock });
  const authorizedFetch = createAuthorizedFetch({ vault, grants, outbound });
  const users = createUserStore({ store, clock });
  const addressOf = clientAddress(trustedProxies(config.trustedProxies));
  const { relayToken, ...rateLimits } = config.rateLimits;
  const limits = createRateLimits({
    ...{ store, clock },
    perMinute: { ...rateLimits, 'relay-token': relayToken, guess: TOKEN_GUESSES_PER_MINUTE },
  });
  const outcomes = createRefreshOutcomes({
    ...{ grants, events, clock, random },
    provider: persistentRevoke(provider, revocations),
  });
  const narrowed = createNarrowedTokens({ grants, provider, refresher, outcomes, leases, events, clock });
  const mayBeServed = async (userId: string) => !(await users.isDisabled(userId));
  const relay = await createRelay({
    ...{ store, sealer, outbound, apps, ownKeys, authorizedFetch, vault, narrowed, grants, limits, addressOf, clock },
    audit: notes,
    idTokens: createIdTokens({ metadata, signingKeys, clock }),
    userIdOf,
    mayBeServed,
    countCall: (outcome) => tallies.count(`relay.${outcome}`),
    threadLimits: THREAD_LIMITS,
    publicHref: publicUrl.href,
  });
  const threads = relay.threads.browser;

  const bins = await createBinEnrichment({
    ...{ store, clock, fetch: binCalls.fetch, service: config.bin.service, file: parts.datasetFile },
    events: {
      answered: (source, count) => events.binLookedUp({ source, count }),
      serviceFailed: (reason) => events.binServiceFailed({ reason }),
      cacheFailed: (error) => events.binCacheFailed({ cause: error }),
      datasetLoaded: events.binDatasetLoaded,
      datasetFailed: (error) => events.binDatasetFailed({ cause: error }),
    },
  });

  const lists = createSessionLists({ store, maxSeconds: config.session.maxSeconds, clock });
  const records = createSessionRecords({ store, lists, lifetimes: config.session, clock });
  const sessionIndex = createSessionIndex({ store, records, clock });
  const sessions = createSessions({ records, secrets: config.sessionSecrets, publicUrl });
  const userSessions = createUserSessions({ records, index: sessionIndex, lists });
  const views = join(import.meta.dirname, '..', 'views');
  const pages = createPages({ views: createViews({ directory: views }), config });
  // Of the file alone: no app that is registered later makes administrators.
  const [onlySignInApp, ...otherSignInApps] = connectedApps.filter(({ signIn }) => signIn !== undefined);
  const adminApp = config.admin.app ?? (otherSignInApps.length === 0 ? onlySignInApp?.id : undefined);
  const stepUpHref = `${publicUrl.href}/sign-in?app=${adminApp}&step_up=1`;
  const signInRecords = createSignInRecords({ store, clock });
  const flow = createSignInFlow({
    users,
    recorder: createRecorder({ records: signInRecords, events, clock }),
    apps,
    provider,
    connections,
    transactions: createTransactions({ store, clock }),
    states: createStateSigner({ secrets: config.sessionSecrets, randomBytes }),
    admin: { ...config.admin, app: adminApp },
    events,
    clock,
    publicHref: publicUrl.href,
  });
  const site = { isClean, origin: publicUrl.origin, href: publicUrl.href, home: `${publicUrl.basePath}/` };
  const publicHref = publicUrl.href;
  const { basePath } = publicUrl;
  const guards = createViewerGuards({ sessions, publicHref, basePath });
  const people = createPeople({ store, users, apps, connections, sessions: userSessions, signIns: signInRecords });
  const everyone = createDisconnectEveryone({ store, index: connectionIndex, connections, findApp: apps.find, clock });
  const administration = createAdministration({
    ...{ store, sealer, outbound, pages, trail: audit, tallies, apps, registry, metadata, provider, observations },
    ...{ ownKeys, connections, connectionIndex, everyone, revocations, users, people, sessionIndex },
    ...{ userSessions, signInRecords, bins, relay, webhooks, messages, mayBeServed, clock, publicHref, basePath },
  });

  const app = createApp({
    config,
    routes: {
      apiDocs: apiDocs({ pages, publicHref }),
      admin: administration.nouns,
      bin: binRoutes({ lookup: bins.lookup, pages, events, publicHref }),
      connections: connectionRoutes({ apps, connections, servicesOf: relay.uses.servicesOf, pages, publicHref }),
      erasure: erasureRoutes({ people, apps, trail: audit, cookie: sessions.cookie, pages }),
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
      threads: threadRoutes({ apps, threads, sessions, grants }),
      assertions: assertionRoutes({ ownKeys, assertions: relay.assertions }),
      relay: relayRoutes({ gate: relay.gate, apps, accounts: relay.accounts, grants, threads: relay.threads }),
      tokenExchange: tokenExchangeRoute({ gate: relay.gate, exchange: relay.exchange, audit: notes }),
    },
    guards,
    adminGuards: createAdminGuards({
      viewers: guards,
      tokens: administration.tokens,
      ...{ limits, addressOf },
      note: notes.note,
      origin: publicUrl.origin,
      stepUp:
        config.admin.acr === undefined
          ? undefined
          : { acr: config.admin.acr, href: stepUpHref, home: `${basePath}/admin` },
    }),
    sessions,
    limits,
    addressOf,
    metrics,
    problems: { pages, events, publicHref, basePath: publicUrl.basePath, clock },
    isClean,
    assetsDirectory: join(views, 'assets'),
  });

  const sender = startWebhookSender({ store, messages, clock });
  const chores = startChores({
    store,
    random,
    chores: [
      // A Redis that may forget comes back empty while we run: people sign in again, and the trail says why (F5).
      {
        name: 'watch-storage',
        everyMilliseconds: 15_000,
        work: async () => (await refoundIfEmpty(store, sealer)) && (await noteEmpty()),
      },
      { name: 'trim-audit', everyMilliseconds: 3_600_000, work: audit.trim },
      { name: 'trim-sign-ins', everyMilliseconds: 600_000, work: signInRecords.trim },
      { name: 'disconnect-everyone', everyMilliseconds: 30_000, work: everyone.resume },
      { name: 'retry-revocations', everyMilliseconds: 10_000, work: revocations.retryDue },
      { name: 'sweep-sessions', everyMilliseconds: 600_000, work: sessionIndex.sweep },
      { name: 'settle-connections', everyMilliseconds: 60_000, work: () => connectionIndex.settle(grants) },
    ],
  });

  // Nobody waits for it: whoever needs such a grant settles it then.
  void refresher.settleAbandoned(apps.find).catch(() => undefined);

  return {
    app: tracing ? tracing.around(app) : app,
    countProblem: (code) => metrics.problems.inc({ code }),
    health: createHealth({ ready: () => store.ready(), registry: metrics.registry }),
    async close() {
      await Promise.all([refresher.settle(), narrowed.settle(), chores.stop(), everyone.settle()]);
      limits.close();
      await Promise.all([messages.settle(), sender.stop()]);
      await relay.close();
      await Promise.all([notes.settle(), tallies.close(), bins.close(), registry.close()]);
      await outbound.close();
      await Promise.all([tracing?.close(), store.close()]);
    },
  };
}

/** Loaded here and not above, so that whoever sends no traces does not even read the libraries. */
async function openTracing(
  settings: TracingSettings,
  { metrics, isClean }: { metrics: Metrics; isClean: (text: string) => boolean },
): Promise<Tracing> {
  const { createTracing } = await import('./observability/tracing.ts');
  return createTracing({
    settings,
    isClean,
    factsOf: ({ context }) => context,
    onExported: (outcome, spans) => metrics.spans.inc({ outcome }, spans),
  });
}
