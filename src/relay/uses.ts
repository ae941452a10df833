/** Counts calls of services, by hour for each relay token and by service for each connection, without a write per call. */
import type { AuditEntry } from '../audit/kinds.ts';
import type { AuditNotes } from '../audit/notes.ts';
import { remembered } from '../remembered.ts';
import { changeJson } from '../storage/change-json.ts';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import { DAY_SECONDS, HOUR_MS, isoTime } from '../time.ts';
import type { RelayRule, RelayScope } from './policy.ts';

/**
 * `failed`: allowed, but the platform or the connection refused it. `userAssertion`, `idToken`: the proof of the user was
 * not valid.
 */
export type UseResult = 'answered' | 'failed' | 'userAssertion' | 'idToken' | RelayRule;

interface RelayUse {
  token: { id: string; name: string };
  route: RelayScope;
  app?: string | undefined;
  /** The user of the connection. */
  userId?: string | undefined;
  serviceAccount?: string | undefined;
  result: UseResult;
  address: string;
  requestId: string;
}

/** Counts of one hour; `hour` is its start as `2026-11-21T10`, UTC. */
export interface HourOfUse {
  hour: string;
  counts: { route: RelayScope; result: UseResult; count: number }[];
}

/** One service that used a connection. Times in milliseconds since the epoch. */
interface ServiceUse {
  id: string;
  name: string;
  route: RelayScope;
  firstAt: number;
  lastAt: number;
  count: number;
}

type StoredHours = Record<string, Record<string, number>>;
type CountedUse = { use: RelayUse; at: number; count: number };

const WRITE_INTERVAL_MS = 2_000;
const MAX_HOURS = 168;
const HOURS_LIFETIME_SECONDS = 8 * DAY_SECONDS;
const SERVICES_LIFETIME_SECONDS = 400 * DAY_SECONDS;
const MAX_SERVICES = 50;
const MAX_PENDING = 10_000;
const MAX_AUDITED = 20_000;

export type RelayUses = ReturnType<typeof createRelayUses>;

export function createRelayUses(parts: {
  store: Store;
  audit: Pick<AuditNotes, 'note'>;
  clock: () => number;
  /** Counts each call, for the overview. */
  count?: (outcome: 'answered' | 'failed' | 'refused') => void;
}) {
  const { store, audit, clock, count } = parts;
  const audited = remembered<string>(MAX_AUDITED);
  let pending = new Map<string, CountedUse>();
  let writing: Promise<void> = Promise.resolve();

  const writeAll = async (): Promise<void> => {
    const batch = [...pending.values()];
    pending = new Map();
    for (const [tokenId, counted] of Map.groupBy(batch, ({ use }) => use.token.id)) {
      const place = { key: keys.relayUses(tokenId), lifetimeSeconds: HOURS_LIFETIME_SECONDS };
      await changeJson<StoredHours>(store, place, {}, (stored) => withHours(stored, counted, clock()));
    }
    for (const counted of batch) {
      const { route, userId, app, result } = counted.use;
      if (userId === undefined || app === undefined || result !== 'answered') continue;
      // Whoever looks at a connection, or asks for one, does not use it.
      if (route === 'connections:read' || route === 'connect_links:create') continue;
      const place = { key: keys.relayUsesOf(userId, app), owner: keys.grant(userId, app) };
      await changeJson<ServiceUse[]>(store, { ...place, lifetimeSeconds: SERVICES_LIFETIME_SECONDS }, [], (stored) =>
        withService(stored, counted),
      );
    }
  };

  /** Writes the pending counts now. */
  const settle = (): Promise<void> => {
    writing = writing.then(writeAll).catch(() => undefined);
    return writing;
  };
  const timer = setInterval(() => pending.size > 0 && void settle(), WRITE_INTERVAL_MS).unref();

  return {
    /** Counts a call in memory, and writes an audit entry for each kind of use or refusal once an hour; never throws. */
    note(use: RelayUse): void {
      const at = clock();
      const hour = Math.floor(at / HOUR_MS);
      const { token, route, app, userId, serviceAccount, result } = use;
      // Unambiguous, because no id is empty or has a space.
      const name = `${hour} ${token.id} ${route} ${app ?? ''} ${userId ?? ''} ${serviceAccount ?? ''} ${result}`;
      if (!audited.get(name)) {
        audited.set(name, name);
        audit.note(entryOf(use));
      }
      count?.(isRefusal(result) ? 'refused' : result);
      const counted = pending.get(name);
      if (counted) {
        counted.use = use;
        counted.at = at;
        counted.count += 1;
        return;
      }
      // If the store is down for long, counts are lost rather than memory filled.
      if (pending.size < MAX_PENDING) pending.set(name, { use, at, count: 1 });
    },
    /** The last week of one relay token, newest hour first. */
    async hoursOf(tokenId: string): Promise<HourOfUse[]> {
      const record = await store.get(keys.relayUses(tokenId));
      return Object.entries(record ? (JSON.parse(record.value) as StoredHours) : {})
        .map(([hour, counts]) => ({ hour, counts: Object.entries(counts).map(countOf) }))
        .sort((left, right) => right.hour.localeCompare(left.hour));
    },
    /** The services that used this connection, last used first. */
    async servicesOf(userId: string, appId: string): Promise<ServiceUse[]> {
      const record = await store.get(keys.relayUsesOf(userId, appId));
      return record ? (JSON.parse(record.value) as ServiceUse[]) : [];
    },
    settle,
    async close(): Promise<void> {
      clearInterval(timer);
      await settle();
    },
  };
}

function entryOf({ token, route, app, userId, serviceAccount, result, address, requestId }: RelayUse): AuditEntry {
  const refused = isRefusal(result);
  return {
    event: refused ? 'relay.refused' : 'relay.used',
    actor: { kind: 'relay_token', id: token.id, name: token.name },
    target: app === undefined ? undefined : { kind: 'connected_app', id: app },
    userId,
    address,
    requestId,
    outcome: refused ? `rule: ${result}` : result,
    facts: { route, serviceAccount, onceAnHour: true },
  };
}

function isRefusal(result: UseResult): result is Exclude<UseResult, 'answered' | 'failed'> {
  return result !== 'answered' && result !== 'failed';
}

function withHours(stored: StoredHours, counted: readonly CountedUse[], now: number): StoredHours {
  const next: StoredHours = { ...stored };
  for (const { use, at, count } of counted) {
    const hour = hourOf(at);
    const name = `${use.route} ${use.result}`;
    next[hour] = { ...next[hour], [name]: (next[hour]?.[name] ?? 0) + count };
  }
  const oldest = hourOf(now - MAX_HOURS * HOUR_MS);
  return Object.fromEntries(Object.entries(next).filter(([hour]) => hour > oldest));
}

function withService(stored: readonly ServiceUse[], { use, at, count }: CountedUse): ServiceUse[] {
  const { id, name } = use.token;
  const previous = stored.find((service) => service.id === id);
  const service = {
    ...previous,
    id,
    name,
    route: use.route,
    firstAt: previous?.firstAt ?? at,
    lastAt: Math.max(at, previous?.lastAt ?? 0),
    count: (previous?.count ?? 0) + count,
  };
  return [service, ...stored.filter((other) => other !== previous)]
    .sort((left, right) => right.lastAt - left.lastAt)
    .slice(0, MAX_SERVICES);
}

function hourOf(at: number): string {
  return isoTime(at).slice(0, 13);
}

function countOf([name, count]: [string, number]): HourOfUse['counts'][number] {
  const [route, result] = name.split(' ');
  return { route: route as RelayScope, result: result as UseResult, count };
}
