/** Creates every module once, in order, and closes them in reverse order. */
import type { RequestListener } from 'node:http';
import type { DatasetFile } from '../shared/bin/dataset-file.ts';
import { createJsonBytes } from '../shared/http/json-bytes.ts';
import { refusalReporter } from '../shared/http/problem.ts';
import { createRateLimits, limitsOf } from '../shared/http/rate-limit.ts';
import type { OnRefused } from '../shared/http/refusal.ts';
import { securityHeaders } from '../shared/http/security-headers.ts';
import type { Health } from '../shared/observability/health.ts';
import type { LogDestination } from '../shared/observability/logger.ts';
import { createObservability } from '../shared/observability/observability.ts';
import { createAddressPolicy } from '../shared/outbound/address-policy.ts';
import { createOutbound } from '../shared/outbound/outbound.ts';
import { createPages } from '../shared/pages/pages.ts';
import { createProblemReferences } from '../shared/pages/problem-references.ts';
import { GATEHOUSE_VIEWS } from '../shared/pages/views.ts';
import type { ConnectedApp } from '../shared/provider/connected-app.ts';
import { createSessions } from '../shared/sessions/sessions.ts';
import { startScheduledTasks } from '../shared/storage/scheduled-task.ts';
import { createStorage } from '../shared/storage/storage.ts';
import { createAdmin } from './admin/admin.ts';
import { createAdminTokens } from './admin-tokens/admin-tokens.ts';
import { createApiDocs } from './api-docs/api-docs.ts';
import { createApp } from './app.ts';
import { createAudit } from './audit/audit.ts';
import { createBins } from './bin/bin.ts';
import { createConnectedApps } from './connected-apps/connected-apps.ts';
import { createGrants } from './grants/grants.ts';
import { createHome } from './home/home.ts';
import { createKeyRotation } from './key-rotation/key-rotation.ts';
import { createPlatform } from './platform/platform.ts';
import type { ReadSettings } from './read-settings.ts';
import { createRelay } from './relay/relay.ts';
import { createReload, type Reload } from './reload.ts';
import { createSignIn } from './sign-in/sign-in.ts';
import { createSignInRecords } from './sign-in-record/sign-in-record.ts';
import { createUsers } from './users/users.ts';
import { createWebhooks } from './webhooks/webhooks.ts';

export interface GatehouseParts extends ReadSettings {
  datasetFile: DatasetFile | undefined;
  logDestination: LogDestination;
  /** The tour of the demo, which the overview of the administration links to. */
  tourUrl?: string | undefined;
}

export interface Gatehouse {
  app: RequestListener;
  onRefused: OnRefused;
  health: Health;
  /** The connected apps as they are now. */
  apps(): readonly ConnectedApp[];
  reload: Reload;
  /** Finishes the refreshes that are under way, then closes everything. */
  close(): Promise<void>;
}

/**
 * Leaves nothing open if it throws. @throws StartRefused if the storage must not be used, AppError
 * `storage_unavailable`
 */
