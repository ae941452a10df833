/** Makes the webhooks: their records, and the messages sent to them when a connection changes. */

import type { EventSource } from '../../shared/observability/events.ts';
import type { Outbound } from '../../shared/outbound/outbound.ts';
import type { Chore } from '../../shared/storage/chore.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { Audit } from '../audit/audit.ts';
import { announcedEvents } from './announced-events.ts';
import { createWebhookHealths } from './health.ts';
import { createWebhookMessages } from './messages.ts';
import { createWebhookStore } from './webhook-store.ts';

export type Webhooks = ReturnType<typeof createWebhooks>;

export function createWebhooks(parts: {
  storage: { store: Store; sealedJson: SealedJson };
  outbound: Outbound;
  audit: Pick<Audit, 'note'>;
  events: EventSource;
  clock: () => number;
  random: () => number;
}) {
  const { storage, outbound, audit, events, clock, random } = parts;
  const { store, sealedJson } = storage;
  const registered = createWebhookStore({ store, sealedJson, clock });
  const healths = createWebhookHealths({ store });
  const messages = createWebhookMessages({
    ...{ store, webhooks: registered, outbound, healths, audit, clock, random },
    lost: (announcements) => events.announcementsLost({ announcements }),
  });
  events.listen(announcedEvents(messages.announce));
  const send: Chore = {
    name: 'send-webhooks',
    everyMilliseconds: 1_000,
    isDue: messages.isDue,
    work: messages.deliver,
  };
  return {
    registered,
    healths,
    messages,
    chores: [send],
    close: messages.close,
  };
}
