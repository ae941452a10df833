/** The notice after a disconnection: the response of the provider, or the number of confirmed revocations. */
import { expect, test } from 'vitest';
import { disconnectedNotice } from '../../../../src/gatehouse/admin/connections/disconnect-notice.ts';

type Result = Parameters<typeof disconnectedNotice>[0]['results'][number];
const ended = (revocation: Result['revocation'], status?: number): Result =>
  ({ revocation, reply: status === undefined ? undefined : { status } }) as Result;

test.each<[description: string, results: Result[], goneCount: number, tone: string, text: string]>([
  [
    'is confirmed',
    [ended('revoked', 200)],
    0,
    'success',
    'Disconnected. The provider has confirmed the revocation (status 200).',
  ],
  [
    'is not supported by the provider',
    [ended('unsupported')],
    0,
    'info',
    'Disconnected. The provider does not support revocation.',
  ],
  [
    'could not be sent',
    [ended('unconfirmed')],
    0,
    'info',
    'Disconnected here. No revocation could be sent to the provider.',
  ],
  [
    'is not confirmed yet',
    [ended('pending', 503)],
    0,
    'info',
    'Disconnected here. The revocation at the provider is pending and will be repeated until it is confirmed (status 503).',
  ],
  [
    'is confirmed for each of several connections',
    [ended('revoked'), ended('revoked')],
    0,
    'success',
    '2 connections ended here. The provider has confirmed 2 of the revocations.',
  ],
  [
    'is confirmed for some of several connections, while another was gone',
    [ended('revoked'), ended('pending')],
    1,
    'info',
    '2 connections ended here. The provider has confirmed 1 of the revocations. 1 was already gone.',
  ],
  ['was not needed', [], 2, 'success', 'Nothing to do: 2 were already gone.'],
])('a disconnection whose revocation %s', (_name, results, goneCount, tone, text) => {
  expect(disconnectedNotice({ results, goneCount })).toEqual({ tone, text });
});
