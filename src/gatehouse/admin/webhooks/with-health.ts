/** Adds the health to webhooks. It is not part of their records, because each attempt writes it. */
import type { MatchingOptions } from '../../../shared/storage/matching-page.ts';
import type { WebhookHealth } from '../../webhooks/health.ts';
import type { Webhook } from '../../webhooks/webhook-store.ts';
import type { Webhooks } from '../../webhooks/webhooks.ts';

export interface HealthyWebhook extends Webhook {
  health: WebhookHealth;
}

export const WEBHOOK_STATES = ['active', 'failing', 'disabled'] as const;

export function stateOf({ disabled, health }: HealthyWebhook): (typeof WEBHOOK_STATES)[number] {
  if (disabled) return 'disabled';
  return health.failingSince === undefined ? 'active' : 'failing';
}

export function webhooksWithHealth({ registered, healths }: Pick<Webhooks, 'registered' | 'healths'>) {
  const withHealth = async (webhook: Webhook): Promise<HealthyWebhook> => ({
    ...webhook,
    health: await healths.of(webhook.id),
  });
  return {
    withHealth,
    count: registered.count,
    async find(id: string): Promise<HealthyWebhook | undefined> {
      const webhook = await registered.find(id);
      return webhook && withHealth(webhook);
    },
    /** Reads a page. The health of every webhook is read, because the filter may need it and there are few webhooks. */
    async page({ filter = () => true, ...options }: MatchingOptions<HealthyWebhook>) {
      const { items: allWebhooks } = await registered.page({ limit: Number.POSITIVE_INFINITY });
      const byId = new Map((await Promise.all(allWebhooks.map(withHealth))).map((webhook) => [webhook.id, webhook]));
      const matches = ({ id }: Webhook) => {
        const webhook = byId.get(id);
        return webhook !== undefined && filter(webhook);
      };
      const { items, ...rest } = await registered.page({ ...options, filter: matches });
      return { items: items.flatMap(({ id }) => byId.get(id) ?? []), ...rest };
    },
  };
}
