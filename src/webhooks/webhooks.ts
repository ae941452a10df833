/** Makes the webhooks: their records, and the messages sent to them when a connection changes. */
import type { Audit } from '../audit/audit.ts';
import type { EventSource } from '../observability/events.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { SealedJson } from '../storage/sealed-json.ts';
import type { Store } from '../storage/store.ts';
import { announcedEvents } from './announced-events.ts';
import { createWebhookMessages, type WebhookMessages } from './messages.ts';
import { startWebhookSender } from './sender.ts';
import { createWebhookStore, type WebhookStore } from './webhook-store.ts';

export interface Webhooks {
  registered: WebhookStore;
  messages: Pick<WebhookMessages, 'latest'>;
  /** Resolves once everything announced is stored and the current round of sending has ended. */
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
  const messages = createWebhookMessages({ store, webhooks: registered, outbound, audit, clock, random });
  events.listen(announcedEvents(messages.announce));
  const sender = startWebhookSender({ store, messages, clock });
  return {
    registered,
    messages,
    async close() {
      await Promise.all([messages.settle(), sender.stop()]);
    },
  };
}
