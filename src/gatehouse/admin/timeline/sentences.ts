/** Describes audit entries and sign-ins as sentences in the past tense, with names instead of ids. Pure. */
import { AUDIT_EVENTS, type AuditEvent, type AuditRecord } from '../../audit/kinds.ts';
import { failedWords } from '../../audit/outcome.ts';
import { FAILURE_WORDS, type FailureCause } from '../../grants/refresh-failure.ts';
import type { SignInPurpose } from '../../sign-in-record/attempt.ts';

/** Names for the sentences. */
export interface SentenceNames {
  /** The app of the entry. */
  app: string | undefined;
  /** The relay token that acted. */
  service: string | undefined;
  /** The changed object, unless the page is about it. */
  target: string | undefined;
  /** For sign-ins. */
  purpose: SignInPurpose | 'unknown';
  /** Why a sign-in failed. */
  cause: string | undefined;
}

type Sentence = (record: AuditRecord, names: SentenceNames & { appName: string }) => string;

const verbOf = (purpose: SentenceNames['purpose'], app: string) =>
  purpose === 'connect' ? `connect ${app}` : `sign in with ${app}`;

const withReason = (words: string, reason: string | undefined) =>
  reason === undefined || reason === '' ? words : `${words}: ${reason.replace(/\.$/, '')}`;

const notSignedIn: Sentence = ({ facts }, { appName, purpose, cause }) =>
  withReason(`Could not ${verbOf(purpose, appName)}`, cause ?? textOf(facts?.reason));

/** Other events use the words of the audit trail. */
const SENTENCES: Partial<Record<AuditEvent, Sentence>> = {
  'sign_in.succeeded': (_record, { appName }) => `Signed in with ${appName}`,
  'sign_in.refused': notSignedIn,
  'sign_in.failed': notSignedIn,
  'session.ended': () => 'Ended a session',
  'session.ended_by_provider': (_record, { appName }) => `Was signed out by the provider of ${appName}`,
  'session.end_refused': (_record, { appName }) => `Refused a sign-out by the provider of ${appName}`,
  'admin.refused': ({ code }) => withReason('Was refused in the administration', code),
  'admin.stepped_up': () => 'Signed in again for the administration',
  'connection.created': ({ facts }, { appName }) => withReason(`Consented to ${appName}`, textOf(facts?.scopes)),
  'connection.imported': (_record, { appName }) => `Imported the connection to ${appName}`,
  'connection.recovered': (_record, { appName }) => `The connection to ${appName} worked again`,
  'connection.reconnect_needed': ({ facts }, { appName }) =>
    withReason(`The connection to ${appName} needs reconnecting`, failureWords(facts?.cause)),
  'connection.removed': ({ outcome }, { appName }) =>
    withReason(`Disconnected ${appName}`, outcome && REVOCATION_WORDS[outcome]),
  'connect_link.created': (_record, { appName }) => `Created a link to connect ${appName}`,
  'connect_link.used': (_record, { appName }) => `Connected ${appName} with a link`,
  'revocation.pending': (_record, { appName }) => `The provider of ${appName} did not confirm a revocation`,
  'revocation.confirmed': (_record, { appName }) => `The provider of ${appName} confirmed a revocation`,
  'revocation.abandoned': (_record, { appName }) => `Abandoned a revocation at the provider of ${appName}`,
  'refresh.failed': ({ outcome }, { appName }) =>
    withReason(`A refresh of the connection to ${appName} failed`, failureWords(outcome && REFRESH_CAUSES[outcome])),
  'relay.used': (_record, { appName, service = 'a service' }) => `A call by ${service} to ${appName} failed`,
  'relay.refused': ({ facts }, { app, service = 'a service' }) =>
    withReason(
      `Refused a call by ${service}${app === undefined ? '' : ` to ${app}`}`,
      facts?.rule === undefined ? undefined : `rule ${facts.rule}`,
    ),
};

const REVOCATION_WORDS: Readonly<Record<string, string>> = {
  revoked: 'the provider confirmed it',
  pending: 'the provider has not confirmed it yet',
  unsupported: 'the provider does not support revocation',
  unconfirmed: 'no revocation was sent to the provider',
};

/** The cause that a grant has after each outcome of a refresh (`grants/refresh-outcome.ts`). */
const REFRESH_CAUSES: Readonly<Record<string, FailureCause>> = {
  refused: 'grant_refused',
  unclear_refusal: 'unclear_refusal',
  unusable: 'unusable_response',
  app_fault: 'app_refused',
  unavailable: 'provider_unavailable',
};

export function sentenceOf(record: AuditRecord, names: SentenceNames): string {
  const { event, actor } = record;
  // The sentences are about users themselves, except those about connections.
  const isByUser = actor.kind !== 'administrator' && actor.kind !== 'admin_token';
  const sentence = isByUser || event.startsWith('connection.') ? SENTENCES[event] : undefined;
  const text = sentence
    ? sentence(record, { ...names, appName: names.app ?? 'an app' })
    : withReason(AUDIT_EVENTS[event] ?? event, names.target);
  const failed = failedWords(record);
  return failed === undefined ? text : `${text} (${failed})`;
}

/** Returns the sentence of a sign-in attempt without an audit entry. */
export function attemptSentence(
  app: string,
  { purpose, cause, ended }: Pick<SentenceNames, 'purpose' | 'cause'> & { ended: boolean },
): string {
  return withReason(`${ended ? 'Could not' : 'Began to'} ${verbOf(purpose, app)}`, cause);
}

function failureWords(cause: unknown): string | undefined {
  return typeof cause === 'string' ? (FAILURE_WORDS[cause as FailureCause] ?? cause) : undefined;
}

export function textOf(fact: unknown): string | undefined {
  if (fact === undefined || fact === null) return undefined;
  return Array.isArray(fact) ? fact.join(', ') : String(fact);
}
