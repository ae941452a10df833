/** Turns events into entries of the audit trail. */
import type { EventListener, Events, Origin } from '../../shared/observability/events.ts';
import { STORAGE_REFUSALS } from '../../shared/observability/storage-watch.ts';
import type { AuditActor, AuditEntry } from './kinds.ts';

export function auditedEvents(note: (entry: AuditEntry) => void): EventListener {
  return {
    signInEnded(facts) {
      if (facts.unsolicited) return;
      const entry = signInEntry(facts);
      note(entry);
      if (facts.steppedUp) note({ ...entry, event: 'admin.stepped_up', facts: { acr: facts.steppedUp } });
    },
    signedOut(facts) {
      const { userId, everywhere, session, by, origin } = facts;
      note({
        event: everywhere ? 'session.ended_everywhere' : session ? 'session.ended' : 'session.signed_out',
        actor: by ?? { kind: 'user', id: userId },
        target: session ? { kind: 'session', id: session } : { kind: 'user', id: userId },
        userId,
        ...originFields(origin),
      });
    },
    providerSignedOut(facts) {
      const { app, outcome, reason, sessions, userId, origin } = facts;
      note({
        event: outcome === 'ended' ? 'session.ended_by_provider' : 'session.end_refused',
        // A refused request proves nothing about its sender.
        actor: outcome === 'ended' ? { kind: 'provider', id: app } : { kind: 'anonymous' },
        target: { kind: 'connected_app', id: app },
        userId,
        outcome,
        facts: { reason, sessions },
        ...originFields(origin),
      });
    },
    refreshEnded(facts) {
      const { connection, outcome, reason, repeated } = facts;
      // Successful refreshes are frequent and of no interest to an administrator.
      if (outcome === 'refreshed') return;
      note({ event: 'refresh.failed', ...connectionFields(facts), outcome, facts: { connection, reason, repeated } });
    },
    connectionCreated(facts) {
      const { userId, app, connection, scopes, link, origin, audited } = facts;
      if (audited) return;
      const actor: AuditActor = { kind: 'user', id: userId };
      note({
        event: 'connection.created',
        ...connectionFields(facts),
        actor,
        facts: { connection, scopes },
        ...originFields(origin),
      });
      if (link === undefined) return;
      const target = { kind: 'connect_link', id: link };
      note({ event: 'connect_link.used', actor, target, facts: { app }, ...originFields(origin) });
    },
    connectionRemoved(facts) {
      const { userId, connection, revocation, reply, by, origin, audited } = facts;
      if (audited) return;
      const actor: AuditActor = by ?? { kind: 'user', id: userId };
      const result = { outcome: revocation, facts: { connection, status: reply?.status, error: reply?.error } };
      note({ event: 'connection.removed', ...connectionFields(facts), actor, ...result, ...originFields(origin) });
    },
    connectionRecovered(facts) {
      const { connection, origin } = facts;
      note({
        event: 'connection.recovered',
        ...connectionFields(facts),
        facts: { connection },
        ...originFields(origin),
      });
    },
    revocationEnded(facts) {
      const { connection, outcome } = facts;
      const event = outcome === 'confirmed' ? 'revocation.confirmed' : 'revocation.abandoned';
      note({ event, ...connectionFields(facts), outcome, facts: { connection } });
    },
    userErased({ userId, by, origin }) {
      note({
        event: 'user.deleted',
        actor: by ?? SYSTEM,
        target: { kind: 'user', id: userId },
        ...originFields(origin),
      });
    },
    connectionsSetAside({ app: id, name, count }) {
      const target = { kind: 'connected_app', id, name };
      note({ event: 'connected_app.reconnect_needed', actor: SYSTEM, target, facts: { count } });
    },
    appCheckChanged({ app: id, name, problems }) {
      const target = { kind: 'connected_app', id, name };
      const outcome = problems.length > 0 ? 'failed' : 'passed';
      note({ event: 'connected_app.checked', actor: SYSTEM, target, outcome, facts: { problems } });
    },
    storageLost({ reason, detail }) {
      // An outage gets no entry. A refusal gets one once the storage is available.
      if (STORAGE_REFUSALS.some((refusal) => refusal === reason))
        note({ event: 'storage.refused', actor: SYSTEM, outcome: 'refused', facts: { reason, detail } });
    },
    reconnectNeeded(facts) {
      const { connection, cause } = facts;
      note({ event: 'connection.reconnect_needed', ...connectionFields(facts), facts: { connection, cause } });
    },
  };
}

function signInEntry(facts: Parameters<Events['signInEnded']>[0]): AuditEntry {
  const { app, outcome, reason, providerError, userId, userName, reference, origin } = facts;
  const succeeded = outcome === 'signed_in' || outcome === 'connected';
  return {
    event: succeeded ? 'sign_in.succeeded' : outcome === 'refused' ? 'sign_in.refused' : 'sign_in.failed',
    actor: userId ? { kind: 'user', id: userId, name: userName } : { kind: 'anonymous', name: userName },
    target: { kind: 'connected_app', id: app },
    outcome,
    facts: { reason, error: providerError, reference },
    ...originFields(origin),
  };
}

const SYSTEM: AuditActor = { kind: 'system' };

function connectionFields({
  userId,
  app,
}: {
  userId: string;
  app: string;
}): Pick<AuditEntry, 'actor' | 'target' | 'userId'> {
  return { actor: SYSTEM, target: { kind: 'connection', id: `${userId}/${app}` }, userId };
}

function originFields(origin: Origin | undefined): Origin {
  return { address: origin?.address, requestId: origin?.requestId };
}
