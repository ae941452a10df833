/** The actor of a request for the audit trail: the user or admin token, and the address. */
import type { IncomingMessage } from 'node:http';
import type { Request } from 'express';

export interface RequestOrigin {
  actor: { kind: 'user' | 'administrator' | 'admin_token' | 'anonymous'; id?: string; name?: string };
  address: string;
  requestId: string;
}

/** The origin of an event that a request causes. */
export function originOf({ context: { address, id: requestId } }: IncomingMessage) {
  return { address, requestId };
}

/** Fields of an audit entry. Without a guard that sets a session or an admin token, the actor is anonymous. */
export function actorOf(req: Request): RequestOrigin {
  const { adminToken, session } = req.context;
  const origin = originOf(req);
  if (adminToken) return { actor: { kind: 'admin_token', id: adminToken.id, name: adminToken.name }, ...origin };
  if (!session) return { actor: { kind: 'anonymous' }, ...origin };
  const { id, name, email } = session.user;
  const label = email ?? name;
  const kind = session.user.admin && req.context.route.startsWith('/admin') ? 'administrator' : 'user';
  return { actor: { kind, id, ...(label !== undefined && { name: label }) }, ...origin };
}
