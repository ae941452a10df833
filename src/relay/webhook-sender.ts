/** Owns the sending of webhook messages in the background: by one process at a time, and without a write while nothing is due. */
import { keys } from '../storage/keys.ts';
import { createLeases } from '../storage/lease.ts';
import type { Store } from '../storage/store.ts';
import type { WebhookMessages } from './webhook-messages.ts';

const LOOK_MILLISECONDS = 1_000;
const LEASE_MILLISECONDS = 30_000;

export function startWebhookSender(parts: { store: Store; messages: WebhookMessages; clock: () => number }): {
  /** Begins no further turn, and resolves once what is being sent is answered. */
  stop(): Promise<void>;
} {
  const { store, messages, clock } = parts;
  const leases = createLeases({ store, milliseconds: LEASE_MILLISECONDS });
  let turn: Promise<unknown> | undefined;

  const look = async (): Promise<void> => {
    const { items } = await store.page(keys.webhookDue, { limit: 1 });
    const [first] = items;
    if (first && first.score <= clock()) await leases.hold(keys.choreLease('send-webhooks'), messages.deliver);
  };
  const timer = setInterval(() => {
    // What fails is done at the next turn.
    turn ??= look()
      .catch(() => undefined)
      .finally(() => {
        turn = undefined;
      });
  }, LOOK_MILLISECONDS).unref();

  return {
    async stop() {
      clearInterval(timer);
      await turn;
    },
  };
}
