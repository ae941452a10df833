/**
 * Timelines of users, connected apps and relay tokens, newest first. They merge audit entries, sign-ins without an
 * entry, and hourly sums of the calls of services. A page reads a bounded number of records of each kind.
 */
import { type MergedSource, mergedPage, type Position } from '../../../shared/storage/merged-page.ts';
import { decodeCursor } from '../../../shared/storage/paging.ts';
import { isoTime } from '../../../shared/time.ts';
import { ACTIVITIES, type Activity, activityOf, appOf } from '../../audit/activity.ts';
import { appIndex, targetIndex, userIndexes } from '../../audit/facets.ts';
import type { AuditRecord } from '../../audit/kinds.ts';
import type { SignInRecord } from '../../sign-in-record/attempt.ts';
import type { User } from '../../users/user-store.ts';
import type { AdminParts } from '../parts.ts';
import { type Calls, callsOfHours } from './calls.ts';
import { createTimelineItems, type TimelineRecord } from './items.ts';
import type { TimelinePage, TimelineQuery } from './view.ts';

export interface Timelines {
  /** @param app limits it to the user's connection to this app */
  ofUser(user: User, query: TimelineQuery, app?: string): Promise<TimelinePage>;
  ofApp(app: { id: string }, query: TimelineQuery): Promise<TimelinePage>;
  /** Changes by administrators, and the calls of the token. */
  ofToken(token: { id: string }, query: TimelineQuery): Promise<TimelinePage>;
}

export function createTimelines(
  parts: Pick<AdminParts, 'audit' | 'signInRecords' | 'relay' | 'grants' | 'connectedApps' | 'users'>,
): Timelines {
  const { audit, signInRecords, relay, grants } = parts;
  const toItems = createTimelineItems(parts);

  const pageOf = async (
    sources: MergedSource<TimelineRecord>[],
    { after, limit }: TimelineQuery,
    /** The id of the user, app or token, which the sentences need not name. */
    subjectId: string,
  ): Promise<TimelinePage> => {
    const { items, searchedTo, ...rest } = await mergedPage(sources, { after, limit });
    return { items: await toItems(items, subjectId), ...rest, searchedTo: isoTime(searchedTo) };
  };

  const entriesSource = (
    indexes: readonly string[],
    accepts: (record: AuditRecord) => boolean,
  ): MergedSource<TimelineRecord> => mapped(audit.trail.merged(indexes, accepts), (entry) => ({ entry }));

  /** Returns the source of calls, if the filter includes them. */
  const callsSources = (
    { kind }: TimelineQuery,
    read: (before: number) => Promise<Calls[]>,
  ): MergedSource<TimelineRecord>[] =>
    kind === undefined || kind === 'relay' || kind === 'refusals' ? [callsSource(kind, read)] : [];

  return {
    ofUser(user, query, onlyApp) {
      const { kind } = query;
      const isOfApp = (app: string | undefined) => onlyApp === undefined || app === onlyApp;
      const concernsUser = ({ actor, target, userId }: AuditRecord) => [actor.id, target?.id, userId].includes(user.id);
      const readCalls = async () => {
        const { items } = await grants.index.page({ userId: user.id, limit: MAX_CONNECTIONS });
        const ofApps = items
          .filter(({ appId }) => isOfApp(appId))
          .map(async ({ appId: app }) => {
            const hours = await relay.uses.hoursOfConnection(user.id, app);
            return hours.map((hour) => ({ ...hour, app, refused: false, parts: [], rules: [] }));
          });
        return (await Promise.all(ofApps)).flat();
      };
      const attemptsSource = signInRecords.store.merged(
        user,
        (record) => !hasEntry(record, user) && isOfApp(record.app),
      );
      return pageOf(
        [
          entriesSource(
            userIndexes(user.id),
            (entry) =>
              concernsUser(entry) && isOfApp(appOf(entry)) && isListed(entry) && includesKind(kind, activityOf(entry)),
          ),
          ...(includesKind(kind, 'sign_ins')
            ? [mapped(attemptsSource, (attempt): TimelineRecord => ({ attempt }))]
            : []),
          ...callsSources(query, readCalls),
        ],
        query,
        user.id,
      );
    },

    ofApp(app, query) {
      const { kind } = query;
      const indexes = ACTIVITIES.filter((activity) => includesKind(kind, activity)).map((activity) =>
        appIndex(app.id, activity),
      );
      const readHours = async (before: number) =>
        callsOfHours(await relay.uses.hoursOf('app', app.id, before), 'token');
      return pageOf([entriesSource(indexes, isListed), ...callsSources(query, readHours)], query, app.id);
    },

    ofToken(token, query) {
      const matchesQuery = (entry: AuditRecord) =>
        entry.target?.id === token.id && includesKind(query.kind, activityOf(entry));
      const readHours = async (before: number) =>
        callsOfHours(await relay.uses.hoursOf('token', token.id, before), 'app');
      return pageOf(
        [entriesSource([targetIndex(token.id)], matchesQuery), ...callsSources(query, readHours)],
        query,
        token.id,
      );
    },
  };
}

/** Exceeds the number of apps that administrators register. */
const MAX_CONNECTIONS = 200;

const includesKind = (filter: Activity | undefined, kind: Activity) => filter === undefined || filter === kind;

/** Returns false if another item has the same information, such as a consent or an hourly sum. */
function isListed({ event, outcome, facts }: AuditRecord): boolean {
  if (event === 'sign_in.succeeded') return outcome !== 'connected';
  if (event === 'relay.used') return outcome !== 'succeeded';
  if (event === 'refresh.failed') return facts?.repeated !== true;
  return event !== 'relay_token.exchanged';
}

/** Returns whether the audit trail has an entry for the attempt, which is so for each that ended with a proven user. */
function hasEntry({ userId, outcome, presumed }: SignInRecord, user: User): boolean {
  return userId === user.id && outcome !== undefined && presumed !== true;
}

function mapped<T>(source: MergedSource<T>, toRecord: (item: T) => TimelineRecord): MergedSource<TimelineRecord> {
  return {
    page: source.page,
    load: async (positions) => (await source.load(positions)).map((item) => item && toRecord(item)),
  };
}

/** Creates the source of calls. @param read reads the calls of all hours that began before a time, in any order */
function callsSource(
  kind: Activity | undefined,
  read: (before: number) => Promise<Calls[]>,
): MergedSource<TimelineRecord> {
  const byMember = new Map<string, Calls>();
  return {
    async page({ after, limit }) {
      const start = after === undefined ? undefined : decodeCursor(after);
      // The hour of the cursor may have further calls.
      const all = await read(start === undefined ? Number.POSITIVE_INFINITY : start.score + 1);
      return all
        .filter(({ refused }) => includesKind(kind, refused ? 'refusals' : 'relay'))
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
