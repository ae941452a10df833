/** Lists the members of webhook messages, from messages about events with all their facts and with as few as possible. */

import { newWebhookId, WEBHOOK_EVENTS } from '../../src/gatehouse/webhooks/webhook-store.ts';
import { createWebhooks } from '../../src/gatehouse/webhooks/webhooks.ts';
import type { EventListener, EventSource } from '../../src/shared/observability/events.ts';
import { createSealedJson } from '../../src/shared/storage/sealed-json.ts';
import { makeSealer } from '../support/encryption-keys.ts';
import { createTestStorage } from '../support/test-storage.ts';
import { membersSeen } from './members.ts';

export async function webhookMessages(): Promise<Record<string, Record<string, string>>> {
  const storage = await createTestStorage('SQLite');
  const bodies = await storage.withStore(async (store) => {
    const listeners: EventListener[] = [];
    const webhooks = createWebhooks({
      storage: { store, sealedJson: createSealedJson(makeSealer()) },
      outbound: { fetch: () => Promise.reject(new Error('Nothing is sent.')) } as never,
      audit: { note: () => undefined },
      events: { listen: (listener: EventListener) => void listeners.push(listener) } as unknown as EventSource,
      clock: Date.now,
      random: Math.random,
    });
    const id = newWebhookId();
    await webhooks.registered.create(id, { url: 'https://hook.test/', events: WEBHOOK_EVENTS, disabled: false });
    const ids = { userId: 'u', app: 'a', connection: 'c' };
    for (const listener of listeners) {
      listener.connectionCreated?.({ ...ids, scopes: ['s'] });
      listener.connectionCreated?.({ ...ids, scopes: ['s'], link: 'l' });
      listener.reconnectNeeded?.({ ...ids, cause: 'c' });
      listener.connectionRecovered?.(ids);
      listener.scopesMissing?.({ ...ids, scopes: ['s'] });
      listener.connectionRemoved?.({ ...ids, revocation: 'revoked' });
      listener.connectionRemoved?.({ ...ids, connection: undefined, revocation: 'revoked' });
    }
    await webhooks.messages.settle();
    const { items } = await webhooks.messages.page(id, { limit: 20 });
    await webhooks.close();
    return items.map(({ body }) => JSON.parse(body) as { type: string });
  });
  await storage.dispose();
  const byType = Object.groupBy(bodies, ({ type }) => type);
  return Object.fromEntries(
    Object.entries(byType).map(([type, messages = []]) => [type, membersSeen('body', messages)]),
  );
}
