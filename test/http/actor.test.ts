/** Who does something, as the audit trail tells it. */
import type { Request } from 'express';
import { expect, test } from 'vitest';
import { actorOf } from '../../src/http/actor.ts';

const of = (context: object, ip: string | undefined = '192.0.2.1') =>
  actorOf({ ip, context: { id: 'r1', route: '/connections', ...context } } as unknown as Request);
const ADA = { id: 'u1', name: 'Ada', email: 'ada@example.test' };

test.each([
  ['nobody', {}, { kind: 'anonymous' }],
  ['a user, by the address', { viewer: { user: ADA } }, { kind: 'user', id: 'u1', name: 'ada@example.test' }],
  ['by the name', { viewer: { user: { id: 'u1', name: 'Ada' } } }, { kind: 'user', id: 'u1', name: 'Ada' }],
  ['by neither', { viewer: { user: { id: 'u1' } } }, { kind: 'user', id: 'u1' }],
  [
    'an administrator, in the administration',
    { viewer: { user: ADA }, route: '/admin/users' },
    { kind: 'administrator', id: 'u1', name: 'ada@example.test' },
  ],
  [
    'an admin token, whoever is signed in',
    { adminToken: { id: 't1', name: 'deploy', hash: 'x' }, viewer: { user: ADA } },
    { kind: 'admin_token', id: 't1', name: 'deploy' },
  ],
])('%s', (_who, context, actor) => {
  expect(of(context)).toStrictEqual({ actor, requestId: 'r1', address: '192.0.2.1' });
});

test('an address that is not known is left out', () => {
  expect(actorOf({ context: { id: 'r1', route: '/' } } as unknown as Request)).toStrictEqual({
    actor: { kind: 'anonymous' },
    requestId: 'r1',
  });
});
