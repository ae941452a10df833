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

test.each<[string, object, (string | boolean)[]]>([
  ['works', { scope: 'threads:read', app: 'crm', subject: ofUser('u') }, [true, true, true]],
  ['is an exchange', { scope: 'token:exchange', app: 'plain', subject: ofUser('u') }, [true, false, true]],
  ['lists connections', { scope: 'connections:read', app: 'crm', subject: ofUser('u') }, [true, false, false]],
  [
    'is for a service account',
    { scope: 'threads:read', app: 'crm', subject: { kind: 'service_account' } },
    [true, true, false],
  ],
  ['names no app', { scope: 'threads:read', subject: ofUser('u') }, [false, false, false]],
  ['names no user', { scope: 'threads:read', app: 'crm' }, [true, true, false]],
  [
    'names an app that is not there',
    { scope: 'threads:read', app: 'gone', subject: ofUser('nobody') },
    ['There is no connected app with this id.', false, 'The user has not connected this app.'],
  ],
  [
    'names an app that is disabled',
    { scope: 'threads:read', app: 'off', subject: ofUser('u') },
    ['An administrator has disabled this app.', true, true],
  ],
  [
    'reads threads where there are none, over a connection that needs reconnecting',
    { scope: 'threads:read', app: 'plain', subject: ofUser('lost') },
    [true, 'The app has no API base URL, where threads are read.', 'Reconnect needed: the user must reconnect.'],
  ],
])('a call that %s', async (_name, call, verdicts) => {
  const conditions = await conditionsOf(parts, call as Parameters<typeof conditionsOf>[1]);
  expect(conditions).toEqual(
    [
      'The connected app exists and is enabled.',
      'The connected app serves threads.',
      'The user has connected the app, and the connection works.',
    ].map((check, at) => {
      const verdict = verdicts[at];
      if (typeof verdict === 'string') return { check, verdict: 'failed', detail: verdict };
      return { check, verdict: verdict ? 'passed' : 'not_applicable' };
    }),
  );
});
