/** The rooms of Gatehouse that write the demo's history, on the clock of that history. */
import { createAdminTokens } from '../gatehouse/admin/admin-tokens/admin-token.ts';
import { auditedEvents } from '../gatehouse/audit/audited-events.ts';
import type { AuditEntry } from '../gatehouse/audit/kinds.ts';
import { createTallies, talliedEvents } from '../gatehouse/audit/tallies.ts';
import { createAuditTrail } from '../gatehouse/audit/trail.ts';
import { createBinQuota } from '../gatehouse/bin/quota.ts';
import { createBinTally } from '../gatehouse/bin/tally.ts';
import { createAppRegistry } from '../gatehouse/connected-apps/app-registry.ts';
import { createCurrentApps } from '../gatehouse/connected-apps/current-apps.ts';
import { createObservations } from '../gatehouse/connected-apps/observations.ts';
import { createConnectLinks } from '../gatehouse/grants/connect-links.ts';
import { createConnectionIndex } from '../gatehouse/grants/connection-index.ts';
import { createGrantStore } from '../gatehouse/grants/grant-store.ts';
import { createRelayTokens } from '../gatehouse/relay/relay-token.ts';
import { createServiceAccounts } from '../gatehouse/relay/service-account.ts';
import { createRelayUses } from '../gatehouse/relay/uses.ts';
import { createSignInRecords } from '../gatehouse/sign-in-record/sign-in-record.ts';
import { createUserStore } from '../gatehouse/users/user-store.ts';
import { createWebhooks } from '../gatehouse/webhooks/webhooks.ts';
import type { Config } from '../shared/config/config.ts';
import { createEvents } from '../shared/observability/events.ts';
import { createLogger } from '../shared/observability/logger.ts';
import { createMetrics } from '../shared/observability/metrics.ts';
import { createAddressPolicy } from '../shared/outbound/address-policy.ts';
import { createOutbound } from '../shared/outbound/outbound.ts';
import { createSessionStore } from '../shared/sessions/sessions.ts';
import { createSealedJson } from '../shared/storage/sealed-json.ts';
import type { OpenedStorage } from '../shared/storage/storage.ts';

export type Rooms = Awaited<ReturnType<typeof openRooms>>;

/** @param parts `receive`: the status with which a receiver of webhook messages responds at the time of the clock */
export async function openRooms(parts: {
  storage: OpenedStorage;
  config: Pick<Config, 'publicUrl' | 'auditDays' | 'session' | 'bin'>;
  clock: () => number;
  random: () => number;
  receive: (url: string) => number;
}) {
  const { storage, config, clock, random, receive } = parts;
  const { store, sealer } = storage;
  const sealedJson = createSealedJson(sealer);
  const sealed = { store, sealedJson, clock };
  // Neither the log nor the metrics of the process tell of the past.
  const logger = createLogger({ level: 'silent', destination: { write: () => undefined } });
  const events = createEvents({ logger, metrics: createMetrics() });
  const trail = createAuditTrail({ store, clock, days: config.auditDays });
  const tallies = createTallies({ store, clock });
  // Without the queue of a running Gatehouse, which gives up where the storage is slow.
  const noted: Promise<void>[] = [];
  const note = (entry: AuditEntry) => void noted.push(trail.append(entry));
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
    signIns: createSignInRecords({ store, events, clock }),
    grants: createGrantStore({ store, sealer, clock, connectionIndex: createConnectionIndex({ store, clock }) }),
    /** Writes what is queued. */
    async close(): Promise<void> {
      await relayUses.close();
      await webhooks.close();
      await binTally.close();
      await Promise.all(noted);
      await tallies.close();
      await relayTokens.close();
      await registry.close();
      await outbound.close();
    },
  };
}
