/** Owns the counting of what services do: by hour for each relay token, and by service for each user's connection; never a write per call. */
import type { AuditNotes } from '../audit/notes.ts';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import type { RelayRule, RelayScope } from './policy.ts';

/**
 * `failed`: allowed, and then refused by the platform or by the connection. `userAssertion`, `idToken`: what should have
 * proven the user is no proof.
 */
export type UseResult = 'answered' | 'failed' | 'userAssertion' | 'idToken' | RelayRule;

export interface RelayUse {
  token: { id: string; name: string };
  route: RelayScope;
  app?: string | undefined;
  /** Whose connection was used. */
  userId?: string | undefined;
  serviceAccount?: string | undefined;
  result: UseResult;
  address: string;
  requestId: string;
}

/** Use counts of one hour; `hour` is the beginning as `2026-11-21T10`, UTC. */
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
  /** Never throws and never waits. */
  note(use: RelayUse): void;
  /** The last week of one relay token, the newest hour first. */
  hoursOf(tokenId: string): Promise<HourOfUse[]>;
  /** The services that used this connection, the latest first. */
  servicesOf(userId: string, appId: string): Promise<ServiceUse[]>;
  /** Writes what is noted. */
  settle(): Promise<void>;
  close(): Promise<void>;
}

type KeptHours = Record<string, Record<string, number>>;

const WRITE_MILLISECONDS = 2_000;
const HOUR_MILLISECONDS = 3_600_000;
const HOURS_KEPT = 168;
const HOURS_LIFETIME_SECONDS = 8 * 86_400;
const SERVICES_LIFETIME_SECONDS = 400 * 86_400;
const MOST_SERVICES = 50;
const MOST_ATTEMPTS = 20;
const MOST_WAITING = 10_000;
const MOST_TOLD = 20_000;

export function createRelayUses(parts: {
  store: Store;
  audit: Pick<AuditNotes, 'note'>;
  clock: () => number;
}): RelayUses {
  const { store, audit, clock } = parts;
  const tellOnce = createTeller(audit);
  let waiting = new Map<string, { use: RelayUse; at: number; count: number }>();
  let writing: Promise<void> = Promise.resolve();

  /**
   * Reads, changes and writes; of processes that do it at once each comes through in its turn.
   * @param owner key of the record that this one goes with: where it is gone, nothing is left behind
   */
  const change = async <T>(
    { key, owner, lifetimeSeconds }: { key: string; owner?: string; lifetimeSeconds: number },
    start: T,
    apply: (kept: T) => T,
  ): Promise<void> => {
    const demanded = owner === undefined ? [] : [{ exists: owner }];
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt += 1) {
      const record = await store.get(key);
      const next = JSON.stringify(apply(record ? (JSON.parse(record.value) as T) : start));
      const ifVersion = record?.version ?? 0;
      if (await store.write([...demanded, { put: key, value: next, ifVersion, lifetimeSeconds }])) return;
      if (owner !== undefined && !(await store.get(owner))) return;
    }
  };

  const writeAll = async (): Promise<void> => {
    const batch = [...waiting.values()];
    waiting = new Map();
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
  const timer = setInterval(() => waiting.size > 0 && void settle(), WRITE_MILLISECONDS).unref();

  return {
    note(use) {
      const at = clock();
      const hour = Math.floor(at / HOUR_MILLISECONDS);
      const { token, route, app, userId, serviceAccount, result } = use;
      // No id is empty or has a space.
      const name = `${hour} ${token.id} ${route} ${app ?? ''} ${userId ?? ''} ${serviceAccount ?? ''} ${result}`;
      tellOnce(use, name, hour);
      const known = waiting.get(name);
      if (known) {
        known.use = use;
        known.at = at;
        known.count += 1;
        return;
      }
      // A store that is down for long costs counts, not memory.
      if (waiting.size < MOST_WAITING) waiting.set(name, { use, at, count: 1 });
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

/** The audit trail hears of each kind of use once an hour, and of each kind of refusal too. `name`: the kind and its hour. */
function createTeller(audit: Pick<AuditNotes, 'note'>): (use: RelayUse, name: string, hour: number) => void {
  let told = new Set<string>();
  let toldHour = 0;
  return ({ token, route, app, userId, serviceAccount, result, address, requestId }, name, hour) => {
    if (hour !== toldHour || told.size >= MOST_TOLD) [told, toldHour] = [new Set(), hour];
    if (told.has(name)) return;
    told.add(name);
    const refused = result !== 'answered' && result !== 'failed';
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

type CountedUse = { use: RelayUse; at: number; count: number };

function withHours(kept: KeptHours, uses: readonly CountedUse[], now: number): KeptHours {
  const next: KeptHours = { ...kept };
  for (const { use, at, count } of uses) {
    const hour = hourOf(at);
    const name = `${use.route} ${use.result}`;
    next[hour] = { ...next[hour], [name]: (next[hour]?.[name] ?? 0) + count };
  }
  const oldest = hourOf(now - HOURS_KEPT * HOUR_MILLISECONDS);
  return Object.fromEntries(Object.entries(next).filter(([hour]) => hour > oldest));
}

function withServices(kept: readonly ServiceUse[], uses: readonly CountedUse[]): ServiceUse[] {
  const services = new Map(kept.map((service) => [service.id, service]));
  for (const { use, at, count } of uses) {
    const { id, name } = use.token;
    const known = services.get(id);
    const lastAt = Math.max(at, known?.lastAt ?? 0);
    const service = {
      id,
      name,
      route: use.route,
      firstAt: known?.firstAt ?? at,
      lastAt,
      count: (known?.count ?? 0) + count,
    };
    services.set(id, service);
  }
  return [...services.values()].sort((left, right) => right.lastAt - left.lastAt).slice(0, MOST_SERVICES);
}

/** Undefined where no connection was used. */
function connectionKeyOf({ userId, app, result }: RelayUse): string | undefined {
  return userId !== undefined && app !== undefined && result === 'answered' ? keys.relayUsesOf(userId, app) : undefined;
}

function hourOf(at: number): string {
  return new Date(at).toISOString().slice(0, 13);
}

function countOf([name, count]: [string, number]): HourOfUse['counts'][number] {
  const [route, result] = name.split(' ');
  return { route: route as RelayScope, result: result as UseResult, count };
}
