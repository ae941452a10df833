/** Selects the requests to the sandbox and the audit entries that the tour shows. */
import { AUDIT_EVENTS, type AuditEvent } from '../gatehouse/audit/kinds.ts';
import type { RecordedRequest } from '../sandbox/recorded-requests.ts';

export interface Line {
  /** Milliseconds since the epoch. */
  at: number;
  source: string;
  text: string;
}

/** Milliseconds since the epoch. */
export interface Interval {
  from: number;
  to: number;
}

/**
 * Returns the requests of Gatehouse, without those of browsers and of the platform, which introspects tokens. Other
 * connections are refreshed all the time, so requests for tokens and threads are shown only during a call of the tour.
 * @param withKeys whether to include reads of the provider's keys, which serve all connections
 */
export function linesOfRequests(
  requests: readonly RecordedRequest[],
  calls: readonly Interval[],
  withKeys: boolean,
): Line[] {
  return requests.flatMap(({ listener, method, path, atMs: at }) => {
    const text = `${method} ${path}`;
    const isDuringCall = calls.some(({ from, to }) => at >= from && at <= to);
    if (listener === 'platform') return isDuringCall ? [{ at, source: 'Gatehouse to the platform', text }] : [];
    const isShown = (path === '/jwks' && withKeys) || (path === '/token' && isDuringCall);
    return listener === 'identity-provider' && isShown ? [{ at, source: 'Gatehouse to the provider', text }] : [];
  });
}

/** Returns the entries about one user, except those about single relay calls. */
export function linesOfAudit(
  entries: readonly {
    at: string;
    event: AuditEvent;
    outcome?: string;
    code?: string;
    facts?: Record<string, unknown>;
  }[],
): Line[] {
  return entries
    .filter(({ event }) => event !== 'relay.used')
    .map(({ at, event, outcome, code, facts }) => {
      const text = [AUDIT_EVENTS[event], outcome, code, facts?.rule, facts?.reason, facts?.cause]
        .filter(Boolean)
        .join(', ');
      return { at: Date.parse(at), source: 'Gatehouse records', text };
    });
}
