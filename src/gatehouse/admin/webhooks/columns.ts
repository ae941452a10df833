/** Columns of the lists of webhooks and of the messages of a webhook. */
import { webhookAttemptText, webhookEventText } from '../../../shared/pages/words.ts';
import type { Columns } from '../columns.ts';
import type { MessageView, WebhookView } from './view.ts';

declare module '../columns.ts' {
  interface CellViews {
    '/admin/webhooks/url': { webhook: WebhookRow };
    '/admin/webhooks/health': { webhook: WebhookRow };
    '/admin/webhooks/message-state': { message: MessageRow; withNext: true };
  }
}

/** `sharesHost` is true if another webhook on the same page has the same host. */
export type WebhookRow = WebhookView & { sharesHost: boolean };

export const WEBHOOK_COLUMNS: Columns<WebhookView, WebhookRow> = [
  {
    name: 'URL',
    width: 'wide',
    csv: ({ url }) => url,
    cell: (webhook) => ({ view: '/admin/webhooks/url', data: { webhook } }),
  },
  { name: 'ID', csv: ({ id }) => id },
  {
    name: 'Events',
    isBelow: true,
    csv: ({ events }) => events.join(' '),
    cell: ({ events }) => ({ text: events.map(webhookEventText).join(', ') }),
  },
  { name: 'State', csv: ({ state }) => state },
  { name: 'Failing since', csv: ({ failingSince }) => failingSince },
  { name: 'State', width: 'health', cell: (webhook) => ({ view: '/admin/webhooks/health', data: { webhook } }) },
  {
    name: 'Last response',
    width: 'time',
    label: 'Last response',
    csv: ({ lastAttempt }) => lastAttempt?.status ?? lastAttempt?.error,
    cell: ({ lastAttempt }) => ({ words: lastAttempt ? webhookAttemptText(lastAttempt) : '–' }),
  },
  {
    name: 'Last sent',
    width: 'ago',
    label: 'Last sent',
    csv: ({ lastAttempt }) => lastAttempt?.at,
    cell: ({ lastAttempt }) => ({ time: lastAttempt?.at, fallback: 'Never' }),
  },
];

/** `webhook` is its id. */
export type MessageRow = MessageView & { webhook: string };

export const MESSAGE_COLUMNS: Columns<MessageView, MessageRow> = [
  { name: 'ID', csv: ({ id }) => id },
  {
    name: 'Event',
    width: 'wide',
    csv: ({ event }) => event,
    cell: ({ id, webhook, event }) => ({ path: `webhooks/${webhook}/messages/${id}`, words: webhookEventText(event) }),
  },
  {
    name: 'State',
    csv: ({ state }) => state,
    cell: (message) => ({ view: '/admin/webhooks/message-state', data: { message, withNext: true } }),
  },
  {
    name: 'Last response',
    label: 'Response',
    csv: ({ attempts }) => attempts.at(-1)?.status ?? attempts.at(-1)?.error,
    cell: ({ attempts }) => ({ words: lastText(attempts) }),
  },
  {
    name: 'Attempts',
    width: 'time',
    label: 'Attempts',
    csv: ({ attempts }) => attempts.length,
    cell: ({ attempts }) => ({ words: String(attempts.length) }),
  },
  {
    name: 'Created',
    width: 'time',
    label: 'Created',
    csv: ({ createdAt }) => createdAt,
    cell: ({ createdAt }) => ({ time: createdAt }),
  },
  { name: 'Next attempt', csv: ({ nextAt }) => nextAt },
];

function lastText(attempts: MessageView['attempts']): string {
  const last = attempts.at(-1);
  return last ? webhookAttemptText(last) : '–';
}
