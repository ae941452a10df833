/** The events of the audit trail with their words, and the shape of an entry. */
import { keys } from '../../shared/storage/keys.ts';
import type { Outcome } from './outcome.ts';

/** Each event with its words on the page. The prefix names the resource. */
export const AUDIT_EVENTS = {
  'sign_in.succeeded': 'Signed in',
  'sign_in.refused': 'Sign-in refused',
  'sign_in.failed': 'Sign-in failed',
  'session.signed_out': 'Signed out',
  'session.ended': 'Session ended',
  'session.ended_everywhere': 'Signed out everywhere',
  'session.all_ended': 'All sessions of all users ended',
  'session.ended_by_provider': 'Sessions ended by the provider',
  'session.end_refused': 'Sign-out by the provider refused',
  'user.disabled': 'User disabled',
  'user.enabled': 'User enabled',
  'user.deletion_started': 'Deletion of a user started',
  'user.deleted': 'All data about a user deleted',
  'connection.created': 'Connection created',
  'connection.imported': 'Connection imported',
  'connection.recovered': 'Connection recovered',
  'connection.reconnect_needed': 'Reconnect needed',
  'connection.removed': 'Connection removed',
  'connection.all_removed': 'All users disconnected from an app',
  'connect_link.created': 'Connect link created',
  'connect_link.used': 'Connect link used',
  'connect_link.revoked': 'Connect link revoked',
  'revocation.pending': 'Revocation waits for the provider',
  'revocation.confirmed': 'Revocation confirmed by the provider',
  'revocation.abandoned': 'Revocation abandoned',
  'refresh.failed': 'Refresh failed',
  'connected_app.created': 'Connected app created',
  'connected_app.changed': 'Connected app changed',
  'connected_app.secret_replaced': 'Client secret replaced',
  'connected_app.disabled': 'Connected app disabled',
  'connected_app.enabled': 'Connected app enabled',
  'connected_app.deleted': 'Connected app deleted',
  'connected_app.reconnect_needed': 'Reconnects needed: the app has moved',
  'connected_app.checked': 'Connected app checked',
  'connected_app.registered': 'Registration at the provider started',
  'connected_app.deregistered': 'Registration at the provider deleted',
  'relay_token.created': 'Relay token created',
  'relay_token.changed': 'Relay token changed',
  'relay_token.rotated': 'Relay token rotated',
  'relay_token.revoked': 'Relay token revoked',
  'relay_token.exchanged': 'Access token issued to a service',
  'relay.used': 'Relay used by a service',
  'relay.refused': 'Relay call refused',
  'service_account.created': 'Service account created',
  'service_account.changed': 'Service account changed',
  'service_account.deleted': 'Service account deleted',
  'admin_token.created': 'Admin token created',
  'admin_token.revoked': 'Admin token revoked',
  'admin.refused': 'Administration refused',
  'admin.stepped_up': 'Stronger sign-in for administration',
  'webhook.created': 'Webhook created',
  'webhook.changed': 'Webhook changed',
  'webhook.deleted': 'Webhook deleted',
  'webhook.rotated': 'Webhook secret rotated',
  'webhook.tested': 'Test message sent to a webhook',
  'webhook.message_resent': 'Webhook message resent',
  'webhook.failed': 'Webhook message failed',
  'bin_dataset.uploaded': 'BIN data set uploaded',
  'bin_dataset.discarded': 'Uploaded BIN data set discarded',
  'bin_dataset.imported': 'BIN data set imported',
  'bin_dataset.rolled_back': 'BIN data set rolled back',
  'encryption_key.rotation_started': 'Encryption of all records with a new key started',
  'encryption_key.rotated': 'Records encrypted with the new key',
  'signing_key.rotated': 'Next signing key published',
  'encryption_key.forgotten': 'Encryption key forgotten',
  'storage.found_empty': 'Storage found empty',
  'storage.refused': 'Storage refused by a running process',
  'storage.backed_up': 'Backup created',
  'storage.restored': 'Storage restored from a backup',
  'storage.moved': 'Storage moved to another place',
  'setup.step_dismissed': 'Step of the setup dismissed',
  'settings.reloaded': 'Secrets and apps reloaded from their files',
  'audit.exported': 'Audit trail exported',
  'list.exported': 'List exported',
} as const;

export type AuditEvent = keyof typeof AUDIT_EVENTS;

/**
 * The events after which a record must not work again: its key by the id of the target, and the path of its resource in
 * the admin API.
 */
export const DELETIONS = {
  'connect_link.revoked': { key: keys.connectLink, path: 'connect-links' },
  'connect_link.used': { key: keys.connectLink, path: 'connect-links' },
  'connected_app.deleted': { key: keys.connectedApp, path: 'connected-apps' },
  'relay_token.revoked': { key: keys.relayToken, path: 'relay-tokens' },
  'service_account.deleted': { key: keys.serviceAccount, path: 'service-accounts' },
  'webhook.deleted': { key: keys.webhook, path: 'webhooks' },
} satisfies Partial<Record<AuditEvent, { key: (id: string) => string; path: string }>>;

/**
 * Events of everyday use by users, services and providers. They have a separate limit, so that they evict no changes
 * (R94).
 */
const EVERYDAY =
  /^(?:sign_in|session|connection|connect_link|refresh|revocation|relay)\.|^(?:relay_token\.exchanged|webhook\.failed)$/;

/** Events that change nothing, even if an administrator causes them; a read-only admin token may cause them. */
const NO_CHANGES = new Set<AuditEvent>([
  'admin.refused',
  'admin.stepped_up',
  'audit.exported',
  'list.exported',
  'connected_app.checked',
  'webhook.tested',
  'webhook.message_resent',
]);

/** True for a change of settings, users or keys, and for every action of an administrator except reading. */
export function isChange({ event, actor }: AuditEntry): boolean {
  return !NO_CHANGES.has(event) && (isAdministrator(actor) || !EVERYDAY.test(event));
}

const ADMINISTRATORS = new Set<AuditActor['kind']>(['administrator', 'admin_token', 'operator']);

export const isAdministrator = ({ kind }: AuditActor): boolean => ADMINISTRATORS.has(kind);

/** The actor of an event. `anonymous`: not signed in. `operator`: on the command line. */
export interface AuditActor {
  kind: 'user' | 'administrator' | 'admin_token' | 'relay_token' | 'provider' | 'operator' | 'system' | 'anonymous';
  id?: string | undefined;
  name?: string | undefined;
}

/** The object of an event. `kind`: the resource, such as `connected_app`. */
interface AuditTarget {
  kind: string;
  id: string;
  name?: string | undefined;
}

export type AuditFact = string | number | boolean | null | readonly string[];

/** An event with its facts. No field holds a token, a secret, a URL with a query or a card number. */
export interface AuditEntry extends Outcome {
  event: AuditEvent;
  actor: AuditActor;
  target?: AuditTarget | undefined;
  /** The user concerned, if this is neither the actor nor the target. */
  userId?: string | undefined;
  /** The caller's IP address. */
  address?: string | undefined;
  requestId?: string | undefined;
  facts?: Readonly<Record<string, AuditFact | undefined>> | undefined;
}

/** A stored entry. */
export interface AuditRecord extends AuditEntry {
  id: string;
  /** ISO 8601, UTC. */
  at: string;
}

export const isAuditEvent = (text: string): text is AuditEvent => Object.hasOwn(AUDIT_EVENTS, text);
