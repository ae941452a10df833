/** Webhooks in the administration, by page and by API: their URLs, their events, their secrets, and the messages of each. */
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { listOf } from '../../../shared/http/list-schema.ts';
import { operation } from '../../../shared/http/operation.ts';
import { type FormView, formHandler, recordVersion, ticked } from '../../../shared/pages/form.ts';
import type { Notice } from '../../../shared/pages/page-data.ts';
import { webhookAnswerText } from '../../../shared/pages/words.ts';
import { MESSAGE_STATES, type WebhookMessage } from '../../webhooks/message.ts';
import { WEBHOOK_EVENTS, type Webhook } from '../../webhooks/webhook-store.ts';
import type { PageList } from '../list.ts';
import { rotationForm } from '../overlap.ts';
import type { AdminPageData, AdminPageOfList, PageRequest } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { createResource } from '../resource.ts';
import { hostOf, webhookChanges } from './changes.ts';
import { MESSAGE_COLUMNS, type MessageRow, WEBHOOK_COLUMNS, type WebhookRow } from './columns.ts';
import {
  changedWebhook,
  type MessageView,
  messageJson,
  messageQuery,
  messageView,
  newWebhook,
  type WebhookView,
  webhookJson,
  webhookRotation,
  webhookView,
  wholeMessageJson,
} from './view.ts';
import { stateOf, WEBHOOK_STATES, webhooksWithHealth } from './with-health.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/webhooks/list': AdminPageOfList & { webhooks: readonly WebhookRow[]; events: readonly string[] };
    'admin/webhooks/new': AdminPageData & { events: readonly string[]; form: FormView<typeof newForm> };
    'admin/webhooks/one': AdminPageOfList & {
      webhook: WebhookView;
      messages: readonly MessageRow[];
      events: readonly string[];
      form: FormView<typeof changeForm>;
      rotation: FormView<typeof rotationForm>;
    };
    'admin/webhooks/message': AdminPageData & { webhook: WebhookView; message: MessageView; body: string };
  }
}

/** Of the two forms on a webhook's page, the one with faults. */
interface WebhookForms {
  form?: FormView<typeof changeForm>;
  rotation?: FormView<typeof rotationForm>;
}

const secret = { secret: z.string().describe('only this response contains it') };

const newForm = z.object({ url: z.string().trim().max(2_000), events: newWebhook.shape.events });
const changeForm = newForm.extend({ enabled: ticked, version: recordVersion });

const EMPTY_FORM: FormView<typeof newForm> = { values: { url: '', events: WEBHOOK_EVENTS }, faults: [] };
const FIRST_ROTATION: FormView<typeof rotationForm> = { values: { overlapHours: '24' }, faults: [] };

