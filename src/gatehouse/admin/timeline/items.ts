/** The items of a timeline for JSON and pages, with the names of users, apps and services. */
import { HOUR_MS, isoTime } from '../../../shared/time.ts';
import { activityOf, appOf } from '../../audit/activity.ts';
import type { AuditRecord } from '../../audit/kinds.ts';
import type { SignInRecord } from '../../sign-in-record/attempt.ts';
import type { AdminParts } from '../parts.ts';
import { displayName } from '../users/view.ts';
import { type Calls, callsSentence } from './calls.ts';
import { attemptSentence, sentenceOf, textOf } from './sentences.ts';
import type { TimelineItem } from './view.ts';

/** A record of a timeline, before names are added. */
export type TimelineRecord = { entry: AuditRecord } | { attempt: SignInRecord } | { calls: Calls };

interface Names {
  app(id: string): string;
  user(id: string): Promise<string | undefined>;
  token(id: string): Promise<string | undefined>;
}

export function createTimelineItems(parts: Pick<AdminParts, 'signInRecords' | 'relay' | 'connectedApps' | 'users'>) {
  const { signInRecords, relay, connectedApps, users } = parts;

  /** Reads each name once for a page. A deleted user or token has none. */
  const createNames = (): Names => {
    const reads = new Map<string, Promise<string | undefined>>();
    const once = (key: string, load: () => Promise<string | undefined>) => {
      const reading = reads.get(key) ?? load();
      reads.set(key, reading);
      return reading;
    };
    return {
      app: (id: string) => connectedApps.apps.nameOf(id),
      user: (id: string) =>
        once(`user ${id}`, async () => {
          const user = await users.store.find(id);
          return user && (displayName(user) ?? id);
        }),
      token: (id: string) => once(`token ${id}`, async () => (await relay.tokens.find(id))?.name),
    };
  };
  const namedApp = (id: string | undefined, names: Names) => (id === undefined ? null : { id, name: names.app(id) });
  const namedUser = async (id: string | undefined, names: Names) =>
    id === undefined ? null : { id, name: (await names.user(id)) ?? null };

  const fromEntry = async (record: AuditRecord, subjectId: string, names: Names): Promise<TimelineItem> => {
    const { id, at, event, actor, target, userId, address, requestId, facts } = record;
    const app = namedApp(appOf(record) ?? (target?.kind === 'connected_app' ? target.id : undefined), names);
    const reference = event.startsWith('sign_in.') ? textOf(facts?.reference) : undefined;
    const attempt = reference === undefined ? undefined : await signInRecords.store.find(reference);
    const namedActor = await toActor(actor, names);
    const text = sentenceOf(record, {
      app: app?.name,
      service: actor.kind === 'relay_token' ? (namedActor.name ?? undefined) : undefined,
      target:
        target && target.id !== subjectId ? (target.name ?? app?.name ?? (await names.user(target.id))) : undefined,
      purpose: attempt?.purpose ?? 'unknown',
      cause: attempt && signInRecords.causeOf(attempt)?.text,
    });
    return {
      id,
      at,
      until: null,
      kind: activityOf(record),
      event,
      text,
      app,
      calls: null,
      actor: namedActor,
      user: await namedUser(userId ?? (actor.kind === 'user' ? actor.id : undefined), names),
      address: address ?? null,
      signInId: attempt?.id ?? null,
      details: detailsOf({ ...facts, requestId }),
    };
  };

  /** Returns the actor with the name at the time of the entry, if the entry contains it. */
  const toActor = async ({ kind, id, name }: AuditRecord['actor'], names: Names) => {
    const isUser = kind === 'user' || kind === 'administrator';
    const page = isUser ? 'users' : kind === 'relay_token' ? 'relay-tokens' : undefined;
    const nameOf = isUser ? names.user : page ? names.token : names.app;
    const currentName = id === undefined ? undefined : await nameOf(id);
    const path = id && page && currentName ? `/admin/${page}/${encodeURIComponent(id)}` : null;
    return { kind, id: id ?? null, name: name ?? currentName ?? null, path };
  };

  const fromAttempt = async (record: SignInRecord, names: Names): Promise<TimelineItem> => {
    const { id, startedAt, outcome, purpose, userId, email, presumed, address, browser } = record;
    const cause = signInRecords.causeOf(record);
    const app = { id: record.app, name: names.app(record.app) };
    return {
      id: `sign-in ${id}`,
      at: isoTime(startedAt),
      until: null,
      kind: 'sign_ins',
      event: outcome === undefined ? 'sign_in.open' : `sign_in.${outcome === 'refused' ? 'refused' : 'failed'}`,
      text: attemptSentence(app.name, { purpose, cause: cause?.text, ended: outcome !== undefined }),
      actor: await toActor(
        { kind: userId === undefined ? 'anonymous' : 'user', id: userId, name: displayName(record) },
        names,
      ),
      user: userId === undefined ? null : await namedUser(userId, names),
      app,
      address: address ?? null,
      calls: null,
      signInId: id,
      details: detailsOf({ browser, ...(presumed && { email: `${email} (not proven)` }) }),
    };
  };

  const fromCalls = async (calls: Calls, subjectId: string, names: Names): Promise<TimelineItem> => {
    const { at, refused, token, count, parts: outcomes } = calls;
    const app = namedApp(calls.app, names);
    const service = token === undefined ? undefined : ((await names.token(token)) ?? `Relay token ${token}`);
    const isToken = token === undefined;
    return {
      id: ['calls', isoTime(at).slice(0, 13), refused ? 'refused' : 'made', token, calls.app].filter(Boolean).join(' '),
      at: isoTime(at),
      until: isoTime(at + HOUR_MS),
      kind: refused ? 'refusals' : 'relay',
      event: refused ? 'relay.calls_refused' : 'relay.calls',
      text: callsSentence(calls, { service, app: app?.name ?? (isToken ? undefined : appOfPage(subjectId, names)) }),
      actor: await toActor({ kind: 'relay_token', id: token ?? subjectId, name: service }, names),
      user: null,
      app,
      address: null,
      calls: count,
      signInId: null,
      details: detailsOf({ calls: outcomes.join('; ') }),
    };
  };

  const appOfPage = (subjectId: string, names: Names) =>
    connectedApps.apps.find(subjectId) ? names.app(subjectId) : undefined;

  /** Converts records to items. @param subjectId the id of the user, app or token of the timeline */
  return async (records: readonly TimelineRecord[], subjectId: string): Promise<TimelineItem[]> => {
    const names = createNames();
    return Promise.all(
      records.map((record) => {
        if ('entry' in record) return fromEntry(record.entry, subjectId, names);
        return 'attempt' in record ? fromAttempt(record.attempt, names) : fromCalls(record.calls, subjectId, names);
      }),
    );
  };
}

/** Facts that the details omit: the sentence or its link has them, or they are internal. */
const IN_SENTENCE = new Set(['scopes', 'reference', 'repeated', 'onceAnHour']);

function detailsOf(facts: Readonly<Record<string, unknown>>): Record<string, string> {
  const texts = Object.entries(facts).map(([name, value]) => [name, IN_SENTENCE.has(name) ? undefined : textOf(value)]);
  return Object.fromEntries(texts.filter(([, text]) => text !== undefined && text !== ''));
}
