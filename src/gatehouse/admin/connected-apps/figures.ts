/** The figures of an app: its connections that do not work, and what happened in the last 24 hours. */
import { DAY_MS, isoOrNull } from '../../../shared/time.ts';
import type { AdminParts } from '../parts.ts';
import { callsOfHours } from '../timeline/calls.ts';

/** `isExact`: false if there are more than were counted. */
interface Count {
  value: number;
  isExact: boolean;
}

export interface AppFigures {
  reconnectNeeded: Count;
  unverified: Count;
  /** Includes consents of users who were signed in already. */
  signIns: Count;
  failedSignIns: Count;
  calls: number;
  refusedCalls: number;
  /** ISO 8601; null if there is none. */
  lastSignInAt: string | null;
  /** The start of the last hour with calls of services, in the last 30 days. */
  lastCallAt: string | null;
}

export type ReadAppFigures = (appId: string) => Promise<AppFigures>;

/** How many connections in a state, and how many of the newest audit entries, are counted. */
const MAX_COUNTED = 500;

export function createAppFigures(parts: Pick<AdminParts, 'audit' | 'relay' | 'grants' | 'clock'>): ReadAppFigures {
  const { audit, relay, grants, clock } = parts;

  const countIn = async (appId: string, state: 'reconnect_needed' | 'unverified'): Promise<Count> => {
    const { items, next } = await grants.index.page({ appId, state, limit: MAX_COUNTED });
    return { value: items.length, isExact: next === undefined };
  };

  return async (appId) => {
    const from = clock() - DAY_MS;
    const [reconnectNeeded, unverified, entries, latest, hours] = await Promise.all([
      countIn(appId, 'reconnect_needed'),
      countIn(appId, 'unverified'),
      audit.trail.page({ limit: MAX_COUNTED, filter: { target: appId, from } }),
      audit.trail.page({ limit: 1, filter: { target: appId, event: 'sign_in.succeeded' } }),
      relay.uses.hoursOf('app', appId),
    ]);
    const countEvents = (...events: string[]): Count => ({
      value: entries.items.filter(({ target, event }) => target?.id === appId && events.includes(event)).length,
      isExact: entries.next === undefined,
    });
    const allCalls = callsOfHours(hours, 'token');
    const sumCalls = (isRefused: boolean) =>
      allCalls
        .filter(({ at, refused }) => at >= from && refused === isRefused)
        .reduce((sum, { count }) => sum + count, 0);
    return {
      reconnectNeeded,
      unverified,
      signIns: countEvents('sign_in.succeeded'),
      failedSignIns: countEvents('sign_in.failed', 'sign_in.refused'),
      calls: sumCalls(false),
      refusedCalls: sumCalls(true),
      lastSignInAt: latest.items[0]?.at ?? null,
      lastCallAt: isoOrNull(allCalls.find(({ refused }) => !refused)?.at),
    };
  };
}
