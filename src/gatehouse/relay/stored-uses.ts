/** Updates the stored counts of services' calls: totals by the hour, and the services of a connection. Pure. */
import { DAY_MS, isoTime } from '../../shared/time.ts';
import type { RelayRule, RelayScope } from './policy.ts';

/**
 * `failed`: allowed, but the platform or the connection refused it. `succeeded`: every other allowed call, including one
 * whose caller disconnected early. `userAssertion`, `idToken`: the proof of the user was not valid.
 */
export type UseResult = 'succeeded' | 'failed' | 'userAssertion' | 'idToken' | RelayRule;

export interface RelayUse {
  token: { id: string; name: string };
  scope: RelayScope;
  app?: string | undefined;
  /** The user of the connection. */
  userId?: string | undefined;
  serviceAccount?: string | undefined;
  result: UseResult;
  address: string;
  requestId: string;
}

export interface UseCount {
  scope: RelayScope;
  result: UseResult;
  /**
   * The app, in the totals of a relay token; the relay token, in those of an app. Undefined if the call has no app, or
   * if the hour has too many different counts.
   */
  other: string | undefined;
  count: number;
}

/** One service that used a connection. Times in milliseconds since the epoch. */
export interface ServiceUse {
  id: string;
  name: string;
  lastAt: number;
  count: number;
  /** Calls by hour, such as `2026-11-21T10` in UTC. */
  hours: Record<string, number>;
}

/** The hours of one day, each with its counts by `SCOPE RESULT OTHER`. */
export type StoredHours = Record<string, Record<string, number>>;
export type CountedUse = { use: RelayUse; at: number; count: number };

/** Days for which the totals by the hour are stored. */
export const USE_DAYS = 30;
/** The most different counts of an hour. Further calls are counted without the app or token. */
const MAX_NAMES = 200;
/** How many hours with calls are stored for a service and a connection: the latest. */
const MAX_HOURS_OF_SERVICE = 240;
const MAX_SERVICES = 50;

export function withHours(
  stored: StoredHours,
  counted: readonly CountedUse[],
  otherOf: (use: RelayUse) => string | undefined,
): StoredHours {
  const next: StoredHours = { ...stored };
  for (const { use, at, count } of counted) {
    const hour = hourOf(at);
    const counts = { ...next[hour] };
    const kind = `${use.scope} ${use.result} `;
    const fullName = kind + (otherOf(use) ?? '');
    const name = fullName in counts || Object.keys(counts).length < MAX_NAMES ? fullName : kind;
    next[hour] = { ...counts, [name]: (counts[name] ?? 0) + count };
  }
  return next;
}

export function withService(stored: readonly ServiceUse[], { use, at, count }: CountedUse): ServiceUse[] {
  const { id, name } = use.token;
  const previous = stored.find((service) => service.id === id);
  const service = {
    ...previous,
    id,
    name,
    lastAt: Math.max(at, previous?.lastAt ?? 0),
    count: (previous?.count ?? 0) + count,
    hours: withHour(previous?.hours ?? {}, at, count),
  };
  return [service, ...stored.filter((other) => other !== previous)]
    .sort((left, right) => right.lastAt - left.lastAt)
    .slice(0, MAX_SERVICES);
}

function withHour(stored: Record<string, number>, at: number, count: number): Record<string, number> {
  const hour = hourOf(at);
  const oldest = hourOf(at - USE_DAYS * DAY_MS);
  const hours = Object.entries({ ...stored, [hour]: (stored[hour] ?? 0) + count })
    .filter(([name]) => name > oldest)
    .sort(([left], [right]) => (left < right ? 1 : -1));
  return Object.fromEntries(hours.slice(0, MAX_HOURS_OF_SERVICE));
}

export const dayOf = (at: number) => isoTime(at).slice(0, 10);
const hourOf = (at: number) => isoTime(at).slice(0, 13);

/** Returns the start of an hour, which is stored as `2026-11-21T10`, in milliseconds since the epoch. */
export const hourAt = (hour: string): number => Date.parse(`${hour}:00Z`);

export function countOf([name, count]: [string, number]): UseCount {
  const [scope, result, other] = name.split(' ');
  return { scope: scope as RelayScope, result: result as UseResult, other: other || undefined, count };
}
