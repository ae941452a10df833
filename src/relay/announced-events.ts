/** Owns which events of the house are told to webhooks, and what of them. */
import type { Events } from '../observability/events.ts';
import type { WebhookMessages } from './webhook-messages.ts';

/** The same events, with a message for each that webhooks can ask for. */
export function announcedEvents(events: Events, announce: WebhookMessages['announce']): Events {
  return {
    ...events,
    connectionMade(facts) {
      events.connectionMade(facts);
      announce('connection.created', { user: facts.userId, app: facts.app });
    },
    connectionBroken(facts) {
      events.connectionBroken(facts);
      announce('connection.reconnect_needed', { user: facts.userId, app: facts.app, cause: facts.cause });
    },
    connectionRecovered(facts) {
      events.connectionRecovered(facts);
      announce('connection.recovered', { user: facts.userId, app: facts.app });
    },
    connectionRemoved(facts) {
      events.connectionRemoved(facts);
      announce('connection.removed', { user: facts.userId, app: facts.app, revocation: facts.revocation });
    },
  };
}
