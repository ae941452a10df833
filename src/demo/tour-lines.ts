/** What the tour shows of calls to the sandbox and of the audit trail. Pure. */
import { AUDIT_EVENTS, type AuditEvent } from '../gatehouse/audit/kinds.ts';
import type { Hit } from '../sandbox/hits.ts';

export interface Line {
  /** Milliseconds since the epoch. */
  at: number;
  who: string;
  words: string;
}

/** Milliseconds since the epoch. */
export interface Interval {
  from: number;
  to: number;
}

/**
 * Calls by Gatehouse: neither those of browsers, nor of the platform, which checks tokens at the provider. Other connections are
 * refreshed all the time, so tokens and threads are shown only during a call of the tour.
 * @param withKeys also readings of the provider's keys, which serve all connections
 */
export function linesOfHits(hits: readonly Hit[], calls: readonly Interval[], withKeys: boolean): Line[] {
  return hits.flatMap(({ on, method, path, atMs: at }) => {
    const words = `${method} ${path}`;
    const isDuringCall = calls.some(({ from, to }) => at >= from && at <= to);
    if (on === 'platform') return isDuringCall ? [{ at, who: 'Gatehouse to the platform', words }] : [];
    const isShown = (path === '/jwks' && withKeys) || (path === '/token' && isDuringCall);
    return on === 'identity-provider' && isShown ? [{ at, who: 'Gatehouse to the provider', words }] : [];
  });
}

/** Entries about one user, without those of each call. */
export function linesOfAudit(
  entries: readonly { at: string; event: AuditEvent; outcome?: string; facts?: Record<string, unknown> }[],
): Line[] {
  return entries
    .filter(({ event }) => event !== 'relay.used')
    .map(({ at, event, outcome, facts }) => {
      const words = [AUDIT_EVENTS[event], outcome, facts?.reason, facts?.cause].filter(Boolean).join(', ');
      return { at: Date.parse(at), who: 'Gatehouse notes', words };
    });
}
