/** Turns events of connections into messages for webhooks. */
import type { EventListener } from '../observability/events.ts';
import type { WebhookMessages } from './messages.ts';

export function announcedEvents(announce: WebhookMessages['announce']): EventListener {
  return {
    connectionMade(facts) {
      announce('connection.created', { user: facts.userId, app: facts.app, ...(facts.link && { linkId: facts.link }) });
    },
    connectionBroken(facts) {
      announce('connection.reconnect_needed', { user: facts.userId, app: facts.app, cause: facts.cause });
    },
    connectionRecovered(facts) {
      announce('connection.recovered', { user: facts.userId, app: facts.app });
    },
    scopesMissing({ userId, app, scopes }) {
      announce('connection.scopes_missing', { user: userId, app, missingScopes: scopes });
    },
    connectionRemoved(facts) {
      announce('connection.removed', { user: facts.userId, app: facts.app, revocation: facts.revocation });
    },
  };
}
