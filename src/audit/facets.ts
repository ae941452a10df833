/** The indexes of the audit trail: one for each event, for each actor and for each user or app that an entry is about. Pure. */
import { keys } from '../storage/keys.ts';
import { type AuditEntry, isChange } from './kinds.ts';

/** Names and ids match as a whole, in upper or lower case. */
export interface AuditFilter {
  event?: string | undefined;
  /** Id, name or e-mail address of the actor. */
  who?: string | undefined;
  /** Id or name of the target or of the user concerned. */
  whom?: string | undefined;
  /** Milliseconds since the epoch; both ends are included. */
  from?: number | undefined;
  to?: number | undefined;
  /** Any text in the entry. */
  text?: string | undefined;
}

const folded = (text: string) => text.trim().toLowerCase();

export const ALL_ENTRIES = keys.auditIndex('all', '');
export const CHANGES = keys.auditIndex('changes', '');
export const OTHERS = keys.auditIndex('others', '');

const indexOf = {
  event: (event: string) => keys.auditIndex('event', event),
  who: (who: string) => keys.auditIndex('who', folded(who)),
  whom: (whom: string) => keys.auditIndex('whom', folded(whom)),
};

/** Every index that lists the entry. */
export function indexesOf(entry: AuditEntry): string[] {
  return [
    ...new Set([
      ALL_ENTRIES,
      isChange(entry) ? CHANGES : OTHERS,
      indexOf.event(entry.event),
      ...whoOf(entry).map(indexOf.who),
      ...whomOf(entry).map(indexOf.whom),
    ]),
  ];
}

/** The indexes that each list all matching entries: one for each facet of the filter, or the index of all entries. */
export function indexesFor({ event, who, whom }: AuditFilter): string[] {
  const named = [event && indexOf.event(event), who && indexOf.who(who), whom && indexOf.whom(whom)];
  const indexes = named.filter(isGiven);
  return indexes.length === 0 ? [ALL_ENTRIES] : indexes;
}

export function matches(entry: AuditEntry, { event, who, whom }: AuditFilter): boolean {
  return (
    (!event || entry.event === event) &&
    (!who || whoOf(entry).some((name) => folded(name) === folded(who))) &&
    (!whom || whomOf(entry).some((name) => folded(name) === folded(whom)))
  );
}

function whoOf({ actor }: AuditEntry): string[] {
  return [actor.id, actor.name].filter(isGiven);
}

function whomOf({ target, userId }: AuditEntry): string[] {
  return [target?.id, target?.name, userId].filter(isGiven);
}

function isGiven(text: string | undefined): text is string {
  return text !== undefined && text !== '';
}
