/** Counts calls of services, by hour for each relay token and by service for each connection, without a write per call. */
import type { AuditNotes } from '../audit/notes.ts';
import { remembered } from '../remembered.ts';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import { DAY_SECONDS, HOUR_MS, isoTime } from '../time.ts';
import type { RelayRule, RelayScope } from './policy.ts';

/**
 * `failed`: allowed, but the platform or the connection refused it. `userAssertion`, `idToken`: the proof of the user was
 * not valid.
 */
export type UseResult = 'answered' | 'failed' | 'userAssertion' | 'idToken' | RelayRule;

export interface RelayUse {
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
export interface ServiceUse {
  id: string;
  name: string;
  route: RelayScope;
  firstAt: number;
  lastAt: number;
  count: number;
}

export interface RelayUses {
  /** Counts a call in memory; never throws. */
  note(use: RelayUse): void;
  /** The last week of one relay token, newest hour first. */
  hoursOf(tokenId: string): Promise<HourOfUse[]>;
  /** The services that used this connection, last used first. */
  servicesOf(userId: string, appId: string): Promise<ServiceUse[]>;
  /** Writes the pending counts now. */
  settle(): Promise<void>;
  close(): Promise<void>;
}

type KeptHours = Record<string, Record<string, number>>;

const WRITE_INTERVAL_MS = 2_000;
const MAX_HOURS = 168;
const HOURS_LIFETIME_SECONDS = 8 * DAY_SECONDS;
const SERVICES_LIFETIME_SECONDS = 400 * DAY_SECONDS;
const MAX_SERVICES = 50;
const MAX_ATTEMPTS = 20;
const MAX_PENDING = 10_000;
const MAX_AUDITED = 20_000;

export function createRelayUses(parts: {
  store: Store;
  audit: Pick<AuditNotes, 'note'>;
  clock: () => number;
  /** Counts each call, for the overview. */
  count?: (outcome: 'answered' | 'failed' | 'refused') => void;
}): RelayUses {
  const { store, audit, clock, count } = parts;
  const auditHourly = createHourlyAudit(audit);
  let pending = new Map<string, { use: RelayUse; at: number; count: number }>();
  let writing: Promise<void> = Promise.resolve();

  /**
   * Changes a record by compare-and-set, and retries if another process has changed it.
   * @param owner key of a record that must exist, so that counts do not outlive the connection
   */
  const change = async <T>(
    { key, owner, lifetimeSeconds }: { key: string; owner?: string; lifetimeSeconds: number },
    start: T,
    apply: (kept: T) => T,
  ): Promise<void> => {
    const condition = owner === undefined ? [] : [{ exists: owner }];
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
      const record = await store.get(key);
      const next = JSON.stringify(apply(record ? (JSON.parse(record.value) as T) : start));
      const ifVersion = record?.version ?? 0;
      if (await store.write([...condition, { put: key, value: next, ifVersion, lifetimeSeconds }])) return;
      if (owner !== undefined && !(await store.get(owner))) return;
    }
  };

  const writeAll = async (): Promise<void> => {
    const batch = [...pending.values()];
    pending = new Map();
    for (const [tokenId, uses] of Map.groupBy(batch, ({ use }) => use.token.id)) {
      const place = { key: keys.relayUses(tokenId), lifetimeSeconds: HOURS_LIFETIME_SECONDS };
      await change<KeptHours>(place, {}, (kept) => withHours(kept, uses, clock()));
    }
    const connections = Map.groupBy(batch, ({ use }) => connectionKeyOf(use));
    for (const [key, uses] of connections) {
      const [first] = uses;
      if (key === undefined) continue;
      const { userId = '', app = '' } = first?.use ?? {};
      const place = { key, owner: keys.grant(userId, app), lifetimeSeconds: SERVICES_LIFETIME_SECONDS };
      await change<ServiceUse[]>(place, [], (kept) => withServices(kept, uses));
    }
  };

  const settle = (): Promise<void> => {
    writing = writing.then(writeAll).catch(() => undefined);
    return writing;
  };
  const timer = setInterval(() => pending.size > 0 && void settle(), WRITE_INTERVAL_MS).unref();

