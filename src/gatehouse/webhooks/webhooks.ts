/** Creates the stores of webhooks, their health and their messages, and announces changes of connections. */

import type { EventListener, EventSource } from '../../shared/observability/events.ts';
import type { Outbound } from '../../shared/outbound/outbound.ts';
import type { ScheduledTask } from '../../shared/storage/scheduled-task.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { Audit } from '../audit/audit.ts';
import { createWebhookHealths, type WebhookHealths } from './health.ts';
import { createWebhookMessages, type WebhookMessages } from './messages.ts';
import { createWebhookStore, type WebhookStore } from './webhook-store.ts';

export interface Webhooks {
  /** The registered webhooks. */
  registered: WebhookStore;
  healths: WebhookHealths;
  messages: WebhookMessages;
  scheduledTasks: readonly ScheduledTask[];
  /** Stores the messages of announced events. Gives up after a few seconds. */
  close(): Promise<void>;
}

export function createWebhooks(parts: {
  storage: { store: Store; sealedJson: SealedJson };
  outbound: Outbound;
  audit: Pick<Audit, 'note'>;
  events: EventSource;
  clock: () => number;
  random: () => number;
}): Webhooks {
  const { storage, outbound, audit, events, clock, random } = parts;
  const { store, sealedJson } = storage;
  const registered = createWebhookStore({ store, sealedJson, clock });
  const healths = createWebhookHealths({ store });
  const messages = createWebhookMessages({
    store,
    webhooks: registered,
    outbound,
    healths,
    audit,
    clock,
    random,
    onLost: (count) => events.announcementsLost({ events: count }),
  });
  events.listen(connectionEvents(messages.announce));
  const sendTask: ScheduledTask = {
    name: 'send-webhooks',
    everyMilliseconds: 1_000,
    isDue: messages.isDue,
    work: messages.deliver,
  };
  return {
    registered,
    healths,
    messages,
    scheduledTasks: [sendTask],
    close: messages.close,
  };
}

/** Returns a listener that announces the events of connections to webhooks. */
function connectionEvents(announce: WebhookMessages['announce']): EventListener {
  return {
    connectionCreated(facts) {
      announce('connection.created', { ...idsOf(facts), ...(facts.link && { connectLink: facts.link }) });
    },
    reconnectNeeded(facts) {
      announce('connection.reconnect_needed', { ...idsOf(facts), cause: facts.cause });
    },
    connectionRecovered(facts) {
      announce('connection.recovered', idsOf(facts));
    },
    scopesMissing(facts) {
      announce('connection.scopes_missing', { ...idsOf(facts), missingScopes: facts.scopes });
    },
    connectionRemoved(facts) {
      announce('connection.removed', { ...idsOf(facts), revocation: facts.revocation });
    },
  };
}

function idsOf({ userId, app, connection }: { userId: string; app: string; connection: string | undefined }) {
  return { userId, app, connection: connection ?? null };
}
