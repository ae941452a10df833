/** Owns where an entry of the trail is found again: one index for each event, for each who and for each whom. Pure. */
import { keys } from '../storage/keys.ts';
import type { AuditEntry } from './kinds.ts';

/** Names and ids count as a whole and in any case. */
export interface AuditFilter {
  event?: string | undefined;
  /** Id, name or e-mail address of who did it. */
  who?: string | undefined;
  /** Id or name of what or whom it was done to. */
  whom?: string | undefined;
  /** Milliseconds since the epoch; both ends are included. */
  from?: number | undefined;
  to?: number | undefined;
  /** Anything that stands in the entry. */
  text?: string | undefined;
}

const folded = (text: string) => text.trim().toLowerCase();

const indexOf = {
  event: (event: string) => keys.auditIndex('event', event),
  who: (who: string) => keys.auditIndex('who', folded(who)),
  whom: (whom: string) => keys.auditIndex('whom', folded(whom)),
};

/** Every index that an entry stands in: that of all entries, and its facets. */
export function indexesOf(entry: AuditEntry): string[] {
  return [
    ...new Set([
      keys.auditIndex('all', ''),
      indexOf.event(entry.event),
      ...whoOf(entry).map(indexOf.who),
      ...whomOf(entry).map(indexOf.whom),
    ]),
  ];
}

/** The indexes of which each holds all that the filter lets through; that of all entries where it names none. */
export function indexesFor({ event, who, whom }: AuditFilter): string[] {
  const named = [event && indexOf.event(event), who && indexOf.who(who), whom && indexOf.whom(whom)];
  const found = named.filter(isGiven);
  return found.length === 0 ? [keys.auditIndex('all', '')] : found;
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
