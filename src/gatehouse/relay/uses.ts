/** Counts calls of services by the hour, for each relay token, app and connection. Many calls share one write. */

import { remembered } from '../../shared/remembered.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';
import { updateRecord } from '../../shared/storage/update-record.ts';
import { DAY_MS, DAY_SECONDS, HOUR_MS } from '../../shared/time.ts';
import type { AuditEntry } from '../audit/kinds.ts';
import type { AuditNotes } from '../audit/notes.ts';
import {
  type CountedUse,
  countOf,
  dayOf,
  hourAt,
  type RelayUse,
  type ServiceUse,
  type StoredHours,
  USE_DAYS,
  type UseCount,
  type UseResult,
  withHours,
  withService,
} from './stored-uses.ts';

/** The calls of one hour. */
export interface HourOfUse {
  /** The start of the hour, in milliseconds since the epoch. */
  at: number;
  counts: UseCount[];
}

const WRITE_INTERVAL_MS = 2_000;
/** How many records are written concurrently: on SQLite, their writes share a transaction. */
const MAX_CONCURRENT_WRITES = 50;
const HOURS_LIFETIME_SECONDS = (USE_DAYS + 1) * DAY_SECONDS;
const SERVICES_LIFETIME_SECONDS = 400 * DAY_SECONDS;
/** While the store is unavailable, counts beyond these limits are lost, so that memory stays bounded. */
const MAX_PENDING = 10_000;
const MAX_UNWRITTEN = 30_000;
const MAX_AUDITED = 20_000;

/** The uses that are not yet added to one record. */
interface UnwrittenRecord {
  /** By the name that `note` makes of a use. */
  uses: Map<string, CountedUse>;
  write: (counted: readonly CountedUse[]) => Promise<unknown>;
}

export interface RelayUses {
  /** Counts a call in memory, and writes an audit entry for each kind of use or refusal once an hour. Never throws. */
  note(call: RelayUse): void;
  /**
   * Returns the calls with one relay token or to one app in the last 30 days, newest hour first.
   * @param before in milliseconds since the epoch: only hours that began earlier are returned
   */
  hoursOf(owner: 'token' | 'app', id: string, before?: number): Promise<HourOfUse[]>;
  /** Returns the successful calls of each service with one connection. `at`: start of the hour, in ms since the epoch */
  hoursOfConnection(userId: string, appId: string): Promise<{ at: number; token: string; count: number }[]>;
  /** Returns the services that used this connection, the latest use first. */
  servicesOf(userId: string, appId: string): Promise<ServiceUse[]>;
  /** Writes the pending counts now. Counts whose write fails are written later. */
  write(): Promise<void>;
  close(): Promise<void>;
}

