/** The figures of an app: its connections that do not work, and what happened in the last 24 hours. */
import { mergedPage } from '../../../shared/storage/merged-page.ts';
import { DAY_MS, isoOrNull } from '../../../shared/time.ts';
import { appIndex } from '../../audit/facets.ts';
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
  /** ISO 8601; null if there is none; undefined if none of the newest ones succeeded, and there are older ones. */
  lastSignInAt: string | null | undefined;
  /** The start of the last hour with calls of services, in the last 30 days. */
  lastCallAt: string | null;
}

export type ReadAppFigures = (appId: string) => Promise<AppFigures>;

/** How many connections in a state, and how many of the newest sign-ins, are counted. */
const MAX_COUNTED = 500;

export function createAppFigures(parts: Pick<AdminParts, 'audit' | 'relay' | 'grants' | 'clock'>): ReadAppFigures {
  const { audit, relay, grants, clock } = parts;

  const countIn = async (appId: string, state: 'reconnect_needed' | 'unverified'): Promise<Count> => {
    const { items, next } = await grants.index.page({ appId, state, limit: MAX_COUNTED });
    return { value: items.length, isExact: next === undefined };
  };

  const signInsOf = (appId: string) =>
    mergedPage([audit.trail.merged([appIndex(appId, 'sign_ins')], () => true)], { limit: MAX_COUNTED });

  return async (appId) => {
    const from = clock() - DAY_MS;
    const [reconnectNeeded, unverified, signIns, hours] = await Promise.all([
      countIn(appId, 'reconnect_needed'),
      countIn(appId, 'unverified'),
      signInsOf(appId),
      relay.uses.hoursOf('app', appId),
    ]);
    const recent = signIns.items.filter(({ at }) => Date.parse(at) >= from);
    const isWhole = signIns.next === undefined;
    const isExact = isWhole || recent.length < signIns.items.length;
    const countEvents = (...events: string[]): Count => ({
      value: recent.filter(({ event }) => events.includes(event)).length,
      isExact,
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
      lastSignInAt:
        signIns.items.find(({ event }) => event === 'sign_in.succeeded')?.at ?? (isWhole ? null : undefined),
      lastCallAt: isoOrNull(allCalls.find(({ refused }) => !refused)?.at),
    };
  };
}
