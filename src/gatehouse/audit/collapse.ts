/** Collapses entries that a caller can cause at any rate: a few per minute are stored, and one that counts the rest (R54, R94). */
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
]);

/** @param keep stores an entry. `at`: when it happened, in milliseconds since the epoch */
export function createCollapse(clock: () => number, keep: (entry: AuditEntry, at: number) => void) {
  const groups = new Map<string, { passed: number; times: number; keepLast?: (times: number) => void }>();
  let minute = 0;
  let timer: NodeJS.Timeout | undefined;

  /** Stores the counts so far. */
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    for (const { times, keepLast } of groups.values()) keepLast?.(times);
    groups.clear();
  };

  return {
    flush,
    note(entry: AuditEntry) {
      const at = clock();
      const group = groupOf(entry);
      if (!group) return keep(entry, at);
      const now = Math.floor(at / MINUTE_MS);
      if (now !== minute) flush();
      minute = now;
      const counted = groups.get(group.name) ?? { passed: 0, times: 0 };
      groups.set(group.name, counted);
      if (counted.passed < group.max) {
        counted.passed += 1;
        return keep(entry, at);
      }
      counted.times += 1;
      // In the async context of its request, as every other entry.
      counted.keepLast = AsyncLocalStorage.bind((times: number) =>
        keep({ ...entry, facts: { ...entry.facts, times } }, at),
      );
      timer ??= setTimeout(flush, MINUTE_MS - (at % MINUTE_MS)).unref();
    },
  };
}

function groupOf({
  event,
  actor,
  target,
  userId,
  outcome,
  facts,
}: AuditEntry): { name: string; max: number } | undefined {
  if (actor.kind === 'anonymous') return { name: `anonymous ${event}`, max: MAX_ANONYMOUS };
  if (!REPEATED.has(event)) return undefined;
  return { name: [event, actor.kind, actor.id, target?.id, userId, outcome, facts?.resource].join(' '), max: 1 };
}
