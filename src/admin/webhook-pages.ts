/** Owns the pages of webhooks: the list with the form for a new one, and one webhook with its form and its last messages. */
import type { Request, RequestHandler, Response } from 'express';
import { AppError } from '../errors.ts';
import { formField, queryField } from '../http/body.ts';
import { checked } from '../http/operation.ts';
import type { Notice } from '../http/page-data.ts';
import type { Pages } from '../http/pages.ts';
import { WEBHOOK_EVENTS, type Webhook, type Webhooks } from '../relay/webhook.ts';
import type { WebhookMessages } from '../relay/webhook-messages.ts';
import { ADDRESS_ADVICE, changedWebhook, type WebhookChanges, wantedWebhook } from './webhook-changes.ts';
import { listedWebhooks, type MessageView, messageView, type WebhookView, webhookView } from './webhook-view.ts';

declare module '../http/page-data.ts' {
  interface AdminPageData {
    'admin/webhooks': {
      page: SignedInFrame;
      webhooks: readonly WebhookView[];
      next: string | undefined;
      events: readonly string[];
      form: WebhookForm;
      made?: { name: string; text: string } | undefined;
      notice?: Notice | undefined;
    };
    'admin/webhook': {
      page: SignedInFrame;
      webhook: WebhookView;
      messages: readonly MessageView[];
      events: readonly string[];
      form: WebhookForm;
      notice?: Notice | undefined;
    };
  }
}

/** As it was typed; a faulty form comes back so. */
interface WebhookForm {
  url: string;
  events: readonly string[];
  enabled: boolean;
  fault?: string | undefined;
}

export interface WebhookPages {
  page: RequestHandler;
  onePage: RequestHandler;
  make: RequestHandler;
  changeByForm: RequestHandler;
  removeByForm: RequestHandler;
}

export function webhookPages(parts: {
  webhooks: Pick<Webhooks, 'page'>;
  messages: WebhookMessages;
  changes: WebhookChanges;
  pages: Pages;
  basePath: string;
}): WebhookPages {
  const { webhooks, messages, changes, pages, basePath } = parts;
  const { find, create, change, remove } = changes;

  const show = async (
    req: Request,
    res: Response,
    more: {
      form?: WebhookForm;
      made?: { name: string; text: string };
    } = {},
  ) => {
    const { items, next } = await listedWebhooks(webhooks, { after: queryField(req, 'after'), limit: 50 });
    pages.sendAdmin(res, 'admin/webhooks', {
      page: pages.signedInFrame(req, 'Webhooks'),
      ...{ webhooks: items, next, events: WEBHOOK_EVENTS, form: { url: '', events: WEBHOOK_EVENTS, enabled: true } },
      notice: queryField(req, 'done') === 'removed' ? REMOVED : undefined,
      ...more,
    });
  };

  const showOne = async (req: Request, res: Response, webhook: Webhook, form?: WebhookForm) => {
    const { url, events, enabled } = webhook;
    pages.sendAdmin(res, 'admin/webhook', {
      page: pages.signedInFrame(req, 'Webhook'),
      ...{ webhook: webhookView(webhook), events: WEBHOOK_EVENTS, form: form ?? { url, events, enabled } },
      messages: (await messages.latest(webhook.id)).map(messageView),
      notice: queryField(req, 'done') === 'changed' ? CHANGED : undefined,
    });
  };

  return {
    page: (req, res) => show(req, res),

    onePage: async (req, res) => showOne(req, res, await find(String(req.params.id))),

    async make(req, res) {
      const { enabled: _, ...form } = formIn(req);
      try {
        const { webhook, secret } = await create(req, checked(wantedWebhook, form));
        await show(req, res, { made: { name: webhook.url, text: secret } });
      } catch (error) {
        const { status, fault } = faultOf(error);
        res.status(status);
        await show(req, res, { form: { ...form, enabled: true, fault } });
      }
    },

    async changeByForm(req, res) {
      const webhook = await find(String(req.params.id));
      const form = formIn(req);
      try {
        await change(
          req,
          webhook.id,
          checked(changedWebhook, { ...form, version: Number(formField(req.body, 'version')) }),
        );
        res.redirect(303, `${basePath}/admin/webhooks/${webhook.id}?done=changed`);
      } catch (error) {
        const { status, fault } = faultOf(error);
        res.status(status);
        await showOne(req, res, webhook, { ...form, fault });
      }
    },

    async removeByForm(req, res) {
      await remove(req);
      res.redirect(303, `${basePath}/admin/webhooks?done=removed`);
    },
  };
}

const REMOVED: Notice = { tone: 'success', text: 'The webhook is deleted. What waits for it is not sent any more.' };
const CHANGED: Notice = { tone: 'success', text: 'It is saved.' };
const CONFLICT =
  'Somebody else has changed the webhook meanwhile. What you typed stands below and is not saved: saving it now replaces what the other one did.';

function formIn(req: Request): WebhookForm {
  const { events } = req.body as { events?: string | string[] };
  return {
    url: formField(req.body, 'url')?.trim() ?? '',
    events: events === undefined ? [] : [events].flat(),
    enabled: formField(req.body, 'enabled') === 'yes',
  };
}

/** What the form says of it. @throws the error itself where the input was not at fault */
function faultOf(error: unknown): { status: number; fault: string } {
  if (!(error instanceof AppError)) throw error;
  const { code, status, faults } = error;
  if (code === 'version_conflict') return { status, fault: CONFLICT };
  if (code !== 'invalid_request') throw error;
  return { status, fault: faults?.[0]?.pointer === '#/url' ? ADDRESS_ADVICE : 'Choose at least one event.' };
}
