/** Finds sign-ins, error pages and audit entries by a reference, and sign-ins by an e-mail address. */
import { AUDIT_EVENTS, type AuditRecord } from '../../audit/kinds.ts';
import type { SignInRecord } from '../../sign-in-record/attempt.ts';
import type { AdminParts } from '../parts.ts';
import { shownReference } from '../sign-ins/view.ts';
import { type Find, isAddress, MAX_RESULTS, type SearchResult } from './finder.ts';

/** Limits the time for searching audit entries, newest first. The page of the audit trail searches further back. */
const AUDIT_SEARCH_MS = 20;

const REFERENCE = /^[0-9a-f]{8}$/i;
/** The end of a request id is the reference of the request. */
const REQUEST_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Returns the reference in a text that is a reference or a request id. */
export const referenceIn = (q: string) => (REQUEST_ID.test(q) ? q.slice(-8) : REFERENCE.test(q) ? q : undefined);

export function findersByReference(
  parts: Pick<AdminParts, 'users' | 'connectedApps' | 'signInRecords' | 'references' | 'audit'>,
): { findSignIns: Find; findAuditEntries: Find } {
  const { users, connectedApps, signInRecords, references, audit } = parts;
  const { apps } = connectedApps;

  const signInResult = (record: SignInRecord, exact: boolean): SearchResult => {
    const { id, app, email, name } = record;
    const detail = email ?? name ?? apps.nameOf(app);
    return {
      id,
      name: `Sign-in ${shownReference(record)}`,
      detail,
      path: `/admin/sign-ins/${encodeURIComponent(id)}`,
      exact,
    };
  };

  /** Finds a sign-in or an error by reference, or sign-ins by an e-mail address that no user has. */
  const findSignIns: Find = async (q) => {
    if (isAddress(q)) {
      const [matchingUsers, { items }] = await Promise.all([
        users.store.search({ q, after: undefined, limit: 1 }),
        signInRecords.store.page({ user: q, limit: MAX_RESULTS + 1 }),
      ]);
      return matchingUsers.items.length > 0 ? [] : items.map((record) => signInResult(record, false));
    }
    const reference = referenceIn(q);
    if (reference === undefined) return [];
    const record = await signInRecords.store.find(reference);
    if (record) return [signInResult(record, true)];
    const problem = await references.find(reference);
    if (!problem) return [];
    const path = `/admin/sign-ins?q=${encodeURIComponent(problem.reference)}`;
    return [{ id: problem.reference, name: `Error ${problem.reference}`, detail: problem.code, path, exact: true }];
  };

  const auditResult = ({ id, at, event, actor, target }: AuditRecord, exact: boolean): SearchResult => {
    const instant = encodeURIComponent(at);
    const detail = [actor.name ?? actor.id, target?.name ?? target?.id]
      .filter((text) => text !== undefined)
      .join(' · ');
    const path = `/admin/audit?from=${instant}&to=${instant}`;
    return { id, name: AUDIT_EVENTS[event] ?? event, detail, path, exact };
  };

  const findAuditEntries: Find = async (q) => {
    const entry = await audit.trail.find(q);
    if (entry) return [auditResult(entry, true)];
    const reference = referenceIn(q);
    // A sign-in or an error page has more details than the audit entries of the same request.
    if (reference === undefined || (await findSignIns(reference)).length > 0) return [];
    const { items } = await audit.trail.page({
      limit: MAX_RESULTS + 1,
      filter: { text: reference },
      searchMs: AUDIT_SEARCH_MS,
    });
    return items.map((record) => auditResult(record, items.length === 1));
  };

  return { findSignIns, findAuditEntries };
}
