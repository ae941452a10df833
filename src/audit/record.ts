/** Owns how an entry is written and read again: every text harmless and of bounded length, nothing left empty. Pure. */
import { AUDIT_EVENTS, type AuditActor, type AuditEntry, type AuditFact, type AuditRecord } from './kinds.ts';

const MOST_CHARACTERS = 500;
const MOST_FACTS = 20;
const MOST_LISTED = 50;

/** Control characters (CR, LF and ANSI escapes among them), line separators, and marks that turn the direction of text. */
const HARMFUL = /[\p{Cc}\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** The text as it may stand in a log line, a terminal and a page. */
export function harmless(text: string): string {
  return text.replace(HARMFUL, '\ufffd').toWellFormed().slice(0, MOST_CHARACTERS);
}

/** @param scrub takes card numbers out of a text */
export function cleanEntry(entry: AuditEntry, scrub: (text: string) => string): AuditEntry {
  const clean = (text: string) => harmless(scrub(text));
  const { event, actor, target, userId, address, requestId, outcome, facts } = entry;
  return {
    event,
    actor: cleanFields(actor, clean),
    target: target && cleanFields(target, clean),
    userId: userId && clean(userId),
    address: address && clean(address),
    requestId: requestId && clean(requestId),
    outcome: outcome && clean(outcome),
    facts: facts && cleanFacts(facts, clean),
  };
}

export function decodeEntry(item: { id: string; at: number; entry: string }): AuditRecord {
  const entry = JSON.parse(item.entry) as AuditEntry;
  return { id: item.id, at: new Date(item.at).toISOString(), ...entry };
}

/** What a search by text looks through, in lower case. */
export function searchText(record: AuditEntry): string {
  const { event, actor, target, userId, address, requestId, outcome, facts } = record;
  const named = [actor.kind, actor.id, actor.name, target?.kind, target?.id, target?.name, userId, address];
  const told = Object.values(facts ?? {}).flat();
  return [event, AUDIT_EVENTS[event], ...named, requestId, outcome, ...told]
    .filter((part) => part !== undefined && part !== null)
    .join('\n')
    .toLowerCase();
}

function cleanFields<T extends AuditActor | { id: string; name?: string | undefined }>(
  value: T,
  clean: (text: string) => string,
): T {
  const { id, name } = value;
  return { ...value, id: id && clean(id), name: name && clean(name) };
}

function cleanFacts(
  facts: NonNullable<AuditEntry['facts']>,
  clean: (text: string) => string,
): Record<string, AuditFact> | undefined {
  const cleaned = Object.entries(facts)
    .filter((pair): pair is [string, AuditFact] => pair[1] !== undefined)
    .slice(0, MOST_FACTS)
    .map(([name, value]) => [name, cleanFact(value, clean)]);
  return cleaned.length === 0 ? undefined : Object.fromEntries(cleaned);
}

function cleanFact(value: AuditFact, clean: (text: string) => string): AuditFact {
  if (typeof value === 'string') return clean(value);
  if (typeof value !== 'object' || value === null) return value;
  return value.slice(0, MOST_LISTED).map(clean);
}