export function webhookRoutes(parts: AdminParts) {
  const { pages, outbound } = parts;
  const { registered, messages } = parts.webhooks;
  const { withHealth, ...records } = webhooksWithHealth(parts.webhooks);

  const resource = createResource(parts, {
    name: 'webhook',
    records,
    nameOf: (webhook) => hostOf(webhook),
    // Several may have the same host.
    shownAs: (webhook) => `${hostOf(webhook)} (${webhook.id.slice(0, 8)})`,
    textsOf: ({ id, url }) => [id, url],
    filters: {
      event: { schema: z.enum(WEBHOOK_EVENTS), accepts: ({ events }, event) => events.some((one) => one === event) },
      state: { schema: z.enum(WEBHOOK_STATES), accepts: (webhook, state) => stateOf(webhook) === state },
    },
    schema: webhookJson,
    toJson: webhookView,
  });
  const { create, change, rotate, test, resend, message } = webhookChanges({
    resource,
    withHealth,
    webhooks: parts.webhooks,
    examine: outbound.examine,
  });
  const removal = resource.removal({
    summary: 'Delete a webhook; its pending messages are not sent',
    event: 'webhook.deleted',
    verb: 'Delete',
    consequences: ['Nothing more is sent to it. Its messages are deleted, also those that wait.'],
    notice: (count) => `${count === 1 ? 'Webhook' : `${count} webhooks`} deleted. Pending messages are not sent.`,
    async work(id) {
      const isRemoved = await registered.remove(id);
      await messages.forget(id);
      return isRemoved;
    },
  });
  const messagesOf = async ({ id }: Pick<Webhook, 'id'>, query: z.output<typeof messageQuery>) => {
    const { items, ...rest } = await messages.page(id, query);
    return { items: items.map(messageView), ...rest };
  };

  /** Undefined where an export was sent in place of the page. */
  const listedMessages = async (
    req: Request,
    res: Response,
    webhook: Webhook,
  ): Promise<{ messages: MessageRow[]; list: PageList } | undefined> => {
    const found = await pages.list(req, res, {
      name: 'webhook-messages',
      fields: ['state'],
      columns: MESSAGE_COLUMNS,
      path: `${resource.home}/${webhook.id}`,
      read: ({ state, ...place }) =>
        messagesOf(webhook, { ...place, state: MESSAGE_STATES.find((one) => one === state) }),
    });
    if (!found) return undefined;
    return { messages: found.items.map((sent) => ({ ...sent, webhook: webhook.id })), list: found.list };
  };

  const list = pages.page('admin/webhooks/list', async ({ req, res }) => {
    const found = await resource.pageFor(req, res, WEBHOOK_COLUMNS);
    if (!found) return undefined;
    const ofHost = Object.groupBy(found.items, ({ url }) => new URL(url).host);
    const rows = found.items.map((webhook) => {
      return { ...webhook, sharesHost: (ofHost[new URL(webhook.url).host] ?? []).length > 1 };
    });
    return { title: 'Webhooks', webhooks: rows, list: found.list, events: WEBHOOK_EVENTS };
  });

  const newPage = pages.page(
    'admin/webhooks/new',
    async ({ form = EMPTY_FORM }: PageRequest<FormView<typeof newForm>>) => {
      return { title: 'Create webhook', faults: form.faults, events: WEBHOOK_EVENTS, form };
    },
  );

  const one = pages.page('admin/webhooks/one', async ({ req, res, form: forms = {} }: PageRequest<WebhookForms>) => {
    const webhook = await resource.find(req);
    const listed = await listedMessages(req, res, webhook);
    if (!listed) return undefined;
    const { form = { values: valuesOf(webhook), faults: [] }, rotation = FIRST_ROTATION } = forms;
    return {
      title: webhook.url,
      faults: [...form.faults, ...rotation.faults],
      webhook: webhookView(webhook),
      ...listed,
      events: WEBHOOK_EVENTS,
      form,
      rotation,
    };
  });

  const messagePage = pages.page('admin/webhooks/message', async ({ req }) => {
    const { webhook, message: found } = await message(req);
    return {
      title: 'Message',
      webhook: webhookView(webhook),
      message: messageView(found),
      body: JSON.stringify(JSON.parse(found.body), null, 2),
    };
  });

  /** Sends a message and shows it, with the result. A double click sends it once. */
  const sendByForm =
    (send: (req: Request) => Promise<WebhookMessage>, what: string): RequestHandler =>
    (req, res) =>
      pages.redirectAfter(req, res, async () => {
        const sent = await send(req);
        const url = `${resource.home}/${sent.webhook}/messages/${sent.id}`;
        return { url, flash: { notice: noticeOf(sent, what) } };
      });

  return {
    page: list.handler,
    newPage: newPage.handler,
    onePage: one.handler,
    messagePage: messagePage.handler,

    createByForm: formHandler({
      pages,
      schema: newForm,
      async work(req, wanted) {
        const { item, secret: text } = await create(req, { ...wanted, enabled: true });
        return { url: `${resource.home}/${item.id}`, flash: { notice: CREATED, made: { name: item.url, text } } };
      },
      show: newPage.show,
    }),

    changeByForm: formHandler({
      pages,
      schema: changeForm,
      async work(req, wanted) {
        const { item } = await change(req, wanted);
        return { url: `${resource.home}/${item.id}`, flash: { notice: CHANGED } };
      },
      show: (req, res, form) => one.show(req, res, { form }),
    }),

    rotateByForm: formHandler({
      pages,
      schema: rotationForm,
      async work(req, { overlapHours }) {
        const { item, secret: text } = await rotate(req, { overlapSeconds: overlapHours * 3_600 });
        return { url: `${resource.home}/${item.id}`, flash: { notice: ROTATED, made: { name: item.url, text } } };
      },
      show: (req, res, form) => one.show(req, res, { rotation: form }),
    }),

    testByForm: sendByForm(test, 'Test message'),
    resendByForm: sendByForm(resend, 'Message'),

    askRemove: removal.ask,
    removeByForm: removal.byForm,

    list: resource.list,
    one: resource.one,
    messages: operation(
      {
        summary: 'List the last messages of a webhook, newest first',
        query: messageQuery,
        response: listOf(messageJson),
      },
      async ({ req, query }) => messagesOf(await resource.find(req), query),
    ),
    message: operation(
      { summary: 'Read a message of a webhook, with its attempts and their responses', response: wholeMessageJson },
      async ({ req }) => messageView((await message(req)).message),
    ),
    resend: operation(
      { summary: 'Send a message of a webhook again, now and once', response: wholeMessageJson },
      async ({ req }) => messageView(await resend(req)),
    ),
    test: operation(
      { summary: 'Send a test message to a webhook, now and once', response: wholeMessageJson },
      async ({ req }) => messageView(await test(req)),
    ),
    create: resource.create({
      summary: 'Create a webhook; only this response contains the secret that signs its messages',
      body: newWebhook,
      added: secret,
      work: create,
    }),
    replace: resource.change({ summary: 'Change a webhook', body: changedWebhook, work: change }),
    rotate: resource.change({
      summary: 'Give a webhook a new secret; only this response contains it',
      body: webhookRotation,
      added: secret,
      work: rotate,
    }),
    remove: removal.byApi,
  };
}

const CREATED: Notice = {
  tone: 'success',
  text: 'Webhook created. Copy its signing secret, then send a test message.',
};
const CHANGED: Notice = { tone: 'success', text: 'Saved.' };
const ROTATED: Notice = { tone: 'success', text: 'The webhook has a new secret.' };

/** Of the last attempt, which an administrator has made. */
function noticeOf({ tries }: WebhookMessage, what: string): Notice {
  const answer = tries.at(-1)?.answer ?? '';
  const isDelivered = /^2\d\d$/.test(answer);
  const response = /^\d+$/.test(answer) ? `The receiver responded with ${answer}.` : `${webhookAnswerText(answer)}.`;
  return {
    tone: isDelivered ? 'success' : 'warning',
    text: `${what} ${isDelivered ? 'delivered' : 'not delivered'}. ${response}`,
  };
}

function valuesOf({ url, events, enabled, version }: Webhook): FormView<typeof changeForm>['values'] {
  return { url, events, enabled: enabled ? 'yes' : '', version: String(version) };
}
