/**
 * Notices after changes of an app: added scopes, and a deletion at the provider; and the chosen client authentication.
 */
import { describe, expect, test } from 'vitest';
import { noticeOf } from '../../../../src/gatehouse/admin/connected-apps/notices.ts';
import { createProviderReading } from '../../../../src/gatehouse/admin/connected-apps/provider-reading.ts';
import { lackOfScopes } from '../../../../src/gatehouse/admin/connected-apps/save-question.ts';
import { withdrawalWords } from '../../../../src/gatehouse/admin/connected-apps/withdrawal.ts';

test.each([
  [
    { scopes: ['mail'], connections: 1, exact: true },
    'One connection lacks the scope mail until its user consents again. It keeps working without it.',
  ],
  [
    { scopes: ['mail', 'calendar'], connections: 1, exact: true },
    'One connection lacks some of the scopes mail, calendar until its user consents again. It keeps working without them.',
  ],
  [
    { scopes: ['mail'], connections: 1_200, exact: true },
    '1,200 connections lack the scope mail until their users consent again. They keep working without it.',
  ],
  [
    { scopes: ['mail'], connections: 1, exact: false },
    'At least 1 connections lack the scope mail until their users consent again. They keep working without it.',
  ],
])('%j', (missing, text) => {
  expect(lackOfScopes(missing)).toBe(text);
});

const BY_HAND = 'the registration with the client ID c1: delete it there by hand.';

describe('a deleted app whose registration at the provider', () => {
  test.each<[string, Parameters<typeof withdrawalWords>[0], string, string]>([
    ['was deleted', { outcome: 'deleted' }, 'success', 'The registration at the provider was deleted.'],
    [
      'was not to be deleted',
      { outcome: 'refused', status: 403 },
      'info',
      `The provider refused (status 403) to delete ${BY_HAND}`,
    ],
    [
      'could not be reached',
      { outcome: 'unreachable', words: 'It did not respond.' },
      'info',
      `It did not respond. It still has ${BY_HAND}`,
    ],
  ] as never)('%s', (_name, withdrawal, tone, words) => {
    expect(withdrawalWords(withdrawal, 'c1')).toBe(words);
    const removed = { withdrawal, clientId: 'c1' } as Parameters<typeof noticeOf>[0];
    expect(noticeOf(removed)).toEqual({ tone, text: `The app is deleted here. ${words}` });
  });

  test('was made by hand, or cannot be deleted', () => {
    expect(noticeOf({})).toEqual({ tone: 'success', text: 'The app is deleted.' });
    expect(withdrawalWords(undefined, 'c1')).toBe(`The provider offers no way to delete ${BY_HAND}`);
  });
});

test.each([
  ['private_key_jwt', [], 'private_key_jwt'],
  ['client_secret_post', ['client_secret_basic', 'client_secret_post'], 'client_secret_post'],
  ['none', ['client_secret_post', 'client_secret_basic'], 'client_secret_basic'],
  ['client_secret_basic', ['private_key_jwt', 'client_secret_post'], 'client_secret_post'],
  ['client_secret_basic', ['private_key_jwt'], 'client_secret_basic'],
])('an app that authenticates with %s, at a provider that offers %j, uses %s', (chosen, authMethods, used) => {
  const { methodFor } = createProviderReading({ readProvider: async () => ({ fault: '' }) } as never);
  expect(methodFor(chosen, { authMethods } as unknown as Parameters<typeof methodFor>[1])).toBe(used);
});