export async function createGatehouse(parts: GatehouseParts): Promise<Gatehouse> {
  const { config, encryptionKeys, fromFile, datasetFile, logDestination } = parts;
  const { publicUrl } = config;
  const publicHref = publicUrl.href;
  const clock = () => Date.now();
  const monotonicClock = () => performance.now();
  const random = Math.random;
  // If a module cannot be created, those before it are closed.
  await using modules = new AsyncDisposableStack();
  const adopt = <T extends { close(): Promise<void> }>(module: T): T =>
    modules.adopt(module, (adopted) => adopted.close());

  const observability = adopt(await createObservability({ config, logDestination, clock, monotonicClock }));
  const { events, metrics, tracing } = observability;
  for (const warning of parts.warnings) events.settingWarned(warning);
  const storage = adopt(
    await createStorage({
      config,
      encryptionKeys,
      events,
      clock,
      random,
      timesOf: metrics.storageCommand,
      onLogBytes: metrics.storageLogBytes,
    }),
  );
  const { store } = storage;
  const storageWatch = adopt(observability.watchStorage(storage.probe));
  const audit = adopt(await createAudit({ storage, events, days: config.auditDays, clock }));
  const outbound = adopt(
    createOutbound({
      policy: createAddressPolicy(config.internalHosts),
      proxy: config.proxy,
      limits: config.outbound,
      onBusy: () => metrics.outboundRefused.inc(),
      onEnded: metrics.outboundEnded,
      beginCall: tracing?.beginCall,
      onSlowName: events.nameSlow,
      threadPoolSize: parts.threadPoolSize,
    }),
  );
  metrics.watchOutbound(outbound.load);
  const limits = adopt(createRateLimits({ store, clock, perMinute: limitsOf(config.rateLimits) }));
  const webhooks = adopt(createWebhooks({ storage, outbound, audit, events, clock, random }));

  const sessions = createSessions({ storage, config, clock });
  const signInRecords = createSignInRecords({ store, events, clock });
  const connectedApps = adopt(
    await createConnectedApps({
      storage,
      outbound,
      fromFile,
      config,
      events,
      publicHref,
      clock,
      monotonicClock,
      random,
    }),
  );
  metrics.watchApps(connectedApps.apps);
  const grants = adopt(createGrants({ storage, connectedApps, outbound, config, events, publicHref, clock, random }));
  metrics.watchStored({
    read: async () => ({
      connections: await grants.index.countByHealth(),
      lastBackupAt: (await audit.trail.page({ limit: 1, filter: { event: 'storage.backed_up' } })).items[0]?.at,
    }),
    secretEnds: connectedApps.registry.secretEnds,
    clock,
  });
  const platform = adopt(await createPlatform({ storage, grants, publicHref, clock }));
  const { chargeCheck } = platform;
  const users = createUsers({ storage, grants, sessions, signInRecords, chargeCheck, events, clock });
  const { service } = config.bin;
  const bins = adopt(await createBins({ store, outbound, service, file: datasetFile, events, clock }));
  const pages = createPages({ storage, config, views: GATEHOUSE_VIEWS, clock });
  const isKnown = async (reference: string) => (await signInRecords.store.find(reference)) !== undefined;
  const references = createProblemReferences({ store, isKnown, clock });
  // For the modules that speak HTTP. The type of a module's `parts` says which of these it uses.
  const web = {
    config,
    publicUrl,
    publicHref,
    clock,
    storage,
    outbound,
    audit,
    events,
    limits,
    sessions,
    pages,
    references,
    connectedApps,
    grants,
    users,
    platform,
    bodies: createJsonBytes(),
    bins,
    signInRecords,
  };
  const relay = adopt(await createRelay(web));
  const signIn = createSignIn(web);
  const adminTokens = createAdminTokens({ store, sealedJson: storage.sealedJson, clock });
  const keyRotation = adopt(createKeyRotation({ storage, audit, events, clock }));
  const admin = createAdmin({ ...web, relay, signIn, webhooks, adminTokens, keyRotation, tourUrl: parts.tourUrl });
  const home = createHome({ connectedApps, grants, platform, pages, events, references, publicHref });
  const apiDocs = createApiDocs({ pages, publicHref });
  const app = createApp({ ...web, relay, signIn, observability, admin, home, apiDocs });

  const scheduledTasks = [audit, connectedApps, grants, users, signInRecords, sessions, webhooks, keyRotation].flatMap(
    (module) => module.scheduledTasks,
  );
  adopt(startScheduledTasks({ store, random, scheduledTasks }));
  const reload = createReload({
    initial: parts,
    storage,
    audit,
    events,
    use({ config: next, fromFile: apps }) {
      sessions.browser.useSecrets(next.sessionSecrets);
      signIn.useSecrets(next.sessionSecrets);
      signIn.useAdminApp(next.admin.app);
      bins.useApiKey(next.bin.service?.apiKey);
      tracing?.useHeaders(next.tracing?.headers ?? {});
      connectedApps.registry.useFile(apps);
      connectedApps.readMetadataAgain();
    },
  });
  const opened = modules.move();
  return {
    app: observability.observed(app),
    onRefused: refusalReporter(events),
    health: observability.healthOf({
      storage: storageWatch,
      headers: [...securityHeaders(publicUrl.href)].flat(),
    }),
    apps: connectedApps.apps.list,
    reload,
    close: () => opened.disposeAsync(),
  };
}
