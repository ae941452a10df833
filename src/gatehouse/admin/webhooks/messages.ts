/** Messages of a webhook, by page and by API: list, read with the attempts, send again, and send a test. */
import type { Request, RequestHandler, Response } from 'express';
import type { z } from 'zod';
import { listOf } from '../../../shared/http/list-schema.ts';
import { operation } from '../../../shared/http/operation.ts';
import type { Notice } from '../../../shared/pages/page-data.ts';
import { webhookAttemptText } from '../../../shared/pages/words.ts';
import { isAccepted, type WebhookMessage } from '../../webhooks/message.ts';
import type { Webhook } from '../../webhooks/webhook-store.ts';
import type { Webhooks } from '../../webhooks/webhooks.ts';
import type { PageList } from '../list.ts';
import type { AdminPageData, AdminPages } from '../page.ts';
import { type Resource, throwUnknown } from '../resource.ts';
import { webhookTarget } from './changes.ts';
import { MESSAGE_COLUMNS, type MessageRow } from './columns.ts';
import {
  type MessageView,
  messageJson,
  messageQuery,
  messageView,
  type WebhookView,
  type webhookJson,
  webhookView,
  wholeMessageJson,
} from './view.ts';
import type { HealthyWebhook } from './with-health.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/webhooks/message': AdminPageData & { webhook: WebhookView; message: MessageView; body: string };
  }
}

export function webhookMessageRoutes(parts: {
  resource: Resource<HealthyWebhook, typeof webhookJson>;
  messages: Webhooks['messages'];
  pages: AdminPages;
}) {
  const { resource, messages, pages } = parts;

  const readPage = async ({ id }: Pick<Webhook, 'id'>, query: z.output<typeof messageQuery>) => {
    const { items, ...rest } = await messages.page(id, query);
    return { items: items.map(messageView), ...rest };
  };

  /** Finds the webhook and the message that the path names. */
  const find = async (req: Request): Promise<{ webhook: HealthyWebhook; message: WebhookMessage }> => {
    const webhook = await resource.find(req);
    const message = await messages.find(webhook.id, String(req.params.message));
    return { webhook, message: message ?? throwUnknown('message of this webhook') };
  };

  const test = async (req: Request): Promise<WebhookMessage> => {
    const webhook = await resource.find(req);
    return resource.audited(req, 'webhook.tested', webhookTarget(webhook), () => messages.test(webhook.id));
  };

  const resend = async (req: Request): Promise<WebhookMessage> => {
    const { webhook, message } = await find(req);
    const { id, event } = message;
    const work = () => messages.resend(webhook.id, id);
    const facts = { message: id, event };
    return resource.audited(req, 'webhook.message_resent', webhookTarget(webhook), work, facts);
  };

  const detailPage = pages.page('admin/webhooks/message', async ({ req }) => {
    const { webhook, message } = await find(req);
    return {
      title: 'Message',
      webhook: webhookView(webhook),
      message: messageView(message),
      body: JSON.stringify(JSON.parse(message.body), null, 2),
    };
  });

  /** Sends a message, once even for a double click, and shows it with the result. */
  const sendByForm =
    (send: (req: Request) => Promise<WebhookMessage>, label: string): RequestHandler =>
    (req, res) =>
      pages.redirectAfter(req, res, async () => {
        const message = await send(req);
        const url = `${resource.home}/${message.webhook}/messages/${message.id}`;
        return { url, flash: { notice: noticeOf(message, label) } };
      });

  return {
    /** Reads the messages for the page of the webhook, as `AdminPages.list` does. */
    async pageFor(
      req: Request,
      res: Response,
      webhook: Webhook,
    ): Promise<{ messages: MessageRow[]; list: PageList } | undefined> {
      const result = await pages.list(req, res, {
        name: 'webhook-messages',
        fields: ['state'],
        query: messageQuery,
        columns: MESSAGE_COLUMNS,
        path: `${resource.home}/${webhook.id}`,
        read: (query) => readPage(webhook, query),
      });
      if (!result) return undefined;
      return { messages: result.items.map((message) => ({ ...message, webhook: webhook.id })), list: result.list };
    },

    detailPage: detailPage.handler,
    testByForm: sendByForm(test, 'Test message'),
    resendByForm: sendByForm(resend, 'Message'),

    list: operation(
      {
        summary: 'List the last messages of a webhook, newest first',
        query: messageQuery,
        response: listOf(messageJson),
      },
      async ({ req, query }) => readPage(await resource.find(req), query),
    ),
    read: operation(
      { summary: 'Read a message of a webhook, with its attempts and their responses', response: wholeMessageJson },
      async ({ req }) => messageView((await find(req)).message),
    ),
    resend: operation(
      { summary: 'Send a message of a webhook again, now and once', response: wholeMessageJson },
      async ({ req }) => messageView(await resend(req)),
    ),
    test: operation(
      { summary: 'Send a test message to a webhook, now and once', response: wholeMessageJson },
      async ({ req }) => messageView(await test(req)),
    ),
  };
}

/** Returns the notice about the attempt that the administrator has just made. */
function noticeOf({ attempts }: WebhookMessage, label: string): Notice {
  const { status, error } = attempts.at(-1) ?? {};
  const isDelivered = isAccepted(status);
  const response =
    status === undefined ? `${webhookAttemptText({ error })}.` : `The receiver responded with ${status}.`;
  return {
    tone: isDelivered ? 'success' : 'warning',
    text: `${label} ${isDelivered ? 'delivered' : 'not delivered'}. ${response}`,
  };
}
