/** The sentence of each event in the timeline, with names instead of ids. */
import { describe, expect, test } from 'vitest';
import { callsSentence } from '../../../../src/gatehouse/admin/timeline/calls.ts';
import { attemptSentence, type SentenceNames, sentenceOf } from '../../../../src/gatehouse/admin/timeline/sentences.ts';
import { AUDIT_EVENTS, type AuditEvent, type AuditRecord } from '../../../../src/gatehouse/audit/kinds.ts';

const NAMES: SentenceNames = {
  ...{ app: 'Wiki', service: 'nightly', target: 'the target', purpose: 'sign_in', cause: undefined },
};
const sentence = (event: AuditEvent, changes: Partial<AuditRecord> = {}, names: Partial<SentenceNames> = {}): string =>
  sentenceOf(
    { id: '1', at: '2026-03-01T00:00:00.000Z', event, actor: { kind: 'user', id: 'uID' }, ...changes },
    { ...NAMES, ...names },
  );

test.each(Object.keys(AUDIT_EVENTS) as AuditEvent[])(
  '%s has a sentence for every actor, without ids or gaps',
  (event) => {
    const target = { kind: 'connection', id: 'uID/appID' };
    for (const kind of [
      'user',
      'administrator',
      'admin_token',
      'operator',
      'system',
      'relay_token',
      'anonymous',
    ] as const) {
      for (const names of [{}, { app: undefined, service: undefined, target: undefined }]) {
        const text = sentence(event, { actor: { kind }, target, userId: 'uID' }, names);
        expect(text).toMatch(/^[A-Z][^:]{5,}/);
        expect(text).not.toMatch(/undefined|null|ID\b.*ID|uID|appID|: *$|\.$/);
      }
    }
  },
);

describe('sentences', () => {
  test.each<[string, string]>([
    ['Signed in with Wiki', sentence('sign_in.succeeded')],
    [
      'Could not sign in with Wiki: The app is disabled',
      sentence('sign_in.failed', {}, { cause: 'The app is disabled.' }),
    ],
    [
      'Could not connect Wiki: internal',
      sentence('sign_in.failed', { facts: { reason: 'internal' } }, { purpose: 'connect' }),
    ],
    [
      'Consented to Wiki: profile, offline_access',
      sentence('connection.created', { facts: { scopes: ['profile', 'offline_access'] } }),
    ],
    [
      'The connection to Wiki needs reconnecting: The provider has ended this connection',
      sentence('connection.reconnect_needed', { facts: { cause: 'grant_refused' } }),
    ],
    ['Disconnected Wiki: the provider confirmed it', sentence('connection.removed', { outcome: 'revoked' })],
    [
      'A refresh of the connection to Wiki failed: The provider is not available',
      sentence('refresh.failed', { outcome: 'unavailable' }),
    ],
    ...(
      [
        ['refused', 'The provider has ended this connection'],
        ['unclear_refusal', 'The provider refused to renew the access and did not say clearly why'],
        ['unusable', 'The provider sent a response that cannot be used'],
        ['app_fault', 'The provider does not accept the registration of this app at the moment'],
      ] as const
    ).map(([outcome, words]): [string, string] => [
      `A refresh of the connection to Wiki failed: ${words}`,
      sentence('refresh.failed', { outcome }),
    ]),
    ['A refresh of the connection to Wiki failed', sentence('refresh.failed')],
    ...(
      [
        ['pending', 'the provider has not confirmed it yet'],
        ['unsupported', 'the provider does not support revocation'],
        ['unconfirmed', 'no revocation was sent to the provider'],
      ] as const
    ).map(([outcome, words]): [string, string] => [
      `Disconnected Wiki: ${words}`,
      sentence('connection.removed', { outcome }),
    ]),
    ['Disconnected Wiki', sentence('connection.removed')],
    ['Disconnected an app', sentence('connection.removed', {}, { app: undefined })],
    ['Could not sign in with Wiki: internal', sentence('sign_in.refused', { facts: { reason: 'internal' } })],
    ['Was signed out by the provider of Wiki', sentence('session.ended_by_provider')],
    ['Refused a sign-out by the provider of Wiki', sentence('session.end_refused')],
    [
      'Was refused in the administration: not_allowed',
      sentence('admin.refused', { outcome: 'refused', code: 'not_allowed' }),
    ],
    ['Signed in again for the administration', sentence('admin.stepped_up')],
    ['Imported the connection to Wiki', sentence('connection.imported')],
    ['The connection to Wiki worked again', sentence('connection.recovered')],
    [
      'The connection to Wiki needs reconnecting: odd',
      sentence('connection.reconnect_needed', { facts: { cause: 'odd' } }),
    ],
    ['The connection to Wiki needs reconnecting', sentence('connection.reconnect_needed')],
    ['Created a link to connect Wiki', sentence('connect_link.created')],
    ['Connected Wiki with a link', sentence('connect_link.used')],
    ['The provider of Wiki did not confirm a revocation', sentence('revocation.pending')],
    ['The provider of Wiki confirmed a revocation', sentence('revocation.confirmed')],
    ['Abandoned a revocation at the provider of Wiki', sentence('revocation.abandoned')],
    ['A call by nightly to Wiki failed', sentence('relay.used')],
    ['A call by a service to Wiki failed', sentence('relay.used', {}, { service: undefined })],
    ['Refused a call by a service', sentence('relay.refused', {}, { app: undefined, service: undefined })],
    ['Session ended: the target', sentence('session.ended', { actor: { kind: 'admin_token' } })],
    ['Consented to Wiki', sentence('connection.created', { actor: { kind: 'administrator' } })],
    ['Could not connect Wiki: no', attemptSentence('Wiki', { purpose: 'connect', cause: 'no.', ended: true })],
    ['Refused a call by nightly to Wiki: rule users', sentence('relay.refused', { facts: { rule: 'users' } })],
    [
      'User disabled (not done: this has been changed in the meantime)',
      sentence(
        'user.disabled',
        { actor: { kind: 'administrator' }, outcome: 'not_done', code: 'version_conflict' },
        { target: undefined },
      ),
    ],
    ['Relay token rotated: the target', sentence('relay_token.rotated', { actor: { kind: 'administrator' } })],
    ['Session ended: the target', sentence('session.ended', { actor: { kind: 'administrator' } })],
    ['Ended a session', sentence('session.ended')],
    ['Began to connect Wiki', attemptSentence('Wiki', { purpose: 'connect', cause: undefined, ended: false })],
  ])('%s', (expected, actual) => expect(actual).toBe(expected));

  test.each([
    [
      'nightly made 1,200 calls to Wiki',
      { refused: false, count: 1_200, parts: [], rules: [] },
      { service: 'nightly', app: 'Wiki' },
    ],
    ['Made 1 call', { refused: false, count: 1, parts: [], rules: [] }, { service: undefined, app: undefined }],
    [
      'Refused 3 calls by nightly: rules users, networks',
      {
        refused: true,
        count: 3,
        parts: ['a: 1 refused by rule users', 'b: 1 refused by rule networks', 'c: 1 refused by rule users'],
        rules: ['users', 'networks'],
      },
      { service: 'nightly', app: undefined },
    ],
  ])('%s', (expected, calls, names) => expect(callsSentence({ at: 0, ...calls }, names)).toBe(expected));
});
