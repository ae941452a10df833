/**
 * The timelines of a user, a connected app and a relay token: entries of the audit trail, sign-ins without an entry, and the
 * calls of services by the hour, merged newest first. Each page reads a bounded number of records of each.
 */

import { type MergedSource, mergedPage, type Position } from '../../../shared/storage/merged-page.ts';
import { decodeCursor } from '../../../shared/storage/paging.ts';
import { isoTime } from '../../../shared/time.ts';
import { ACTIVITIES, type Activity, activityOf } from '../../audit/activity.ts';
import { appIndex, targetIndex, userIndexes } from '../../audit/facets.ts';
import type { AuditRecord } from '../../audit/kinds.ts';
import type { SignInRecord } from '../../sign-in-record/attempt.ts';
import type { User } from '../../users/user-store.ts';
import type { AdminParts } from '../parts.ts';
import { type Calls, callsOfHours } from './calls.ts';
import { createTimelineItems, type Found } from './items.ts';
import type { TimelinePage, TimelineQuery } from './view.ts';

/** What happened to a user, an app or a relay token, newest first. */
export interface Timelines {
  ofUser(user: User, query: TimelineQuery): Promise<TimelinePage>;
  ofApp(app: { id: string }, query: TimelineQuery): Promise<TimelinePage>;
  /** What administrators did with the token, and its calls. */
  ofToken(token: { id: string }, query: TimelineQuery): Promise<TimelinePage>;
}

export function createTimelines(
  parts: Pick<AdminParts, 'audit' | 'signInRecords' | 'relay' | 'grants' | 'connectedApps' | 'users'>,
): Timelines {
  const { audit, signInRecords, relay, grants } = parts;
  const toItems = createTimelineItems(parts);

  const pageOf = async (
    sources: MergedSource<Found>[],
    { after, limit }: TimelineQuery,
    /** The page is about this object, which its sentences need not name. */
    about: string,
  ): Promise<TimelinePage> => {
    const { items, searchedTo, ...rest } = await mergedPage(sources, { after, limit });
    return { items: await toItems(items, about), ...rest, searchedTo: isoTime(searchedTo) };
  };

  const entries = (indexes: readonly string[], accepts: (record: AuditRecord) => boolean): MergedSource<Found> =>
    mapped(audit.trail.merged(indexes, accepts), (entry) => ({ entry }));

  /** Only where the filter asks for them. */
  const calls = ({ kind }: TimelineQuery, read: (before: number) => Promise<Calls[]>): MergedSource<Found>[] =>
    kind === undefined || kind === 'relay' || kind === 'refusals' ? [callsSource(kind, read)] : [];

  return {
    ofUser(user, query) {
      const { kind } = query;
      const isAbout = ({ actor, target, userId }: AuditRecord) => [actor.id, target?.id, userId].includes(user.id);
      const services = async () => {
        const { items } = await grants.index.page({ userId: user.id, limit: MAX_CONNECTIONS });
        const ofApps = items.map(async ({ appId: app }) => {
          const hours = await relay.uses.hoursOfConnection(user.id, app);
          return hours.map((hour) => ({ ...hour, app, refused: false, parts: [], rules: [] }));
        });
        return (await Promise.all(ofApps)).flat();
      };
      const attempts = signInRecords.store.merged(user, (record) => !hasEntry(record, user));
      return pageOf(
        [
          entries(userIndexes(user.id), (entry) => isAbout(entry) && isListed(entry) && isOf(kind, activityOf(entry))),
          ...(isOf(kind, 'sign_ins') ? [mapped(attempts, (attempt): Found => ({ attempt }))] : []),
          ...calls(query, services),
        ],
        query,
        user.id,
      );
    },

    ofApp(app, query) {
      const { kind } = query;
      const indexes = ACTIVITIES.filter((one) => isOf(kind, one)).map((one) => appIndex(app.id, one));
      const hours = async (before: number) => callsOfHours(await relay.uses.hoursOf('app', app.id, before), 'token');
      return pageOf([entries(indexes, isListed), ...calls(query, hours)], query, app.id);
    },

    ofToken(token, query) {
      const isAbout = ({ target }: AuditRecord) => target?.id === token.id;
      const isWanted = (entry: AuditRecord) => isAbout(entry) && isOf(query.kind, activityOf(entry));
      const hours = async (before: number) => callsOfHours(await relay.uses.hoursOf('token', token.id, before), 'app');
      return pageOf([entries([targetIndex(token.id)], isWanted), ...calls(query, hours)], query, token.id);
    },
  };
}

/** No user has connected more apps than administrators have registered. */
const MAX_CONNECTIONS = 200;

const isOf = (wanted: Activity | undefined, kind: Activity) => wanted === undefined || wanted === kind;

/** False for what another item says better: a consent, or the sum of an hour. */
function isListed({ event, outcome, facts }: AuditRecord): boolean {
  if (event === 'sign_in.succeeded') return outcome !== 'connected';
  if (event === 'relay.used') return outcome !== 'answered';
  if (event === 'refresh.failed') return facts?.repeated !== true;
  return event !== 'relay_token.exchanged';
}

/** The audit trail has an entry for each attempt that ended and whose user is proven. */
function hasEntry({ userId, outcome, presumed }: SignInRecord, user: User): boolean {
  return userId === user.id && outcome !== undefined && presumed !== true;
}

function mapped<T>(source: MergedSource<T>, toFound: (item: T) => Found): MergedSource<Found> {
  return {
    page: source.page,
    load: async (positions) => (await source.load(positions)).map((item) => item && toFound(item)),
  };
}

/** @param read the calls of all hours that began before that time, in any order */
function callsSource(kind: Activity | undefined, read: (before: number) => Promise<Calls[]>): MergedSource<Found> {
  const byMember = new Map<string, Calls>();
  return {
    async page({ after, limit }) {
      const start = after === undefined ? undefined : decodeCursor(after);
      // The hour of the cursor may have more.
      const all = await read(start === undefined ? Number.POSITIVE_INFINITY : start.score + 1);
      return all
        .filter(({ refused }) => isOf(kind, refused ? 'refusals' : 'relay'))
        .map((calls) => {
          const member = [calls.refused ? 'refused' : 'made', calls.token ?? '', calls.app ?? ''].join(' ');
          byMember.set(`${calls.at} ${member}`, calls);
          return { score: calls.at, member };
        })
        .filter((position) => start === undefined || isOlder(position, start))
        .sort((left, right) => (isOlder(left, right) ? 1 : -1))
        .slice(0, limit);
    },
    async load(positions) {
      return positions.map(({ score, member }) => {
        const calls = byMember.get(`${score} ${member}`);
        return calls && { calls };
      });
    },
  };
}

function isOlder(left: Position, right: Position): boolean {
  return left.score < right.score || (left.score === right.score && left.member < right.member);
}
