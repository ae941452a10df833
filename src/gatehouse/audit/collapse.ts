/**
 * Collapses entries that a caller can cause at any rate: stores a few per minute, and one that counts the rest (R54,
 * R94, R137).
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { callerNetwork } from '../../shared/config/networks.ts';
import { appOf } from './activity.ts';
import type { AuditEntry } from './kinds.ts';

const MINUTE_MS = 60_000;
/**
 * Per minute, event, app and process: for one relay token or provider and one result, for all anonymous callers
 * together, and for failed refreshes with one outcome and reason.
 */
const MAX_OF_CALLER = 60;
/** For one address of anonymous callers. */
const MAX_OF_ADDRESS = 20;
const REPEATED = new Set<AuditEntry['event']>([
  'admin.refused',
  'sign_in.refused',
  'session.end_refused',
  'relay_token.exchanged',
  'connect_link.created',
]);

/** Entries with one name: `max` of them are stored a minute, and `summary` with the count of the others. */
interface Rule {
  name: string;
  max: number;
  summary: AuditEntry;
}

/** @param storeEntry stores an entry. `at`: the time of its event, in milliseconds since the epoch */
export function createCollapse(clock: () => number, storeEntry: (entry: AuditEntry, at: number) => void) {
  const stored = new Map<string, number>();
  const collapsed = new Map<string, { times: number; storeSummary: (times: number) => void }>();
  let minute = 0;
  let timer: NodeJS.Timeout | undefined;

  /** Stores the collapsed entries with their counts. */
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    for (const { times, storeSummary } of collapsed.values()) storeSummary(times);
    stored.clear();
    collapsed.clear();
  };

  return {
    flush,
    note(entry: AuditEntry) {
      const at = clock();
      const rules = rulesOf(entry);
      if (rules.length === 0) return storeEntry(entry, at);
      const currentMinute = Math.floor(at / MINUTE_MS);
      if (currentMinute !== minute) flush();
      minute = currentMinute;
      const storedOf = ({ name }: Rule) => stored.get(name) ?? 0;
      const reachedRule = rules.find((rule) => storedOf(rule) >= rule.max);
      if (!reachedRule) {
        for (const rule of rules) stored.set(rule.name, storedOf(rule) + 1);
        return storeEntry(entry, at);
      }
      const { name, summary } = reachedRule;
      collapsed.set(name, {
        times: (collapsed.get(name)?.times ?? 0) + 1,
        // In the async context of its request, like every other entry.
        storeSummary: AsyncLocalStorage.bind((times: number) =>
          storeEntry({ ...summary, facts: { ...summary.facts, times } }, at),
        ),
      });
      timer ??= setTimeout(flush, MINUTE_MS - (at % MINUTE_MS)).unref();
    },
  };
}

/** Returns the rules that an entry must pass to be stored. */
function rulesOf(entry: AuditEntry): Rule[] {
  const { event, actor, target, userId, address, outcome, code, facts } = entry;
  if (actor.kind === 'anonymous') {
    const summary: AuditEntry = { event, actor: { kind: actor.kind }, target };
    const ofAll = { name: `anonymous ${event} ${target?.id}`, max: MAX_OF_CALLER, summary };
    if (address === undefined) return [ofAll];
    const ofAddress = { name: `${ofAll.name} ${callerNetwork(address)}`, max: MAX_OF_ADDRESS };
    return [ofAll, { ...ofAddress, summary: { ...summary, address } }];
  }
  // The other entries of `system` are limited by the connections, users or settings that have changed.
  if (event === 'refresh.failed') {
    const app = appOf(entry) ?? '';
    const reason = facts?.reason;
    const summary = { event, actor, target: { kind: 'connected_app', id: app }, outcome, facts: { reason } };
    return [{ name: [event, app, outcome, reason].join(' '), max: MAX_OF_CALLER, summary }];
  }
  const rules: Rule[] = [];
  // Each connect link is a target of its own.
  const isLink = event === 'connect_link.created';
  const object = isLink ? facts?.app : target?.id;
  if (REPEATED.has(event)) {
    const name = [event, actor.kind, actor.id, object, userId, outcome, code, facts?.resource].join(' ');
    rules.push({ name, max: 1, summary: entry });
  }
  // Sign-outs by a provider are limited by the sessions that they end, unless they end none.
  if (actor.kind === 'relay_token' || (actor.kind === 'provider' && facts?.sessions === 0)) {
    const { app, rule } = facts ?? {};
    const summary = { event, actor, outcome, ...(isLink ? { facts: { app } } : { target, facts: { rule } }) };
    rules.push({ name: [event, actor.kind, actor.id, object, outcome, rule].join(' '), max: MAX_OF_CALLER, summary });
  }
  return rules;
}
