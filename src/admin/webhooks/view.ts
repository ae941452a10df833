/** The JSON of webhooks and of their messages, and of what creates or changes a webhook. */
import { z } from 'zod';
import { isoOrNull, isoTime } from '../../time.ts';
import type { WebhookMessage } from '../../webhooks/messages.ts';
import { WEBHOOK_EVENTS, type Webhook } from '../../webhooks/webhook-store.ts';

export const newWebhook = z.strictObject({
  url: z.string().max(2_000),
  events: z.array(z.enum(WEBHOOK_EVENTS)).min(1, 'Choose at least one event.'),
  enabled: z.boolean().default(true),
});
export const changedWebhook = newWebhook.extend({ version: z.int() });

export const webhookJson = z.object({
  id: z.string(),
  version: z.int(),
  url: z.string(),
  events: z.array(z.enum(WEBHOOK_EVENTS)),
  enabled: z.boolean(),
  createdAt: z.iso.datetime(),
});

export const messageJson = z.object({
  id: z.string(),
  event: z.enum(WEBHOOK_EVENTS),
  state: z.enum(['waiting', 'taken', 'given_up']),
  createdAt: z.iso.datetime(),
  nextAt: z.iso.datetime().nullable(),
  tries: z.array(z.object({ at: z.iso.datetime(), answer: z.string().describe('the status, or why there was none') })),
});

export type WebhookView = z.output<typeof webhookJson>;
export type MessageView = z.output<typeof messageJson>;

export function webhookView({ createdAt, events, ...webhook }: Webhook): WebhookView {
  return { ...webhook, events: [...events], createdAt: isoTime(createdAt) };
}

export function messageView({ id, event, state, createdAt, nextAt, tries }: WebhookMessage): MessageView {
  return {
    id,
    event,
    state,
    createdAt: isoTime(createdAt),
    nextAt: isoOrNull(nextAt),
    tries: tries.map(({ at, answer }) => ({ at: isoTime(at), answer })),
  };
}
