/** Creates the modules of Gatehouse that write the demo's history, with the clock of that history. */
import { type AdminTokens, createAdminTokens } from '../gatehouse/admin-tokens/admin-tokens.ts';
import { auditedEvents } from '../gatehouse/audit/audited-events.ts';
import type { AuditEntry } from '../gatehouse/audit/kinds.ts';
import { createTallies, type Tallies, talliedEvents } from '../gatehouse/audit/tallies.ts';
import { type AuditTrail, createAuditTrail } from '../gatehouse/audit/trail.ts';
import { type BinQuota, createBinQuota } from '../gatehouse/bin/quota.ts';
import { type BinTally, createBinTally } from '../gatehouse/bin/tally.ts';
import { type AppRegistry, createAppRegistry } from '../gatehouse/connected-apps/app-registry.ts';
import { createCurrentApps } from '../gatehouse/connected-apps/current-apps.ts';
import { createObservations, type Observations } from '../gatehouse/connected-apps/observations.ts';
import { type ConnectLinks, createConnectLinks } from '../gatehouse/grants/connect-links.ts';
import { createConnectionIndex } from '../gatehouse/grants/connection-index.ts';
import { createGrantStore, type GrantStore } from '../gatehouse/grants/grant-store.ts';
import { createRelayTokens, type RelayTokens } from '../gatehouse/relay/relay-token.ts';
import { createServiceAccounts, type ServiceAccounts } from '../gatehouse/relay/service-account.ts';
import { createRelayUses, type RelayUses } from '../gatehouse/relay/uses.ts';
import { createSignInRecords, type SignInRecords } from '../gatehouse/sign-in-record/sign-in-record.ts';
import { createUserStore, type UserStore } from '../gatehouse/users/user-store.ts';
import { createWebhooks, type Webhooks } from '../gatehouse/webhooks/webhooks.ts';
import type { Config } from '../shared/config/config.ts';
import { createEvents, type EventSource } from '../shared/observability/events.ts';
import { createLogger } from '../shared/observability/logger.ts';
import { createMetrics } from '../shared/observability/metrics.ts';
import { createAddressPolicy } from '../shared/outbound/address-policy.ts';
import { createOutbound } from '../shared/outbound/outbound.ts';
import type { SessionRecords } from '../shared/sessions/session-record.ts';
import { createSessionStore } from '../shared/sessions/sessions.ts';
import type { OpenedStorage } from '../shared/storage/storage.ts';
import type { Store } from '../shared/storage/store.ts';

export interface Modules {
  store: Store;
  events: EventSource;
  audit: { trail: AuditTrail; tallies: Tallies; note: (entry: AuditEntry) => void };
  webhooks: Webhooks;
  relayTokens: RelayTokens;
  relayUses: RelayUses;
  binTally: BinTally;
  /** Undefined without a BIN lookup service. */
  binQuota: BinQuota | undefined;
  apps: AppRegistry;
  observations: Observations;
  connectLinks: ConnectLinks;
  serviceAccounts: ServiceAccounts;
  adminTokens: AdminTokens;
  users: UserStore;
  sessions: SessionRecords;
  signIns: SignInRecords['recorder'];
  grants: GrantStore;
  /** Writes the entries that are in queues, and closes the modules. */
  close(): Promise<void>;
}

/** @param parts `receive`: returns the status of a webhook receiver at the current time of `clock` */
export async function openModules(parts: {
  storage: OpenedStorage;
  config: Pick<Config, 'publicUrl' | 'auditDays' | 'session' | 'bin'>;
  clock: () => number;
  random: () => number;
  receive: (url: string) => number;
}): Promise<Modules> {
  const { storage, config, clock, random, receive } = parts;
  const { store, sealedJson } = storage;
  const sealed = { store, sealedJson, clock };
  // The history must not appear in the log or the metrics of the process.
  const logger = createLogger({ level: 'silent', destination: { write: () => undefined } });
  const events = createEvents({ logger, metrics: createMetrics() });
  const trail = createAuditTrail({ store, clock, days: config.auditDays });
  const tallies = createTallies({ store, clock });
  // Not with the queue of a running Gatehouse, which drops entries if the storage is slow.
  const appends: Promise<void>[] = [];
  const note = (entry: AuditEntry) => void appends.push(trail.append(entry));
  const audit = { trail, tallies, note };
  events.listen(auditedEvents(note));
  events.listen(talliedEvents(tallies));
  const outbound = {
    ...createOutbound({ policy: createAddressPolicy([]) }),
    fetch: async (url: string) => new Response(null, { status: receive(url) }),
  };
  const webhooks = createWebhooks({ storage: { store, sealedJson }, outbound, audit, events, clock, random });
  const relayTokens = await createRelayTokens(sealed);
  const registry = await createAppRegistry({ store, sealedJson, apps: createCurrentApps([]), clock });
  const relayUses = createRelayUses({
    store,
    audit,
    clock,
    isApp: () => true,
    count: (outcome) => audit.tallies.count(`relay.${outcome}`),
  });
  const binTally = createBinTally({ store, clock });
  return {
    store,
    events,
    audit,
    webhooks,
    relayTokens,
    relayUses,
    binTally,
    binQuota: config.bin.service && createBinQuota({ ...config.bin.service, store, clock }),
    apps: registry,
    observations: createObservations({ store, clock }),
    connectLinks: createConnectLinks({ ...sealed, publicHref: config.publicUrl.href }),
    serviceAccounts: createServiceAccounts(sealed),
    adminTokens: createAdminTokens(sealed),
    users: createUserStore({ store, clock }),
    sessions: createSessionStore({ ...sealed, lifetimes: config.session }).records,
    signIns: createSignInRecords({ store, events, clock }).recorder,
    grants: createGrantStore({ ...sealed, connectionIndex: createConnectionIndex({ store, clock }) }),
    async close() {
      await relayUses.close();
      await webhooks.close();
      await binTally.close();
      await Promise.all(appends);
      await tallies.close();
      await relayTokens.close();
      await registry.close();
      await outbound.close();
    },
  };
}
