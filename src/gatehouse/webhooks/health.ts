/** Stores the health of webhooks: the latest attempt of each, and since when every attempt has failed. */
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { DeliveryAttempt } from './message.ts';

type LastAttempt = Pick<DeliveryAttempt, 'at' | 'status' | 'error'>;

export interface WebhookHealth {
  /** The time of the first failed attempt since the last successful one. */
  failingSince: number | undefined;
  last: LastAttempt | undefined;
}

export interface WebhookHealths {
  /**
   * Stores the result of an attempt. It reads nothing first, so attempts that end at the same time cannot undo each
   * other.
   */
  note(webhook: string, at: number, attempt: Omit<LastAttempt, 'at'> & { isDelivered: boolean }): Promise<void>;

  of(webhook: string): Promise<WebhookHealth>;

  /** Deletes the health of a webhook whose URL changes. */
  forget(webhook: string): Promise<void>;
}

export function createWebhookHealths({ store }: { store: Store }): WebhookHealths {
  const read = async <T>(key: string): Promise<T | undefined> => {
    const record = await store.get(key);
    return record && (JSON.parse(record.value) as T);
  };

  return {
    async note(webhook, at, { status, error, isDelivered }) {
      const [lastKey, failingKey] = [keys.webhookResponse(webhook), keys.webhookFailing(webhook)];
      // Writes nothing if the webhook was deleted in the meantime.
      const ifExists = { exists: keys.webhook(webhook) };
      const put = { put: lastKey, value: JSON.stringify({ at, status, error }) };
      await store.write(isDelivered ? [ifExists, put, { delete: failingKey }] : [ifExists, put]);
      if (isDelivered) return;
      // This write is refused if an earlier attempt has already failed.
      await store.write([ifExists, { put: failingKey, value: JSON.stringify({ since: at }), ifVersion: 0 }]);
    },

    async of(webhook) {
      const [failing, last] = await Promise.all([
        read<{ since: number }>(keys.webhookFailing(webhook)),
        read<LastAttempt>(keys.webhookResponse(webhook)),
      ]);
      return { failingSince: failing?.since, last };
    },

    async forget(webhook) {
      await store.write([{ delete: keys.webhookResponse(webhook) }, { delete: keys.webhookFailing(webhook) }]);
    },
  };
}
