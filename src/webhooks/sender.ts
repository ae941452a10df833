/** Sends webhook messages in the background, in one process at a time, and without a write while nothing is due. */
import { keys } from '../storage/keys.ts';
import { createLeases } from '../storage/lease.ts';
import type { Store } from '../storage/store.ts';
import type { WebhookMessages } from './messages.ts';

const INTERVAL_MS = 1_000;
const LEASE_MS = 30_000;

export function startWebhookSender(parts: { store: Store; messages: WebhookMessages; clock: () => number }): {
  /** Starts no further round, and resolves once the current one has ended. */
  stop(): Promise<void>;
} {
  const { store, messages, clock } = parts;
  const leases = createLeases({ store, milliseconds: LEASE_MS });
  let round: Promise<unknown> | undefined;

  const sendDue = async (): Promise<void> => {
    const { items } = await store.page(keys.webhookDue, { limit: 1 });
    const [first] = items;
    if (first && first.score <= clock()) await leases.hold(keys.choreLease('send-webhooks'), messages.deliver);
  };
  const timer = setInterval(() => {
    // A failed round is repeated by the next one.
    round ??= sendDue()
      .catch(() => undefined)
      .finally(() => {
        round = undefined;
      });
  }, INTERVAL_MS).unref();

  return {
    async stop() {
      clearInterval(timer);
      await round;
    },
  };
}
