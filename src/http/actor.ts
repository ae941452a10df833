/** Owns who does something by HTTP, from where and in which request, as the audit trail tells it. */
import type { Request } from 'express';

export interface RequestOrigin {
  actor: { kind: 'user' | 'administrator' | 'admin_token' | 'anonymous'; id?: string; name?: string };
  address?: string;
  requestId: string;
}

/** To be spread into an audit entry. For routes behind a guard that says who it is; without one the actor is anonymous. */
export function actorOf(req: Request): RequestOrigin {
  const { adminToken, viewer, id: requestId } = req.context;
  const from = { requestId, ...(req.ip === undefined ? {} : { address: req.ip }) };
  if (adminToken) return { actor: { kind: 'admin_token', id: adminToken.id, name: adminToken.name }, ...from };
  if (!viewer) return { actor: { kind: 'anonymous' }, ...from };
  const { id, name, email } = viewer.user;
  const known = email ?? name;
  const kind = req.context.route.startsWith('/admin') ? 'administrator' : 'user';
  return { actor: { kind, id, ...(known === undefined ? {} : { name: known }) }, ...from };
}
