/** The items of a timeline with the names of users, apps and services, for JSON and pages. */
import { HOUR_MS, isoTime } from '../../../shared/time.ts';
import { activityOf, appOf } from '../../audit/activity.ts';
import type { AuditRecord } from '../../audit/kinds.ts';
import type { SignInRecord } from '../../sign-in-record/attempt.ts';
import type { AdminParts } from '../parts.ts';
import { displayName } from '../users/view.ts';
import { type Calls, callsSentence } from './calls.ts';
import { attemptSentence, sentenceOf, textOf } from './sentences.ts';
import type { TimelineItem } from './view.ts';

/** One of three kinds of items, before names are added. */
export type Found = { entry: AuditRecord } | { attempt: SignInRecord } | { calls: Calls };

interface Names {
  app(id: string): string;
  user(id: string): Promise<string | undefined>;
  token(id: string): Promise<string | undefined>;
}

export function createTimelineItems(parts: Pick<AdminParts, 'signInRecords' | 'relay' | 'connectedApps' | 'users'>) {
  const { signInRecords, relay, connectedApps, users } = parts;

  /** Each name is read once for a page; undefined for a user or token that is gone. */
  const createNames = (): Names => {
    const read = new Map<string, Promise<string | undefined>>();
    const once = (key: string, load: () => Promise<string | undefined>) => {
      const reading = read.get(key) ?? load();
      read.set(key, reading);
      return reading;
    };
    return {
      app: (id: string) => connectedApps.apps.find(id)?.name ?? id,
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

  const fromEntry = async (record: AuditRecord, about: string, names: Names): Promise<TimelineItem> => {
    const { id, at, event, actor, target, userId, address, requestId, facts } = record;
    const app = namedApp(appOf(record) ?? (target?.kind === 'connected_app' ? target.id : undefined), names);
    const signIn = event.startsWith('sign_in.') ? textOf(facts?.reference) : undefined;
    const attempt = signIn === undefined ? undefined : await signInRecords.store.find(signIn);
    const namedActor = await toActor(actor, names);
    const text = sentenceOf(record, {
      app: app?.name,
      service: actor.kind === 'relay_token' ? (namedActor.name ?? undefined) : undefined,
      target: target && target.id !== about ? (target.name ?? app?.name ?? (await names.user(target.id))) : undefined,
      purpose: attempt?.purpose ?? 'unknown',
      cause: attempt && signInRecords.causeOf(attempt)?.words,
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
      signIn: attempt && signIn ? signIn : null,
      details: detailsOf({ ...facts, requestId }),
    };
  };

  /** With the name that it had at the time, if that is known. */
  const toActor = async ({ kind, id, name }: AuditRecord['actor'], names: Names) => {
    const isUser = kind === 'user' || kind === 'administrator';
    const page = isUser ? 'users' : kind === 'relay_token' ? 'relay-tokens' : undefined;
    const nameOf = isUser ? names.user : page ? names.token : names.app;
    const present = id === undefined ? undefined : await nameOf(id);
    const path = id && page && present ? `/admin/${page}/${encodeURIComponent(id)}` : null;
    return { kind, id: id ?? null, name: name ?? present ?? null, path };
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
      text: attemptSentence(app.name, { purpose, cause: cause?.words, ended: outcome !== undefined }),
      actor: await toActor(
        { kind: userId === undefined ? 'anonymous' : 'user', id: userId, name: displayName(record) },
        names,
      ),
      user: userId === undefined ? null : await namedUser(userId, names),
      app,
      address: address ?? null,
      calls: null,
      signIn: id,
      details: detailsOf({ browser, ...(presumed && { email: `${email} (not proven)` }) }),
    };
  };

  const fromCalls = async (calls: Calls, about: string, names: Names): Promise<TimelineItem> => {
    const { at, refused, token, count, parts: ended } = calls;
    const app = namedApp(calls.app, names);
    const service = token === undefined ? undefined : ((await names.token(token)) ?? `Relay token ${token}`);
    const isToken = token === undefined;
    return {
      id: ['calls', isoTime(at).slice(0, 13), refused ? 'refused' : 'made', token, calls.app].filter(Boolean).join(' '),
      at: isoTime(at),
      until: isoTime(at + HOUR_MS),
      kind: refused ? 'refusals' : 'relay',
      event: refused ? 'relay.calls_refused' : 'relay.calls',
      text: callsSentence(calls, { service, app: app?.name ?? (isToken ? undefined : appOfPage(about, names)) }),
      actor: await toActor({ kind: 'relay_token', id: token ?? about, name: service }, names),
      user: null,
      app,
      address: null,
      calls: count,
      signIn: null,
      details: detailsOf({ calls: ended.join('; ') }),
    };
  };

  const appOfPage = (about: string, names: Names) => (connectedApps.apps.find(about) ? names.app(about) : undefined);

  /** @param about the id of the user, app or token whose timeline it is */
  return async (found: readonly Found[], about: string): Promise<TimelineItem[]> => {
    const names = createNames();
    return Promise.all(
      found.map((one) => {
        if ('entry' in one) return fromEntry(one.entry, about, names);
        return 'attempt' in one ? fromAttempt(one.attempt, names) : fromCalls(one.calls, about, names);
      }),
    );
  };
}

/** Facts that the sentence says already. */
const SAID = new Set(['scopes', 'reference', 'again', 'onceAnHour']);

function detailsOf(facts: Readonly<Record<string, unknown>>): Record<string, string> {
  const texts = Object.entries(facts).map(([name, value]) => [name, SAID.has(name) ? undefined : textOf(value)]);
  return Object.fromEntries(texts.filter(([, text]) => text !== undefined && text !== ''));
}
