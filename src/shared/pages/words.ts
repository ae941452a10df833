/** Texts for users in place of codes: health, scopes, sources, events. `problem-texts.ts` has the texts of problems. */
import { capitalised } from '../text.ts';
import type { BinSource, ConnectionHealth, DisconnectOutcome } from './page-data.ts';

export type Tone = 'good' | 'notice' | 'bad' | 'idle';

export interface HealthText {
  label: string;
  meaning: string;
  tone: Tone;
  icon: 'check' | 'clock' | 'question' | 'warning' | 'unlinked';
}

const HEALTH_TEXTS: Readonly<Record<ConnectionHealth | 'not_connected', HealthText>> = {
  active: { label: 'Active', meaning: 'The connection works.', tone: 'good', icon: 'check' },
  expiring: {
    label: 'Expiring',
    meaning: 'The connection still works, but the provider will end it soon. Reconnect now to keep it.',
    tone: 'notice',
    icon: 'clock',
  },
  unverified: {
    label: 'Unverified',
    meaning:
      'The last renewal was interrupted, so we do not know whether the connection still works. The next use will tell; or reconnect now.',
    tone: 'notice',
    icon: 'question',
  },
  reconnect_needed: {
    label: 'Reconnect needed',
    meaning: 'The provider no longer accepts the connection. Reconnect to use it again.',
    tone: 'bad',
    icon: 'warning',
  },
  not_connected: {
    label: 'Not connected',
    meaning: 'Your account is not connected.',
    tone: 'idle',
    icon: 'unlinked',
  },
};

const SCOPE_TEXTS: ReadonlyMap<string, string> = new Map([
  ['openid', 'Know who you are when you sign in'],
  ['profile', 'See your name and the other public parts of your profile'],
  ['email', 'See your e-mail address'],
  ['offline_access', 'Stay connected while you are away, until you disconnect'],
  ['platform_read_only', 'Read what you can read on the platform, and change nothing'],
  ['platform_full_access', 'Read and change everything that you can on the platform'],
]);

const SOURCE_TEXTS: Readonly<Record<BinSource, string>> = {
  dataset: 'Our own data set',
  service: 'BIN lookup service, just now',
  cache: 'BIN lookup service, earlier',
  rules: 'Only the numbering rules of the card network',
};

const DISCONNECT_TEXTS: Readonly<Record<DisconnectOutcome, { tone: 'success' | 'info' | 'warning'; text: string }>> = {
  revoked: {
    tone: 'success',
    text: 'Disconnected. The provider has confirmed that our access is withdrawn, and we have deleted the tokens.',
  },
  unsupported: {
    tone: 'info',
    text: 'Disconnected. We have deleted the tokens. This provider has no way to withdraw access from here, so remove it in your account there as well.',
  },
  pending: {
    tone: 'warning',
    text: 'Disconnected here: we no longer use this access. The provider has not confirmed yet that it is withdrawn there. We ask again for 7 days.',
  },
  unconfirmed: {
    tone: 'warning',
    text: 'Disconnected. We have deleted the tokens, but the provider did not confirm that it is withdrawn. To be certain, remove it in your account there as well.',
  },
};

const WEBHOOK_EVENT_TEXTS: ReadonlyMap<string, string> = new Map([
  ['connection.created', 'Connection created'],
  ['connection.reconnect_needed', 'Reconnect needed'],
  ['connection.recovered', 'Connection works again'],
  ['connection.removed', 'Connection removed'],
  ['connection.scopes_missing', 'Connection lacks scopes'],
  ['webhook.test', 'Test message'],
]);

/** The values of health, from the best to the worst. */
export const HEALTHS: readonly ConnectionHealth[] = ['active', 'expiring', 'unverified', 'reconnect_needed'];
export const healthText = (health: ConnectionHealth | 'not_connected'): HealthText => HEALTH_TEXTS[health];
export const sourceText = (source: BinSource): string => SOURCE_TEXTS[source];
export const disconnectText = (outcome: DisconnectOutcome) => DISCONNECT_TEXTS[outcome];

/** Returns the text of a scope; undefined for a scope that only its provider knows. */
export const scopeText = (scope: string): string | undefined => SCOPE_TEXTS.get(scope);
/** Returns the text of an attempt to deliver: the status of the response, or the reason why there was none. */
export const webhookAttemptText = (attempt: { status?: number | null; error?: string | null | undefined }): string => {
  const { status, error } = attempt;
  if (typeof status === 'number') return String(status);
  // A reason that begins with a host name stays as it is.
  return /^[a-z]+ /.test(error ?? '') ? capitalised(error ?? '') : (error ?? '');
};
export const webhookEventText = (event: string): string => WEBHOOK_EVENT_TEXTS.get(event) ?? event;
