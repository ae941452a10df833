/** The JSON of webhooks, for input and output, and of their messages. */
import { z } from 'zod';
import { pageQuery } from '../../../shared/http/list-schema.ts';
import { isoOrNull, isoTime } from '../../../shared/time.ts';
import { MESSAGE_STATES, TEST_EVENT, type WebhookMessage } from '../../webhooks/message.ts';
import { WEBHOOK_EVENTS } from '../../webhooks/webhook-store.ts';
import { namedMembers } from '../named-members.ts';
import { type HealthyWebhook, stateOf, WEBHOOK_STATES } from './with-health.ts';

export const newWebhook = z.strictObject({
  url: z.string().max(2_000),
  events: z.array(z.enum(WEBHOOK_EVENTS)).min(1, 'Choose at least one event.'),
  disabled: z.boolean().default(false).describe('true: nothing is sent or queued for it, except test messages'),
});
export const changedWebhook = z.strictObject({ ...namedMembers(newWebhook.shape), version: z.int() });

const response = {
  at: z.iso.datetime(),
  status: z.int().nullable().describe('the status of the response; null: there was none'),
  error: z.string().nullable().describe('why there was no response'),
};

export const webhookJson = z.object({
  id: z.string(),
  version: z.int(),
  url: z.string(),
  events: z.array(z.enum(WEBHOOK_EVENTS)),
  disabled: z.boolean(),
  state: z.enum(WEBHOOK_STATES).describe('"failing": every attempt since the last success has failed'),
  createdAt: z.iso.datetime(),
  overlapEndsAt: z.iso.datetime().nullable().describe('when the previous secret stops signing messages'),
  failingSince: z.iso
    .datetime()
    .nullable()
    .describe('the first of the attempts that have failed since the last success'),
  lastAttempt: z.object(response).nullable(),
});

export const messageQuery = pageQuery.extend({ state: z.enum(MESSAGE_STATES).optional() });

const attempt = z.object({
  ...response,
  manual: z.boolean().describe('an administrator sent it, in addition to the automatic attempts'),
});

export const messageJson = z.object({
  id: z.string(),
  event: z.enum([...WEBHOOK_EVENTS, TEST_EVENT]),
  state: z.enum(MESSAGE_STATES),
  createdAt: z.iso.datetime(),
  nextAt: z.iso.datetime().nullable(),
  attempts: z.array(attempt),
});

export const wholeMessageJson = messageJson.extend({
  body: z.string().describe('the JSON that is sent'),
  attempts: z.array(
    attempt.extend({ responseBody: z.string().nullable().describe('the first 1,000 characters of the response') }),
  ),
});

export type WebhookView = z.output<typeof webhookJson>;
export type MessageView = z.output<typeof wholeMessageJson>;

export function webhookView(healthyWebhook: HealthyWebhook): WebhookView {
  const { createdAt, events, overlapEndsAt, health, ...webhook } = healthyWebhook;
  const { failingSince, last } = health;
  return {
    ...webhook,
    state: stateOf(healthyWebhook),
    events: [...events],
    createdAt: isoTime(createdAt),
    overlapEndsAt: isoOrNull(overlapEndsAt),
    failingSince: isoOrNull(failingSince),
    lastAttempt: last ? { at: isoTime(last.at), status: last.status ?? null, error: last.error ?? null } : null,
  };
}

export function messageView({ id, event, state, body, createdAt, nextAt, attempts }: WebhookMessage): MessageView {
  return {
    id,
    event,
    state,
    body,
    createdAt: isoTime(createdAt),
    nextAt: isoOrNull(nextAt),
    attempts: attempts.map(({ at, status, error, manual, responseBody }) => ({
      at: isoTime(at),
      status: status ?? null,
      error: error ?? null,
      manual: manual === true,
      responseBody: responseBody ?? null,
    })),
  };
}
