/**
 * The indexes of the audit trail: by event, by actor, by the user or object concerned, and by app and activity. Pure.
 */
import { keys } from '../../shared/storage/keys.ts';
import { type Activity, activityOf, appOf } from './activity.ts';
import { type AuditEntry, isChange } from './kinds.ts';

/** Ids of the users and apps whose names match the filter's texts; an entry with one of them matches too. */
export interface NamedIds {
  actor: readonly string[];
  target: readonly string[];
  text: readonly string[];
}

/** Names and ids match as a whole, in upper or lower case. */
export interface AuditFilter {
  event?: string | undefined;
  /** Id, name or e-mail address of the actor. */
  actor?: string | undefined;
  /** Id or name of the target or of the user concerned. */
  target?: string | undefined;
  /** Milliseconds since the epoch; both ends are included. */
  from?: number | undefined;
  to?: number | undefined;
  /** Any text in the entry. */
  text?: string | undefined;
  named?: NamedIds | undefined;
}

const folded = (text: string) => text.trim().toLowerCase();

export const ALL_ENTRIES = keys.auditIndex('all', '');
export const CHANGES = keys.auditIndex('changes', '');
export const OTHERS = keys.auditIndex('others', '');

const indexOf = {
  event: (event: string) => keys.auditIndex('event', event),
  actor: (actor: string) => keys.auditIndex('actor', folded(actor)),
  target: (target: string) => keys.auditIndex('target', folded(target)),
};

/** Returns the index with the entries about one connected app, for one part of its timeline. */
export const appIndex = (app: string, activity: Activity) => keys.auditIndex('app', `${app} ${activity}`);

/** Returns the indexes with the entries of one user, as actor and as the user concerned. */
export const userIndexes = (userId: string) => [indexOf.actor(userId), indexOf.target(userId)];

/** Returns the index with the entries about one object, such as a relay token. */
export const targetIndex = indexOf.target;

/** Returns every index that lists the entry. */
export function indexesOf(entry: AuditEntry): string[] {
  const app = appOf(entry);
  return [
    ...new Set([
      ALL_ENTRIES,
      isChange(entry) ? CHANGES : OTHERS,
      indexOf.event(entry.event),
      ...namesOfActor(entry).map(indexOf.actor),
      ...namesOfTarget(entry).map(indexOf.target),
      ...(app === undefined ? [] : [appIndex(app, activityOf(entry))]),
    ]),
  ];
}

/**
 * For each facet of the filter, the indexes that together list all matching entries; by default the index of all
 * entries.
 */
export function indexesFor({ event, actor, target, named }: AuditFilter): string[][] {
  const facets = [
    event ? [indexOf.event(event)] : [],
    actor ? [actor, ...(named?.actor ?? [])].map(indexOf.actor) : [],
    target ? [target, ...(named?.target ?? [])].map(indexOf.target) : [],
  ].filter((indexes) => indexes.length > 0);
  return facets.length === 0 ? [[ALL_ENTRIES]] : facets;
}

export function matches(entry: AuditEntry, { event, actor, target, named }: AuditFilter): boolean {
  return (
    (!event || entry.event === event) &&
    (!actor || isOneOf(namesOfActor(entry), [actor, ...(named?.actor ?? [])])) &&
    (!target || isOneOf(namesOfTarget(entry), [target, ...(named?.target ?? [])]))
  );
}

/** Returns true if the entry is by or about one of these users, or about one of these apps. */
export function concerns(entry: AuditEntry, ids: readonly string[]): boolean {
  const app = appOf(entry);
  return (
    ids.length > 0 &&
    isOneOf([...namesOfActor(entry), ...namesOfTarget(entry), ...(app === undefined ? [] : [app])], ids)
  );
}

function isOneOf(names: readonly string[], filterNames: readonly string[]): boolean {
  return names.some((name) => filterNames.some((filterName) => folded(filterName) === folded(name)));
}

function namesOfActor({ actor }: AuditEntry): string[] {
  return [actor.id, actor.name].filter(isNotEmpty);
}

function namesOfTarget({ target, userId }: AuditEntry): string[] {
  return [target?.id, target?.name, userId].filter(isNotEmpty);
}

function isNotEmpty(text: string | undefined): text is string {
  return text !== undefined && text !== '';
}
