/** The notice after a disconnection: the response of the provider, or the number of confirmed revocations. */
import { expect, test } from 'vitest';
import { disconnectedNotice } from '../../../../src/gatehouse/admin/connections/disconnect-notice.ts';

type Done = Parameters<typeof disconnectedNotice>[0]['results'][number];
const ended = (revocation: Done['revocation'], status?: number): Done =>
  ({ revocation, reply: status === undefined ? undefined : { status } }) as Done;

test.each<[string, Done[], number, string, string]>([
  [
    'confirmed',
    [ended('revoked', 200)],
    0,
    'success',
    'Disconnected. The provider has confirmed the revocation (status 200).',
  ],
  [
    'that the provider cannot withdraw',
    [ended('unsupported')],
    0,
    'info',
    'Disconnected. The provider does not support revocation.',
  ],
  [
    'that was not requested',
    [ended('unconfirmed')],
    0,
    'info',
    'Disconnected here. No revocation could be sent to the provider.',
  ],
  [
    'not confirmed yet',
    [ended('pending', 503)],
    0,
    'info',
    'Disconnected here. The revocation at the provider is pending and will be repeated until it is confirmed (status 503).',
  ],
  [
    'of several, all confirmed',
    [ended('revoked'), ended('revoked')],
    0,
    'success',
    '2 connections ended here. The provider has confirmed 2 of the revocations.',
  ],
  [
    'of several, of which one was gone',
    [ended('revoked'), ended('pending')],
    1,
    'info',
    '2 connections ended here. The provider has confirmed 1 of the revocations. 1 was already gone.',
  ],
  ['of none', [], 2, 'success', 'Nothing to do: 2 were already gone.'],
])('one %s', (_name, results, goneCount, tone, text) => {
  expect(disconnectedNotice({ results, goneCount })).toEqual({ tone, text });
});
