/** The conditions of a relay call in addition to the policy: passed, failed with a reason, or not applicable. */
import { expect, test } from 'vitest';
import { conditionsOf } from '../../../../src/gatehouse/admin/policy/conditions.ts';

const APPS: Record<string, object> = {
  crm: { apiBaseUrl: 'https://api.example' },
  plain: {},
  off: { apiBaseUrl: 'https://api.example', disabled: true },
};
const parts = {
  apps: { find: (id: string) => APPS[id] },
  connections: {
    find: async (user: string) =>
      user === 'nobody' ? undefined : { health: user === 'lost' ? 'reconnect_needed' : 'active' },
  },
} as unknown as Parameters<typeof conditionsOf>[0];
const ofUser = (id: string) => ({ kind: 'user', id });

const [PASSED, NOT_APPLICABLE] = ['passed', 'not_applicable'];

/** The results on the app, on its platform and on the connection. A sentence is the reason of a failure. */
test.each<[description: string, call: object, results: string[]]>([
  ['works', { scope: 'threads:read', app: 'crm', subject: ofUser('u') }, [PASSED, PASSED, PASSED]],
  ['is an exchange', { scope: 'token:exchange', app: 'plain', subject: ofUser('u') }, [PASSED, NOT_APPLICABLE, PASSED]],
  [
    'lists connections',
    { scope: 'connections:read', app: 'crm', subject: ofUser('u') },
    [PASSED, NOT_APPLICABLE, NOT_APPLICABLE],
  ],
  [
    'is for a service account',
    { scope: 'threads:read', app: 'crm', subject: { kind: 'service_account' } },
    [PASSED, PASSED, NOT_APPLICABLE],
  ],
  ['names no app', { scope: 'threads:read', subject: ofUser('u') }, [NOT_APPLICABLE, NOT_APPLICABLE, NOT_APPLICABLE]],
  ['names no user', { scope: 'threads:read', app: 'crm' }, [PASSED, PASSED, NOT_APPLICABLE]],
  [
    'names an unknown app',
    { scope: 'threads:read', app: 'gone', subject: ofUser('nobody') },
    ['There is no connected app with this id.', NOT_APPLICABLE, 'The user has not connected this app.'],
  ],
  [
    'names an app that is disabled',
    { scope: 'threads:read', app: 'off', subject: ofUser('u') },
    ['An administrator has disabled this app.', PASSED, PASSED],
  ],
  [
    'reads threads of an app without threads, with a connection that needs reconnecting',
    { scope: 'threads:read', app: 'plain', subject: ofUser('lost') },
    [PASSED, 'The app has no API base URL, where threads are read.', 'Reconnect needed: the user must reconnect.'],
  ],
])('a call that %s', async (_name, call, results) => {
  const conditions = await conditionsOf(parts, call as Parameters<typeof conditionsOf>[1], undefined);
  const [ofApp, ofPlatform, ofConnection] = results.map((result) =>
    result === PASSED || result === NOT_APPLICABLE ? { result } : { result: 'failed', detail: result },
  );
  expect(conditions).toEqual([
    { check: 'The connected app exists and is enabled.', ...ofApp },
    { check: 'The connected app serves threads.', ...ofPlatform },
    { check: 'The connected app declares the route.', result: 'not_applicable' },
    { check: 'The user has connected the app, and the connection works.', ...ofConnection },
  ]);
});
