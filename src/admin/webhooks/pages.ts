/** The pages of webhooks: the list with the form for a new one, and one webhook with its form and its last messages. */
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { queryField } from '../../http/body.ts';
import { type FormView, formHandler, recordVersion, ticked } from '../../pages/form.ts';
import type { Notice } from '../../pages/page-data.ts';
import type { Pages } from '../../pages/pages.ts';
import type { WebhookMessages } from '../../webhooks/messages.ts';
import { WEBHOOK_EVENTS, type Webhook, type WebhookStore } from '../../webhooks/webhook-store.ts';
import { type WebhookChanges, wantedWebhook } from './changes.ts';
import { listedWebhooks, type MessageView, messageView, type WebhookView, webhookView } from './view.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/webhooks': {
      page: SignedInFrame;
      webhooks: readonly WebhookView[];
      next: string | undefined;
      q: string | undefined;
      events: readonly string[];
      form: FormView<typeof newForm>;
      notice?: Notice | undefined;
    };
    'admin/webhook': {
      page: SignedInFrame;
      webhook: WebhookView;
      messages: readonly MessageView[];
      events: readonly string[];
      form: FormView<typeof changeForm>;
      made?: MadeSecret | undefined;
      notice?: Notice | undefined;
    };
  }
}

const fields = {
  url: z.string().trim().max(2_000),
  events: wantedWebhook.shape.events,
};
const newForm = z.object(fields);
const changeForm = z.object({
  ...fields,
  enabled: ticked,
  version: recordVersion,
});

export interface WebhookPages {
  page: RequestHandler;
  onePage: RequestHandler;
  make: RequestHandler;
  changeByForm: RequestHandler;
  removeByForm: RequestHandler;
}

export function webhookPages(parts: {
  webhooks: Pick<WebhookStore, 'page'>;
  messages: Pick<WebhookMessages, 'latest'>;
  changes: WebhookChanges;
  pages: Pages;
  basePath: string;
}): WebhookPages {
  const { webhooks, messages, changes, pages, basePath } = parts;
  const { find, create, change, remove } = changes;

  const home = `${basePath}/admin/webhooks`;

  const show = async (req: Request, res: Response, form: FormView<typeof newForm>) => {
    const q = queryField(req, 'q');
    const [{ items, next }, { notice }] = await Promise.all([
      listedWebhooks(webhooks, { after: queryField(req, 'after'), limit: 50, q }),
      pages.flashOf(req),
    ]);
    const page = pages.signedInFrame(req, 'Webhooks', form.faults);
    pages.send(res, 'admin/webhooks', { page, webhooks: items, next, q, events: WEBHOOK_EVENTS, form, notice });
  };

  const showOne = async (req: Request, res: Response, webhook: Webhook, form: FormView<typeof changeForm>) => {
    const [latest, { notice, made }] = await Promise.all([messages.latest(webhook.id), pages.flashOf(req)]);
    pages.send(res, 'admin/webhook', {
      page: pages.signedInFrame(req, 'Webhook', form.faults),
      webhook: webhookView(webhook),
      messages: latest.map(messageView),
      events: WEBHOOK_EVENTS,
      form,
      made,
      notice,
    });
  };

  return {
    page: (req, res) => show(req, res, { values: { url: '', events: WEBHOOK_EVENTS }, faults: [] }),

    async onePage(req, res) {
      const webhook = await find(String(req.params.id));
      await showOne(req, res, webhook, { values: valuesOf(webhook), faults: [] });
    },

    make: formHandler({
      pages,
      schema: newForm,
      async work(req, wanted) {
        const { webhook, secret } = await create(req, { ...wanted, enabled: true });
        return { url: `${home}/${webhook.id}`, flash: { notice: ADDED, made: { name: webhook.url, text: secret } } };
      },
      show,
    }),

    changeByForm: formHandler({
      pages,
      schema: changeForm,
      async work(req, wanted) {
        const { id } = await change(req, String(req.params.id), wanted);
        return { url: `${home}/${id}`, flash: { notice: CHANGED } };
      },
      show: async (req, res, form) => showOne(req, res, await find(String(req.params.id)), form),
    }),

    async removeByForm(req, res) {
      await remove(req);
      await pages.redirect(req, res, home, { notice: REMOVED });
    },
  };
}

const ADDED: Notice = { tone: 'success', text: 'Webhook added.' };
const REMOVED: Notice = { tone: 'success', text: 'Webhook deleted. Pending messages are not sent.' };
const CHANGED: Notice = { tone: 'success', text: 'Saved.' };

function valuesOf({ url, events, enabled, version }: Webhook): FormView<typeof changeForm>['values'] {
  return { url, events, enabled: enabled ? 'yes' : '', version: String(version) };
}
