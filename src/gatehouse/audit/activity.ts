/** Assigns an entry to a part of a timeline, and to a connected app. Pure. */
import { type AuditEntry, isAdministrator } from './kinds.ts';

/**
 * The parts of a timeline. `connections`: consents, and changes of a connection's health. `relay`: calls of services.
 * `changes`: actions of administrators.
 */
export const ACTIVITIES = ['sign_ins', 'connections', 'relay', 'refusals', 'changes'] as const;
export type Activity = (typeof ACTIVITIES)[number];

const REFUSALS = new Set<AuditEntry['event']>(['admin.refused', 'relay.refused', 'session.end_refused']);
const SIGN_INS = /^(?:sign_in|session)\.|^admin\.stepped_up$/;
const CONNECTIONS = /^(?:connection|connect_link|refresh|revocation)\./;
const RELAY = /^relay\.|^relay_token\.exchanged$/;

export function activityOf({ event, actor }: AuditEntry): Activity {
  if (REFUSALS.has(event)) return 'refusals';
  if (RELAY.test(event)) return 'relay';
  if (isAdministrator(actor)) return 'changes';
  if (SIGN_INS.test(event)) return 'sign_ins';
  return CONNECTIONS.test(event) ? 'connections' : 'changes';
}

/**
 * Returns the connected app that the entry is about. Returns undefined for calls of services, which would be nearly all
 * entries of an app: `relay/uses.ts` counts them.
 */
export function appOf({ event, target, facts }: AuditEntry): string | undefined {
  if (RELAY.test(event)) return undefined;
  if (target?.kind === 'connected_app') return target.id;
  if (target?.kind === 'connection') return target.id.slice(target.id.indexOf('/') + 1);
  return target?.kind === 'connect_link' && typeof facts?.app === 'string' ? facts.app : undefined;
}
