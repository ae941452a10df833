/** Entries of the audit trail for the page, with names of users and apps instead of ids. */
import { AUDIT_EVENTS, type AuditRecord } from '../../audit/kinds.ts';
import { failedWords } from '../../audit/outcome.ts';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import type { UserStore } from '../../users/user-store.ts';
import { displayName } from '../users/view.ts';

const ACTORS: Record<AuditRecord['actor']['kind'], string> = {
  user: 'A user',
  administrator: 'An administrator',
  admin_token: 'An admin token',
  relay_token: 'A relay token',
  provider: 'An identity provider',
  operator: 'An operator at the terminal',
  system: 'Gatehouse itself',
  anonymous: 'Not signed in',
};

const EXPECTED_OUTCOMES = new Set<AuditRecord['outcome']>([
  ...(['signed_in', 'connected', 'succeeded', 'passed'] as const),
  ...(['ended', 'revoked', 'confirmed'] as const),
]);

export interface AuditRow {
  /** The time as ISO 8601. */
  at: string;
  /** The event in words. */
  words: string;
  actorName: string;
  actorId: string | undefined;
  targetName: string | undefined;
  targetId: string | undefined;
  /** The user concerned, unless that is the actor or the target. */
  user: { id: string; name: string } | undefined;
  from: string | undefined;
  outcome: string | undefined;
  code: string | undefined;
  /** The outcome with its reason, unless it is the expected one. */
  remark: string | undefined;
  requestId: string | undefined;
  facts: readonly (readonly [name: string, value: string])[];
}

export async function auditRows(
  records: readonly AuditRecord[],
  { users, apps }: { users: Pick<UserStore, 'find'>; apps: Pick<CurrentApps, 'nameOf'> },
): Promise<AuditRow[]> {
  const ids = new Set(records.flatMap(({ userId, target, actor }) => [userId, target && userOf(target), actor.id]));
  const usersById = await Promise.all([...ids].map(async (id) => [id, id && (await users.find(id))] as const));
  const names = new Map(usersById.flatMap(([id, user]) => (id && user ? [[id, displayName(user) ?? id]] : [])));
  return records.map((record) => rowOf(record, (id) => names.get(id), apps.nameOf));
}

type NameOf = (id: string) => string | undefined;
type Target = NonNullable<AuditRecord['target']>;

/** Returns the user of a target. The id of a connection is `USER/APP`, and the id of a session is `USER.REST`. */
function userOf({ kind, id }: Target): string | undefined {
  if (kind === 'connection') return id.split('/')[0];
  if (kind === 'session') return id.split('.')[0];
  return kind === 'user' ? id : undefined;
}

function rowOf(record: AuditRecord, userName: NameOf, appName: CurrentApps['nameOf']): AuditRow {
  const { at, event, actor, target, userId, address, outcome, code, requestId, facts } = record;
  const isNamedAlready = userId === undefined || actor.id === userId || target?.id.startsWith(userId) === true;
  return {
    at,
    words: AUDIT_EVENTS[event] ?? event,
    actorName: (actor.id && userName(actor.id)) || (actor.name ?? actor.id ?? ACTORS[actor.kind]),
    actorId: actor.id,
    targetName: target && nameOf(target, userName, appName),
    targetId: target?.id,
    user: isNamedAlready || userId === undefined ? undefined : { id: userId, name: userName(userId) ?? userId },
    from: address,
    outcome,
    code,
    remark: remarkOf(record),
    requestId,
    facts: Object.entries(facts ?? {}).map(([name, value]): [string, string] => [
      name,
      Array.isArray(value) ? value.join(', ') : String(value),
    ]),
  };
}

function remarkOf(record: AuditRecord): string | undefined {
  const { outcome, code, facts } = record;
  if (outcome === undefined || EXPECTED_OUTCOMES.has(outcome)) return undefined;
  const rule = facts?.rule;
  return failedWords(record) ?? code ?? (rule === undefined ? outcome : `rule ${rule}`);
}

function nameOf(target: Target, userName: NameOf, appName: CurrentApps['nameOf']): string {
  const { kind, id, name } = target;
  if (name !== undefined) return name;
  const user = userOf(target);
  const nameOfUser = user === undefined ? undefined : userName(user);
  if (kind === 'connection') {
    const app = id.slice(id.indexOf('/') + 1);
    return `${nameOfUser ?? user}, ${appName(app)}`;
  }
  return nameOfUser ?? (kind === 'connected_app' ? appName(id) : undefined) ?? id;
}
