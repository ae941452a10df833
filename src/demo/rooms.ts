/** The rooms of Gatehouse that write the demo's history, on the clock of that history. */
import { createAdminTokens } from '../admin/admin-tokens/admin-token.ts';
import { auditedEvents } from '../audit/audited-events.ts';
import type { AuditEntry } from '../audit/kinds.ts';
import { talliedEvents } from '../audit/tallied-events.ts';
import { createTallies } from '../audit/tallies.ts';
import { createAuditTrail } from '../audit/trail.ts';
import { createBinQuota } from '../bin/quota.ts';
import { createBinTally } from '../bin/tally.ts';
import type { Config } from '../config/config.ts';
import { createAppRegistry } from '../connected-apps/app-registry.ts';
import { createCurrentApps } from '../connected-apps/current-apps.ts';
import { createObservations } from '../connected-apps/observations.ts';
import { createConnectLinks } from '../grants/connect-links.ts';
import { createConnectionIndex } from '../grants/connection-index.ts';
import { createGrantStore } from '../grants/grant-store.ts';
import { createEvents } from '../observability/events.ts';
import { createLogger } from '../observability/logger.ts';
import { createMetrics } from '../observability/metrics.ts';
import { createAddressPolicy } from '../outbound/address-policy.ts';
import { createOutbound } from '../outbound/outbound.ts';
import { createRelayTokens } from '../relay/relay-token.ts';
import { createServiceAccounts } from '../relay/service-account.ts';
import { createRelayUses } from '../relay/uses.ts';
import { createSessionStore } from '../sessions/sessions.ts';
import { createSignInRecords } from '../sign-in-record/sign-in-record.ts';
import { createSealedJson } from '../storage/sealed-json.ts';
import type { OpenedStorage } from '../storage/storage.ts';
import { createUserStore } from '../users/user-store.ts';
import { createWebhooks } from '../webhooks/webhooks.ts';

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
  const registry = await createAppRegistry({ store, sealer, apps: createCurrentApps([]), clock });
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