  return {
    note(use) {
      const at = clock();
      const hour = Math.floor(at / HOUR_MS);
      const { token, route, app, userId, serviceAccount, result } = use;
      // Unambiguous, because no id is empty or has a space.
      const name = `${hour} ${token.id} ${route} ${app ?? ''} ${userId ?? ''} ${serviceAccount ?? ''} ${result}`;
      auditHourly(use, name);
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
    async hoursOf(tokenId) {
      const record = await store.get(keys.relayUses(tokenId));
      const kept = record ? (JSON.parse(record.value) as KeptHours) : {};
      return Object.entries(kept)
        .map(([hour, counts]) => ({ hour, counts: Object.entries(counts).map(countOf) }))
        .sort((left, right) => right.hour.localeCompare(left.hour));
    },
    async servicesOf(userId, appId) {
      const record = await store.get(keys.relayUsesOf(userId, appId));
      return record ? (JSON.parse(record.value) as ServiceUse[]) : [];
    },
    settle,
    async close() {
      clearInterval(timer);
      await settle();
    },
  };
}

/** Writes an audit entry for each kind of use or refusal once an hour. `name`: the kind and its hour. */
function createHourlyAudit(audit: Pick<AuditNotes, 'note'>): (use: RelayUse, name: string) => void {
  const audited = remembered<string>(MAX_AUDITED);
  return ({ token, route, app, userId, serviceAccount, result, address, requestId }, name) => {
    if (audited.get(name)) return;
    audited.set(name, name);
    const refused = isRefusal(result);
    audit.note({
      event: refused ? 'relay.refused' : 'relay.used',
      actor: { kind: 'relay_token', id: token.id, name: token.name },
      ...(app === undefined ? {} : { target: { kind: 'connected_app', id: app } }),
      userId,
      address,
      requestId,
      outcome: refused ? `rule: ${result}` : result,
      facts: { route, serviceAccount, onceAnHour: true },
    });
  };
}

function isRefusal(result: UseResult): result is Exclude<UseResult, 'answered' | 'failed'> {
  return result !== 'answered' && result !== 'failed';
}

type CountedUse = { use: RelayUse; at: number; count: number };

function withHours(kept: KeptHours, uses: readonly CountedUse[], now: number): KeptHours {
  const next: KeptHours = { ...kept };
  for (const { use, at, count } of uses) {
    const hour = hourOf(at);
    const name = `${use.route} ${use.result}`;
    next[hour] = { ...next[hour], [name]: (next[hour]?.[name] ?? 0) + count };
  }
  const oldest = hourOf(now - MAX_HOURS * HOUR_MS);
  return Object.fromEntries(Object.entries(next).filter(([hour]) => hour > oldest));
}

function withServices(kept: readonly ServiceUse[], uses: readonly CountedUse[]): ServiceUse[] {
  const services = new Map(kept.map((service) => [service.id, service]));
  for (const { use, at, count } of uses) {
    const { id, name } = use.token;
    const previous = services.get(id);
    const lastAt = Math.max(at, previous?.lastAt ?? 0);
    const service = {
      ...previous,
      id,
      name,
      route: use.route,
      firstAt: previous?.firstAt ?? at,
      lastAt,
      count: (previous?.count ?? 0) + count,
    };
    services.set(id, service);
  }
  return [...services.values()].sort((left, right) => right.lastAt - left.lastAt).slice(0, MAX_SERVICES);
}

/** Undefined if the call used no connection. */
function connectionKeyOf({ userId, app, result }: RelayUse): string | undefined {
  return userId !== undefined && app !== undefined && result === 'answered' ? keys.relayUsesOf(userId, app) : undefined;
}

function hourOf(at: number): string {
  return isoTime(at).slice(0, 13);
}

function countOf([name, count]: [string, number]): HourOfUse['counts'][number] {
  const [route, result] = name.split(' ');
  return { route: route as RelayScope, result: result as UseResult, count };
}