export function createRelayUses(parts: {
  store: Store;
  audit: Pick<AuditNotes, 'note'>;
  clock: () => number;
  /** Returns whether there is an app with this id: a service may send any text in its place. */
  isApp: (id: string) => boolean;
  /** Called for each call that is counted. */
  count?: (outcome: 'succeeded' | 'failed' | 'refused', app: string | undefined) => void;
  /** Called with the number of counts that could not be added to a record. */
  onLost?: (counts: number) => void;
}): RelayUses {
  const { store, audit, clock, isApp, count, onLost } = parts;
  const audited = remembered<string>(MAX_AUDITED);
  let pending = new Map<string, CountedUse>();
  /** By the key of the record. A record whose write failed stays until a later write succeeds. */
  const unwritten = new Map<string, UnwrittenRecord>();
  let unwrittenUses = 0;
  let lostCounts = 0;
  let writing: Promise<void> = Promise.resolve();

  /**
   * Returns a function that adds calls to the totals of a relay token or an app for one day.
   * @param otherOf returns the app of a call for a relay token's totals, and the relay token for an app's totals
   */
  const addHours =
    (key: string, otherOf: (use: RelayUse) => string | undefined): UnwrittenRecord['write'] =>
    (counted) =>
      updateRecord<StoredHours>(store, key, (stored = {}) => withHours(stored, counted, otherOf), {
        lifetimeSeconds: HOURS_LIFETIME_SECONDS,
      });

  const addServices =
    (key: string, owner: string): UnwrittenRecord['write'] =>
    (counted) =>
      updateRecord<ServiceUse[]>(store, key, (stored = []) => counted.reduce(withService, stored), {
        owner,
        lifetimeSeconds: SERVICES_LIFETIME_SECONDS,
      });

  const appOf = ({ app }: RelayUse) => (app !== undefined && isApp(app) ? app : undefined);

  /** Returns the records that a use is added to, each with the function that writes it. */
  const recordsOf = ({ use, at }: CountedUse): [key: string, write: UnwrittenRecord['write']][] => {
    const day = dayOf(at);
    const app = appOf(use);
    const tokenKey = keys.relayUses('token', use.token.id, day);
    const records: [string, UnwrittenRecord['write']][] = [[tokenKey, addHours(tokenKey, appOf)]];
    if (app !== undefined) {
      const appKey = keys.relayUses('app', app, day);
      records.push([appKey, addHours(appKey, ({ token }) => token.id)]);
    }
    if (isUseOfConnection(use)) {
      const { userId = '', app: appId = '' } = use;
      const connectionKey = keys.relayUsesOf(userId, appId);
      records.push([connectionKey, addServices(connectionKey, keys.grant(userId, appId))]);
    }
    return records;
  };

  const addUnwritten = (name: string, counted: CountedUse): void => {
    for (const [key, write] of recordsOf(counted)) {
      const record = unwritten.get(key) ?? { uses: new Map<string, CountedUse>(), write };
      const countedBefore = record.uses.get(name);
      if (!countedBefore && unwrittenUses >= MAX_UNWRITTEN) {
        lostCounts += counted.count;
        continue;
      }
      if (!countedBefore) unwrittenUses += 1;
      record.uses.set(name, { ...counted, count: counted.count + (countedBefore?.count ?? 0) });
      unwritten.set(key, record);
    }
  };

  /** Writes one record. If the write fails, the record moves to the end of the unwritten records. */
  const writeRecord = async (key: string, record: UnwrittenRecord): Promise<boolean> => {
    unwritten.delete(key);
    try {
      await record.write([...record.uses.values()]);
      unwrittenUses -= record.uses.size;
      return true;
    } catch {
      unwritten.set(key, record);
      return false;
    }
  };

  const reportLost = (): void => {
    if (lostCounts > 0) onLost?.(lostCounts);
    lostCounts = 0;
  };

  const writeAll = async (): Promise<void> => {
    for (const [name, counted] of pending) addUnwritten(name, counted);
    pending = new Map();
    reportLost();
    const records = [...unwritten];
    while (records.length > 0) {
      const batch = records.splice(0, MAX_CONCURRENT_WRITES);
      const results = await Promise.all(batch.map(([key, record]) => writeRecord(key, record)));
      // The store is unavailable: further writes would only wait until they time out.
      if (!results.includes(true)) return;
    }
  };

  const write = (): Promise<void> => {
    writing = writing.then(writeAll).catch(() => undefined);
    return writing;
  };
  const timer = setInterval(() => pending.size + unwritten.size > 0 && void write(), WRITE_INTERVAL_MS).unref();

  const servicesOf = async (userId: string, appId: string): Promise<ServiceUse[]> => {
    const record = await store.get(keys.relayUsesOf(userId, appId));
    return record ? (JSON.parse(record.value) as ServiceUse[]) : [];
  };

  return {
    note(call) {
      // A text that is not the id of an app is dropped: it must not reach the counts or the audit trail.
      const use = call.app !== undefined && isApp(call.app) ? call : { ...call, app: undefined };
      const at = clock();
      const hour = Math.floor(at / HOUR_MS);
      const { token, scope, app, userId, serviceAccount, result } = use;
      // Unambiguous, because no id is empty or has a space.
      const name = `${hour} ${token.id} ${scope} ${app ?? ''} ${userId ?? ''} ${serviceAccount ?? ''} ${result}`;
      if (!audited.get(name)) {
        audited.set(name, name);
        audit.note(entryOf(use));
      }
      count?.(isRefusal(result) ? 'refused' : result, app);
      const counted = pending.get(name);
      if (counted) {
        counted.use = use;
        counted.at = at;
        counted.count += 1;
        return;
      }
      if (pending.size < MAX_PENDING) pending.set(name, { use, at, count: 1 });
      else lostCounts += 1;
    },
    async hoursOf(owner, id, before = Number.POSITIVE_INFINITY) {
      const now = clock();
      const days = Array.from({ length: USE_DAYS + 1 }, (_, daysAgo) => now - daysAgo * DAY_MS).filter(
        (time) => Math.floor(time / DAY_MS) * DAY_MS < before,
      );
      const records = await Promise.all(days.map((time) => store.get(keys.relayUses(owner, id, dayOf(time)))));
      return records
        .flatMap((record) => Object.entries(record ? (JSON.parse(record.value) as StoredHours) : {}))
        .map(([hour, counts]) => ({ at: hourAt(hour), counts: Object.entries(counts).map(countOf) }))
        .filter(({ at }) => at < before)
        .sort((left, right) => right.at - left.at);
    },
    async hoursOfConnection(userId, appId) {
      const services = await servicesOf(userId, appId);
      return services.flatMap(({ id: token, hours }) =>
        Object.entries(hours).map(([hour, count]) => ({ at: hourAt(hour), token, count })),
      );
    },
    servicesOf,
    write,
    async close() {
      clearInterval(timer);
      await write();
      for (const { uses } of unwritten.values()) for (const { count } of uses.values()) lostCounts += count;
      unwritten.clear();
      reportLost();
    },
  };
}

function entryOf({ token, scope, app, userId, serviceAccount, result, address, requestId }: RelayUse): AuditEntry {
  const isRefused = isRefusal(result);
  return {
    event: isRefused ? 'relay.refused' : 'relay.used',
    actor: { kind: 'relay_token', id: token.id, name: token.name },
    target: app === undefined ? undefined : { kind: 'connected_app', id: app },
    userId,
    address,
    requestId,
    outcome: isRefused ? 'refused' : result,
    facts: { rule: isRefused ? result : undefined, scope, serviceAccount, onceAnHour: true },
  };
}

/** True for a use of a connection. Reading its state or creating a connect link is not a use. */
function isUseOfConnection({ scope, userId, app, result }: RelayUse): boolean {
  const isCall = scope !== 'connections:read' && scope !== 'connect_links:create';
  return isCall && userId !== undefined && app !== undefined && result === 'succeeded';
}

function isRefusal(result: UseResult): result is Exclude<UseResult, 'succeeded' | 'failed'> {
  return result !== 'succeeded' && result !== 'failed';
}
