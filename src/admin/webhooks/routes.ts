/** Webhooks in the administration, by page and by API: their URLs, their events, and the last messages of each. */
import { z } from 'zod';
import { listOf } from '../../http/list-schema.ts';
import { operation } from '../../http/operation.ts';
import { type FormView, formHandler, recordVersion, ticked } from '../../pages/form.ts';
import type { Notice } from '../../pages/page-data.ts';
import { WEBHOOK_EVENTS, type Webhook } from '../../webhooks/webhook-store.ts';
import type { AdminParts } from '../admin.ts';
import type { AdminListData, AdminPageData, PageRequest } from '../page.ts';
import { createResource } from '../resource.ts';
import { hostOf, webhookChanges } from './changes.ts';
import {
  changedWebhook,
  type MessageView,
  messageJson,
  messageView,
  newWebhook,
  type WebhookView,
  webhookJson,
  webhookView,
} from './view.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/webhooks': AdminListData & {
      webhooks: readonly WebhookView[];
      events: readonly string[];
      form: FormView<typeof newForm>;
    };
    'admin/webhook': AdminPageData & {
      webhook: WebhookView;
      messages: readonly MessageView[];
      events: readonly string[];
      form: FormView<typeof changeForm>;
    };
  }
}

const newForm = z.object({ url: z.string().trim().max(2_000), events: newWebhook.shape.events });
const changeForm = newForm.extend({ enabled: ticked, version: recordVersion });

const EMPTY_FORM: FormView<typeof newForm> = { values: { url: '', events: WEBHOOK_EVENTS }, faults: [] };

export function webhookRoutes(parts: AdminParts) {
  const { pages, outbound } = parts;
  const { registered, messages } = parts.webhooks;

  const resource = createResource(parts, {
    name: 'webhook',
    records: registered,
    nameOf: (webhook) => hostOf(webhook),
    textsOf: ({ id, url }) => [id, url],
    schema: webhookJson,
    toJson: webhookView,
  });
  const { create, change } = webhookChanges({ resource, webhooks: registered, examine: outbound.examine });
  const removal = resource.removal({
    summary: 'Delete a webhook; its pending messages are not sent',
    event: 'webhook.deleted',
    notice: 'Webhook deleted. Pending messages are not sent.',
    work: registered.remove,
  });
  const messagesOf = async ({ id }: Webhook) => (await messages.latest(id)).map(messageView);

  const list = pages.page(
    'admin/webhooks',
    async ({ req, form = EMPTY_FORM }: PageRequest<FormView<typeof newForm>>) => {
      const { items, next, q } = await resource.listedFor(req);
      return { title: 'Webhooks', faults: form.faults, webhooks: items, next, q, events: WEBHOOK_EVENTS, form };
    },
  );

  const one = pages.page('admin/webhook', async ({ req, form: typed }: PageRequest<FormView<typeof changeForm>>) => {
    const webhook = await resource.find(req);
    const form = typed ?? { values: valuesOf(webhook), faults: [] };
    return {
      title: 'Webhook',
      faults: form.faults,
      webhook: webhookView(webhook),
      messages: await messagesOf(webhook),
      events: WEBHOOK_EVENTS,
      form,
    };
  });

  return {
    page: list.handler,
    onePage: one.handler,

    createByForm: formHandler({
      pages,
      schema: newForm,
      async work(req, wanted) {
        const { item, secret } = await create(req, { ...wanted, enabled: true });
        return { url: `${resource.home}/${item.id}`, flash: { notice: ADDED, made: { name: item.url, text: secret } } };
      },
      show: list.show,
    }),

    changeByForm: formHandler({
      pages,
      schema: changeForm,
      async work(req, wanted) {
        const { item } = await change(req, wanted);
        return { url: `${resource.home}/${item.id}`, flash: { notice: CHANGED } };
      },
      show: one.show,
    }),

    removeByForm: removal.byForm,

    list: resource.list,
    one: resource.one,
    messages: operation(
      { summary: 'List the last messages of a webhook, newest first', response: listOf(messageJson) },
      async ({ req }) => ({ items: await messagesOf(await resource.find(req)) }),
    ),
    create: resource.create({
      summary: 'Create a webhook; only this response contains the secret that signs its messages',
      body: newWebhook,
      added: { secret: z.string() },
      work: create,
    }),
    replace: resource.change({ summary: 'Change a webhook', body: changedWebhook, work: change }),
    remove: removal.byApi,
  };
}

const ADDED: Notice = { tone: 'success', text: 'Webhook added.' };
const CHANGED: Notice = { tone: 'success', text: 'Saved.' };

function valuesOf({ url, events, enabled, version }: Webhook): FormView<typeof changeForm>['values'] {
  return { url, events, enabled: enabled ? 'yes' : '', version: String(version) };
}
