/** Views of webhooks and their last messages for the administration. */
import { z } from 'zod';
import { isoOrNull, isoTime } from '../../time.ts';
import type { WebhookMessage } from '../../webhooks/messages.ts';
import { WEBHOOK_EVENTS, type Webhook, type WebhookStore } from '../../webhooks/webhook-store.ts';
import { type ListQuery, matches, pageOptions } from '../listing.ts';

export const webhookAnswer = z.object({
  id: z.string(),
  version: z.int(),
  url: z.string(),
  events: z.array(z.enum(WEBHOOK_EVENTS)),
  enabled: z.boolean(),
  createdAt: z.iso.datetime(),
});

export const messageAnswer = z.object({
  id: z.string(),
  event: z.enum(WEBHOOK_EVENTS),
  state: z.enum(['waiting', 'taken', 'given_up']),
  createdAt: z.iso.datetime(),
  nextAt: z.iso.datetime().nullable(),
  tries: z.array(z.object({ at: z.iso.datetime(), answer: z.string().describe('the status, or why there was none') })),
});

export type WebhookView = z.output<typeof webhookAnswer>;
export type MessageView = z.output<typeof messageAnswer>;

/** A page of them, the newest first. */
export async function listedWebhooks(
  webhooks: Pick<WebhookStore, 'page'>,
  query: ListQuery,
): Promise<{ items: WebhookView[]; next?: string }> {
  const isMeant = ({ id, url }: Webhook) => matches(query.q, id, url);
  const { items, ...rest } = await webhooks.page({ ...pageOptions(query), isMeant });
  return { items: items.map(webhookView), ...rest };
}

export function webhookView({ createdAt, events, ...webhook }: Webhook): WebhookView {
  return { ...webhook, events: [...events], createdAt: isoTime(createdAt) };
}

export function messageView({ id, event, state, createdAt, nextAt, tries }: WebhookMessage): MessageView {
  return {
    ...{ id, event, state, createdAt: isoTime(createdAt), nextAt: isoOrNull(nextAt) },
    tries: tries.map(({ at, answer }) => ({ at: isoTime(at), answer })),
  };
}
