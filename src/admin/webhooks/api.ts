/** Webhooks in the API of the administration. */
import { z } from 'zod';
import { type DescribedHandler, operation } from '../../http/operation.ts';
import type { WebhookMessages } from '../../webhooks/messages.ts';
import type { WebhookStore } from '../../webhooks/webhook-store.ts';
import { listOf, listQuery } from '../listing.ts';
import { changedWebhook, type WebhookChanges, wantedWebhook } from './changes.ts';
import { listedWebhooks, messageAnswer, messageView, webhookAnswer, webhookView } from './view.ts';

export interface WebhookApi {
  list: DescribedHandler;
  one: DescribedHandler;
  messages: DescribedHandler;
  create: DescribedHandler;
  replace: DescribedHandler;
  remove: DescribedHandler;
}

export function webhookApi(parts: {
  webhooks: Pick<WebhookStore, 'page'>;
  messages: Pick<WebhookMessages, 'latest'>;
  changes: WebhookChanges;
  basePath: string;
}): WebhookApi {
  const { webhooks, messages, changes, basePath } = parts;
  const { find, create, change, remove } = changes;

  return {
    list: operation(
      { summary: 'List webhooks, the newest first', query: listQuery, answer: listOf(webhookAnswer) },
      ({ query }) => listedWebhooks(webhooks, query),
    ),
    one: operation({ summary: 'Read a webhook', answer: webhookAnswer }, async ({ req }) =>
      webhookView(await find(String(req.params.id))),
    ),
    messages: operation(
      { summary: 'List the last messages of a webhook, the newest first', answer: listOf(messageAnswer) },
      async ({ req }) => {
        const { id } = await find(String(req.params.id));
        return { items: (await messages.latest(id)).map(messageView) };
      },
    ),
    create: operation(
      {
        summary: 'Make a webhook; only this answer ever holds the secret that its messages are signed with',
        body: wantedWebhook,
        answer: webhookAnswer.extend({ secret: z.string() }),
        status: 201,
      },
      async ({ req, res, body }) => {
        const { webhook, secret } = await create(req, body);
        res.set('Location', `${basePath}/admin/api/webhooks/${webhook.id}`);
        return { ...webhookView(webhook), secret };
      },
    ),
    replace: operation(
      { summary: 'Change a webhook', body: changedWebhook, answer: webhookAnswer },
      async ({ req, body }) => webhookView(await change(req, String(req.params.id), body)),
    ),
    remove: operation({ summary: 'Delete a webhook; what waits for it is not sent any more' }, ({ req }) =>
      remove(req),
    ),
  };
}
