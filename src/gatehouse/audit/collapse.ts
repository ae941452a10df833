/**
 * Collapses entries that a caller can cause at any rate: stores a few per minute, and one that counts the rest (R54,
 * R94).
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { AuditEntry } from './kinds.ts';

const MINUTE_MS = 60_000;
/** Per minute, event and process, for all anonymous callers together. */
const MAX_ANONYMOUS = 60;
const REPEATED = new Set<AuditEntry['event']>([
  'admin.refused',
  'sign_in.refused',
  'session.end_refused',
  'relay_token.exchanged',
  'connect_link.created',
]);

/** @param storeEntry stores an entry. `at`: the time of its event, in milliseconds since the epoch */
export function createCollapse(clock: () => number, storeEntry: (entry: AuditEntry, at: number) => void) {
  const groups = new Map<string, { stored: number; times: number; storeLast?: (times: number) => void }>();
  let minute = 0;
  let timer: NodeJS.Timeout | undefined;

  /** Stores the collapsed entries with their counts. */
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    for (const { times, storeLast } of groups.values()) storeLast?.(times);
    groups.clear();
  };

  return {
    flush,
    note(entry: AuditEntry) {
      const at = clock();
      const rule = ruleOf(entry);
      if (!rule) return storeEntry(entry, at);
      const currentMinute = Math.floor(at / MINUTE_MS);
      if (currentMinute !== minute) flush();
      minute = currentMinute;
      const group = groups.get(rule.name) ?? { stored: 0, times: 0 };
      groups.set(rule.name, group);
      if (group.stored < rule.max) {
        group.stored += 1;
        return storeEntry(entry, at);
      }
      group.times += 1;
      // In the async context of its request, like every other entry.
      group.storeLast = AsyncLocalStorage.bind((times: number) =>
        storeEntry({ ...entry, facts: { ...entry.facts, times } }, at),
      );
      timer ??= setTimeout(flush, MINUTE_MS - (at % MINUTE_MS)).unref();
    },
  };
}

/** Returns the entry's group, and how many entries of it are stored per minute; undefined if every entry is stored. */
function ruleOf({
  event,
  actor,
  target,
  userId,
  outcome,
  facts,
}: AuditEntry): { name: string; max: number } | undefined {
  if (actor.kind === 'anonymous') return { name: `anonymous ${event}`, max: MAX_ANONYMOUS };
  if (!REPEATED.has(event)) return undefined;
  // Each connect link is a target of its own.
  const object = event === 'connect_link.created' ? facts?.app : target?.id;
  return { name: [event, actor.kind, actor.id, object, userId, outcome, facts?.resource].join(' '), max: 1 };
}
