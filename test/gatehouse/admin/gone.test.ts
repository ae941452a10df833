/**
 * R88 a record that another request deletes before the change: 404, and the audit entry says that the change was not
 * made.
 */
import type { Request, RequestHandler, Response } from 'express';
import { expect, test } from 'vitest';
import { disconnectionRoutes } from '../../../src/gatehouse/admin/connections/disconnections.ts';
import type { AdminParts } from '../../../src/gatehouse/admin/parts.ts';
import { userRoutes } from '../../../src/gatehouse/admin/users/routes.ts';
import type { AuditEntry } from '../../../src/gatehouse/audit/kinds.ts';

const USER = { id: 'u1', issuer: 'https://idp.test', subject: 's1', firstSignInAt: 0, lastSignInAt: 0 };

/** Stands in for the parts that these calls do not use. */
const unused: unknown = new Proxy(() => unused, { get: (_, name) => (name === 'then' ? undefined : unused) });

let entries: AuditEntry[];
function parts(): AdminParts {
  entries = [];
  const findNothing = async () => undefined;
  const connection = { id: 'cn1', app: 'crm' };
  const usedParts: Readonly<Record<string, unknown>> = {
    audit: { trail: { append: async (entry: AuditEntry) => void entries.push(entry) } },
    users: { store: { find: async () => USER }, lifecycle: { disable: findNothing, enable: findNothing } },
    grants: { connections: { findById: async () => ({ userId: 'u1', connection }), end: findNothing } },
    publicUrl: { basePath: '', href: 'https://gatehouse.test' },
  };
  return new Proxy({}, { get: (_, name) => usedParts[String(name)] ?? unused }) as AdminParts;
}

test.each<[string, string, () => RequestHandler]>([
  ['user.disabled', 'u1', () => userRoutes(parts()).disable],
  ['user.enabled', 'u1', () => userRoutes(parts()).enable],
  ['connection.removed', 'cn1', () => disconnectionRoutes(parts()).end],
])('%s', async (event, id, handlerOf) => {
  const req = { params: { id }, query: {}, headers: {}, url: '/', context: { address: '192.0.2.1', id: 'r1' } };
  const work = handlerOf()(req as unknown as Request, {} as Response, () => undefined);
  await expect(work).rejects.toMatchObject({ code: 'not_found' });
  expect(entries.map((entry) => [entry.event, entry.outcome, entry.code])).toEqual([
    [event, undefined, undefined],
    [event, 'not_done', 'not_found'],
  ]);
});
