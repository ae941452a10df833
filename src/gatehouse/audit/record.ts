/** The stored form of an audit entry: every text is scrubbed and its length limited. Pure. */
import { scrubCardNumbers } from '../../shared/observability/card-numbers.ts';
import { cutText } from '../../shared/text.ts';
import { isoTime } from '../../shared/time.ts';
import { AUDIT_EVENTS, type AuditActor, type AuditEntry, type AuditFact, type AuditRecord } from './kinds.ts';

const MAX_TEXT_LENGTH = 500;
const MAX_FACTS = 20;
const MAX_FACT_ITEMS = 50;

/** Control characters (such as CR, LF and ANSI escapes), line separators, and marks that change the text direction. */
const HARMFUL = /[\p{Cc}\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** Makes a text safe for a log line, a terminal and a page. */
function harmless(text: string): string {
  return cutText(text.replace(HARMFUL, '\ufffd').toWellFormed(), MAX_TEXT_LENGTH);
}

export function cleanEntry(entry: AuditEntry): AuditEntry {
  const clean = (text: string) => harmless(scrubCardNumbers(text));
  const { event, actor, target, userId, address, requestId, outcome, code, facts } = entry;
  return {
    event,
    actor: cleanFields(actor, clean),
    target: target && cleanFields(target, clean),
    userId: userId && clean(userId),
    address: address && clean(address),
    requestId: requestId && clean(requestId),
    outcome,
    code,
    facts: facts && cleanFacts(facts, clean),
  };
}

export function decodeEntry({ id, at, entry }: { id: string; at: number; entry: string }): AuditRecord {
  return recordOf(id, at, JSON.parse(entry) as AuditEntry);
}

/**
 * Shortens the id of a Redis entry, which begins with as many digits as a card number and would be scrubbed in logs
 * (R86).
 */
export function recordOf(id: string, at: number, entry: AuditEntry): AuditRecord {
  const shortId = id.replace(/^\d{12,}/, (digits) => Number(digits).toString(36));
  return { id: shortId, at: isoTime(at), ...entry };
}

/** The id of the stored entry, from the id of its record. */
export function storedIdOf(id: string): string {
  return id.replace(/^[0-9a-z]{8,9}(?=-\d+$)/, (digits) => String(Number.parseInt(digits, 36)));
}

/** The text that a search covers, in lower case. */
export function searchText(record: AuditEntry): string {
  const { event, actor, target, userId, address, requestId, outcome, code, facts } = record;
  const named = [actor.kind, actor.id, actor.name, target?.kind, target?.id, target?.name, userId, address];
  const factValues = Object.values(facts ?? {}).flat();
  return [event, AUDIT_EVENTS[event], ...named, requestId, outcome, code, ...factValues]
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
    .slice(0, MAX_FACTS)
    .map(([name, value]) => [name, cleanFact(value, clean)]);
  return cleaned.length === 0 ? undefined : Object.fromEntries(cleaned);
}

function cleanFact(value: AuditFact, clean: (text: string) => string): AuditFact {
  if (typeof value === 'string') return clean(value);
  if (typeof value !== 'object' || value === null) return value;
  return value.slice(0, MAX_FACT_ITEMS).map(clean);
}
