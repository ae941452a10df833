/** Makes every room once, in order, and closes them in reverse. */
import type { RequestListener } from 'node:http';
import { createAdmin } from './admin/admin.ts';
import { createApiDocs } from './api-docs/api-docs.ts';
import { createApp } from './app.ts';
import { createAudit } from './audit/audit.ts';
import { createBins } from './bin/bin.ts';
import type { DatasetFile } from './bin/dataset-file.ts';
import type { Config } from './config/config.ts';
import type { ConnectedApp } from './connected-apps/connected-app.ts';
import { createConnectedApps } from './connected-apps/connected-apps.ts';
import type { ProblemCode } from './errors.ts';
import { createGrants } from './grants/grants.ts';
import { createHome } from './home/home.ts';
import { createRateLimits, limitsOf } from './http/rate-limit.ts';
import { flatDataHeaders, securityHeaders } from './http/security-headers.ts';
import type { Health } from './observability/health.ts';
import type { LogDestination } from './observability/logger.ts';
import { createObservability } from './observability/observability.ts';
import { createAddressPolicy } from './outbound/address-policy.ts';
import { createOutbound } from './outbound/outbound.ts';
import { createPages } from './pages/pages.ts';
import { createProblemReferences } from './pages/problem-references.ts';
import { createRelay } from './relay/relay.ts';
import { createSessions } from './sessions/sessions.ts';
import { createSignIn } from './sign-in/sign-in.ts';
import { createSignInRecords } from './sign-in-record/sign-in-record.ts';
import { startChores } from './storage/chore.ts';
import type { EncryptionKey } from './storage/key-ring.ts';
import { createStorage } from './storage/storage.ts';
import { createThreads } from './threads/threads.ts';
import { createUsers } from './users/users.ts';
import { createWebhooks } from './webhooks/webhooks.ts';

export interface GatehouseParts {
  config: Config;
  encryptionKeys: readonly EncryptionKey[];
  /** The apps of `CONNECTED_APPS_FILE`. */
  fromFile: readonly ConnectedApp[];
  datasetFile: DatasetFile | undefined;
  logDestination: LogDestination;
}

export interface Gatehouse {
  app: RequestListener;
  /** Counts a request that is refused before it reaches the app. */
  countProblem(code: ProblemCode): void;
  health: Health;
  /** Finishes the refreshes that are under way, then closes everything. */
  close(): Promise<void>;
}

/** @throws StartRefused if the storage must not be used as it is, AppError `storage_unavailable`; then nothing stays open */
export async function createGatehouse(parts: GatehouseParts): Promise<Gatehouse> {
  const { config, encryptionKeys, fromFile, datasetFile, logDestination } = parts;
  const { publicUrl } = config;
  const publicHref = publicUrl.href;
  const clock = Date.now;
  const monotonicClock = () => performance.now();
  const random = Math.random;
  // A room is a folder of src. If one cannot be made, those before it are closed.
  await using rooms = new AsyncDisposableStack();
  const room = <T extends { close(): Promise<void> }>(made: T): T => rooms.adopt(made, (one) => one.close());

  const observability = room(await createObservability({ config, logDestination, clock, monotonicClock }));
  const { events, metrics, tracing } = observability;
  const storage = room(await createStorage({ config, encryptionKeys, events, clock, random }));
  const { store } = storage;
  const audit = room(await createAudit({ storage, events, days: config.auditDays, clock }));
  const outbound = room(
    createOutbound({
      policy: createAddressPolicy(config.internalHosts),
      proxy: config.proxy,
      limits: config.upstream,
      onBusy: () => metrics.outboundRefused.inc(),
      beginCall: tracing?.beginCall,
    }),
  );
  metrics.watchOutbound(outbound.load);
  const limits = room(createRateLimits({ store, clock, perMinute: limitsOf(config.rateLimits) }));
  const webhooks = room(createWebhooks({ storage, outbound, audit, events, clock, random }));

  const sessions = createSessions({ storage, config, clock });
  const signInRecords = createSignInRecords({ store, events, clock });
  // Shared by several rooms. The type of a room's `parts` names those that it takes.
  const base = { config, publicUrl, publicHref, storage, store, outbound, audit, events, limits, clock, sessions };
  const connectedApps = room(await createConnectedApps({ ...base, fromFile, monotonicClock, random }));
  const grants = room(createGrants({ ...base, connectedApps, random }));
  const threads = room(await createThreads({ storage, grants, publicHref, clock }));
  const { charge } = threads;
  const users = createUsers({ storage, grants, config, sessions, signInRecords, charge, clock });
  const { service } = config.bin;
  const bins = room(await createBins({ store, outbound, service, file: datasetFile, events, clock }));
  // The same, and the rooms made so far, for the rooms that serve requests.
  const rules = { ...base, connectedApps, grants, users, threads, bins, signInRecords, webhooks };

  const pages = createPages({ storage, config });
  const references = createProblemReferences({ store, isKnown: signInRecords.isKnown, clock });
  const relay = room(await createRelay(rules));
  const signIn = createSignIn({ ...rules, pages });
  const faces = { ...rules, pages, references, relay, signIn };
  const admin = createAdmin(faces);
  const home = createHome(faces);
  const apiDocs = createApiDocs(faces);
  const app = createApp({ ...faces, observability, admin, home, apiDocs });

  const chores = [audit, grants, users, signInRecords, sessions, webhooks].flatMap((one) => one.chores);
  room(startChores({ store, random, chores }));
  const opened = rooms.move();
  return {
    app: observability.traced(app),
    countProblem: (code) => metrics.problems.inc({ code }),
    health: observability.healthOf({
      ready: () => store.ready(),
      headers: flatDataHeaders(securityHeaders(publicUrl.secure)),
    }),
    close: () => opened.disposeAsync(),
  };
}
