/** Rows of the audit trail: actor, target and user by name, if there is one. */
import { expect, test } from 'vitest';
import { auditRows } from '../../../../src/gatehouse/admin/audit/view.ts';
import type { AuditRecord } from '../../../../src/gatehouse/audit/kinds.ts';

const USERS: Record<string, object> = {
  u1: { name: 'Uma', email: 'uma@example.test' },
  u2: { email: 'two@example.test' },
  u3: {},
};
const parts = {
  users: { find: async (id: string) => USERS[id] },
  apps: { nameOf: (id: string) => (id === 'crm' ? 'CRM' : id) },
} as unknown as Parameters<typeof auditRows>[1];
const ENTRY: AuditRecord = {
  id: '1',
  at: '2026-03-01T00:00:00.000Z',
  event: 'user.disabled',
  actor: { kind: 'system' },
};

const rowOf = async (changes: object) => (await auditRows([{ ...ENTRY, ...changes }], parts))[0];

test.each([
  [{ kind: 'user' }, 'A user'],
  [{ kind: 'administrator' }, 'An administrator'],
  [{ kind: 'admin_token' }, 'An admin token'],
  [{ kind: 'relay_token' }, 'A relay token'],
  [{ kind: 'provider' }, 'An identity provider'],
  [{ kind: 'operator' }, 'An operator at the terminal'],
  [{ kind: 'system' }, 'Gatehouse itself'],
  [{ kind: 'anonymous' }, 'Not signed in'],
  [{ kind: 'user', id: 'u1' }, 'Uma'],
  [{ kind: 'user', id: 'u2' }, 'two@example.test'],
  [{ kind: 'user', id: 'u3' }, 'u3'],
  [{ kind: 'user', id: 'gone' }, 'gone'],
  [{ kind: 'administrator', id: 'u1', name: 'uma@example.test' }, 'Uma'],
  [{ kind: 'administrator', id: 'gone', name: 'ada@example.test' }, 'ada@example.test'],
])('the actor %j is shown as "%s"', async (actor, actorName) => {
  const actorId = 'id' in actor ? actor.id : undefined;
  expect(await rowOf({ actor })).toMatchObject({ actorName, actorId });
});

test.each([
  [{ kind: 'user', id: 'u1' }, 'Uma'],
  [{ kind: 'user', id: 'gone' }, 'gone'],
  [{ kind: 'user', id: 'u1', name: 'Former name' }, 'Former name'],
  [{ kind: 'session', id: 'u1.ref' }, 'Uma'],
  [{ kind: 'session', id: 'gone.ref' }, 'gone.ref'],
  [{ kind: 'connection', id: 'u1/crm' }, 'Uma, CRM'],
  [{ kind: 'connection', id: 'gone/wiki' }, 'gone, wiki'],
  [{ kind: 'connected_app', id: 'crm' }, 'CRM'],
  [{ kind: 'connected_app', id: 'wiki' }, 'wiki'],
  [{ kind: 'webhook', id: 'crm' }, 'crm'],
  [{ kind: 'webhook', id: 'u1' }, 'u1'],
])('the target %j is shown as "%s"', async (target, targetName) => {
  expect(await rowOf({ target })).toMatchObject({ targetName, targetId: target.id });
});

test.each([
  ['undefined without a user', {}, undefined],
  ['a user other than the actor', { actor: { kind: 'user', id: 'u2' }, userId: 'u1' }, { id: 'u1', name: 'Uma' }],
  ['the id of a deleted user', { userId: 'gone' }, { id: 'gone', name: 'gone' }],
  ['omitted if it is the actor', { actor: { kind: 'user', id: 'u1' }, userId: 'u1' }, undefined],
  ['omitted if the target names it', { target: { kind: 'connection', id: 'u1/crm' }, userId: 'u1' }, undefined],
  [
    'a user next to a target of another kind',
    { target: { kind: 'webhook', id: 'wh' }, userId: 'u1' },
    { id: 'u1', name: 'Uma' },
  ],
])('the user concerned is %s', async (_name, changes, user) => {
  expect((await rowOf(changes))?.user).toEqual(user);
});

test.each([
  [{}, undefined],
  [{ outcome: 'signed_in' }, undefined],
  [{ outcome: 'connected' }, undefined],
  [{ outcome: 'succeeded' }, undefined],
  [{ outcome: 'passed' }, undefined],
  [{ outcome: 'ended' }, undefined],
  [{ outcome: 'revoked' }, undefined],
  [{ outcome: 'confirmed' }, undefined],
  [{ outcome: 'abandoned' }, 'abandoned'],
  [{ outcome: 'refused', code: 'not_allowed' }, 'not_allowed'],
  [{ outcome: 'refused', facts: { rule: 'users' } }, 'rule users'],
  [{ outcome: 'not_done', code: 'internal' }, 'not done: something went wrong here'],
  [{ outcome: 'not_done' }, 'not done by the provider'],
  [{ outcome: 'unknown', code: 'storage_unavailable' }, 'not known whether it was done: the storage cannot be reached'],
  [{ outcome: 'not_done', code: 'of_a_later_version' }, 'not done: of_a_later_version'],
])('the outcome %j has the remark %s', async (entry: { outcome?: string; code?: string }, remark) => {
  expect(await rowOf(entry)).toMatchObject({ outcome: entry.outcome, code: entry.code, remark });
});

test('facts become texts, events have words, and the rest does not change', async () => {
  const facts = { scopes: ['a', 'b'], count: 2, open: false, none: null };
  expect(await rowOf({ facts, address: '192.0.2.7', requestId: 'r1' })).toMatchObject({
    ...{ at: ENTRY.at, words: 'User disabled', from: '192.0.2.7', requestId: 'r1' },
    facts: [
      ['scopes', 'a, b'],
      ['count', '2'],
      ['open', 'false'],
      ['none', 'null'],
    ],
  });
  expect(await rowOf({ event: 'of.a.later.version' })).toMatchObject({ words: 'of.a.later.version', facts: [] });
});
