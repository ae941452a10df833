/** Describes audit entries and sign-ins as sentences in the past tense, with names instead of ids. Pure. */
import { AUDIT_EVENTS, type AuditEvent, type AuditRecord } from '../../audit/kinds.ts';
import { failedWords } from '../../audit/outcome.ts';
import { FAILURE_WORDS, type FailureCause } from '../../grants/grant.ts';
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

type Sentence = (record: AuditRecord, names: SentenceNames & { to: string }) => string;

const verbOf = (purpose: SentenceNames['purpose'], app: string) =>
  purpose === 'connect' ? `connect ${app}` : `sign in with ${app}`;

const because = (words: string, reason: string | undefined) =>
  reason === undefined || reason === '' ? words : `${words}: ${reason.replace(/\.$/, '')}`;

const notSignedIn: Sentence = ({ facts }, { to, purpose, cause }) =>
  because(`Could not ${verbOf(purpose, to)}`, cause ?? textOf(facts?.reason));

/** Other events use the words of the audit trail. */
const SENTENCES: Partial<Record<AuditEvent, Sentence>> = {
  'sign_in.succeeded': (_record, { to }) => `Signed in with ${to}`,
  'sign_in.refused': notSignedIn,
  'sign_in.failed': notSignedIn,
  'session.ended': () => 'Ended a session',
  'session.ended_by_provider': (_record, { to }) => `Was signed out by the provider of ${to}`,
  'session.end_refused': (_record, { to }) => `Refused a sign-out by the provider of ${to}`,
  'admin.refused': ({ outcome }) => because('Was refused in the administration', outcome),
  'admin.stepped_up': () => 'Signed in again for the administration',
  'connection.created': ({ facts }, { to }) => because(`Consented to ${to}`, textOf(facts?.scopes)),
  'connection.imported': (_record, { to }) => `Imported the connection to ${to}`,
  'connection.recovered': (_record, { to }) => `The connection to ${to} worked again`,
  'connection.reconnect_needed': ({ facts }, { to }) =>
    because(`The connection to ${to} needs reconnecting`, failureWords(facts?.cause)),
  'connection.removed': ({ outcome }, { to }) => because(`Disconnected ${to}`, outcome && REVOCATION_WORDS[outcome]),
  'connect_link.created': (_record, { to }) => `Created a link to connect ${to}`,
  'connect_link.used': (_record, { to }) => `Connected ${to} with a link`,
  'revocation.pending': (_record, { to }) => `The provider of ${to} did not confirm a revocation`,
  'revocation.confirmed': (_record, { to }) => `The provider of ${to} confirmed a revocation`,
  'revocation.abandoned': (_record, { to }) => `Abandoned a revocation at the provider of ${to}`,
  'refresh.failed': ({ outcome }, { to }) =>
    because(`A refresh of the connection to ${to} failed`, failureWords(outcome && REFRESH_CAUSES[outcome])),
  'relay.used': (_record, { to, service = 'a service' }) => `A call by ${service} to ${to} failed`,
  'relay.refused': ({ outcome }, { app, service = 'a service' }) =>
    because(
      `Refused a call by ${service}${app === undefined ? '' : ` to ${app}`}`,
      outcome?.replace('rule: ', 'rule '),
    ),
};

const REVOCATION_WORDS: Readonly<Record<string, string>> = {
  revoked: 'the provider confirmed it',
  pending: 'the provider has not confirmed it yet',
  unsupported: 'the provider does not support revocation',
  unconfirmed: 'no revocation was sent to the provider',
};

/** The cause in the grant for each outcome of a refresh (`grants/refresh-outcome.ts`). */
const REFRESH_CAUSES: Readonly<Record<string, FailureCause>> = {
  refused: 'grant_refused',
  unclear_refusal: 'unclear_refusal',
  unusable: 'unusable_response',
  app_fault: 'app_refused',
  unavailable: 'provider_unavailable',
};

export function sentenceOf(record: AuditRecord, names: SentenceNames): string {
  const { event, outcome, actor } = record;
  // The sentences are about users themselves, except those about connections.
  const isByUser = actor.kind !== 'administrator' && actor.kind !== 'admin_token';
  const sentence = isByUser || event.startsWith('connection.') ? SENTENCES[event] : undefined;
  const text = sentence
    ? sentence(record, { ...names, to: names.app ?? 'an app' })
    : because(AUDIT_EVENTS[event] ?? event, names.target);
  const failed = failedWords(outcome);
  return failed === undefined ? text : `${text} (${failed})`;
}

/** The sentence of a sign-in attempt without an audit entry. */
export function attemptSentence(
  app: string,
  { purpose, cause, ended }: Pick<SentenceNames, 'purpose' | 'cause'> & { ended: boolean },
): string {
  return because(`${ended ? 'Could not' : 'Began to'} ${verbOf(purpose, app)}`, cause);
}

function failureWords(cause: unknown): string | undefined {
  return typeof cause === 'string' ? (FAILURE_WORDS[cause as FailureCause] ?? cause) : undefined;
}

export function textOf(fact: unknown): string | undefined {
  if (fact === undefined || fact === null) return undefined;
  return Array.isArray(fact) ? fact.join(', ') : String(fact);
}
