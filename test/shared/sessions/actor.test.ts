/** The actor of a request for the audit trail. */
import type { Request } from 'express';
import { expect, test } from 'vitest';
import { actorOf } from '../../../src/shared/sessions/actor.ts';

const actorIn = (context: object) =>
  actorOf({ context: { id: 'r1', address: '192.0.2.1', route: '/connections', ...context } } as unknown as Request);
const ADA = { id: 'u1', name: 'Ada', email: 'ada@example.test' };

test.each([
  ['without a session, anonymous', {}, { kind: 'anonymous' }],
  ['a user, with the e-mail address', { session: { user: ADA } }, { kind: 'user', id: 'u1', name: 'ada@example.test' }],
  [
    'a user, with the name if there is no address',
    { session: { user: { id: 'u1', name: 'Ada' } } },
    { kind: 'user', id: 'u1', name: 'Ada' },
  ],
  ['a user without name and address', { session: { user: { id: 'u1' } } }, { kind: 'user', id: 'u1' }],
  [
    'an administrator, in the administration',
    { session: { user: { ...ADA, admin: true } }, route: '/admin/users' },
    { kind: 'administrator', id: 'u1', name: 'ada@example.test' },
  ],
  [
    'R94 a user without access to the administration',
    { session: { user: { ...ADA, admin: false } }, route: '/admin/users' },
    { kind: 'user', id: 'u1', name: 'ada@example.test' },
  ],
  [
    'an admin token, even with a session',
    { adminToken: { id: 't1', name: 'deploy', hash: 'x' }, session: { user: ADA } },
    { kind: 'admin_token', id: 't1', name: 'deploy' },
  ],
])('%s', (_words, context, actor) => {
  expect(actorIn(context)).toStrictEqual({ actor, requestId: 'r1', address: '192.0.2.1' });
});
