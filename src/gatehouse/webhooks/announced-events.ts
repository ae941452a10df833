/** Turns events of connections into messages for webhooks. */
import type { EventListener } from '../../shared/observability/events.ts';
import type { WebhookMessages } from './messages.ts';

export function announcedEvents(announce: WebhookMessages['announce']): EventListener {
  return {
    connectionMade(facts) {
      announce('connection.created', { ...named(facts), ...(facts.link && { linkId: facts.link }) });
    },
    connectionBroken(facts) {
      announce('connection.reconnect_needed', { ...named(facts), cause: facts.cause });
    },
    connectionRecovered(facts) {
      announce('connection.recovered', named(facts));
    },
    scopesMissing(facts) {
      announce('connection.scopes_missing', { ...named(facts), missingScopes: facts.scopes });
    },
    connectionRemoved(facts) {
      announce('connection.removed', { ...named(facts), revocation: facts.revocation });
    },
  };
}

function named({ userId, app, connection }: { userId: string; app: string; connection: string | undefined }) {
  return { user: userId, app, connection: connection ?? null };
}
