/** Owns webhooks in the administration: listed, made, changed and deleted, with their last messages, by page and by API. */
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import type { AuditTrail } from '../audit/trail.ts';
import { AppError } from '../errors.ts';
import { formField, queryField } from '../http/body.ts';
import { checked, type DescribedHandler, operation } from '../http/operation.ts';
import type { Notice } from '../http/page-data.ts';
import type { Pages } from '../http/pages.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { newWebhookId, WEBHOOK_EVENTS, type Webhook, type Webhooks } from '../relay/webhook.ts';
import type { WebhookMessage, WebhookMessages } from '../relay/webhook-messages.ts';
import { audited } from './change.ts';
import { listOf, listQuery, matches, pageOptions } from './listing.ts';

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

export interface WebhookRoutes {
  page: RequestHandler;
  onePage: RequestHandler;
  make: RequestHandler;
  changeByForm: RequestHandler;
  removeByForm: RequestHandler;
  list: DescribedHandler;
  one: DescribedHandler;
  messages: DescribedHandler;
  create: DescribedHandler;
  replace: DescribedHandler;
  remove: DescribedHandler;
}

const webhookAnswer = z.object({
  id: z.string(),
  version: z.int(),
  url: z.string(),
  events: z.array(z.enum(WEBHOOK_EVENTS)),
  enabled: z.boolean(),
  createdAt: z.iso.datetime(),
});
const messageAnswer = z.object({
  id: z.string(),
  event: z.enum(WEBHOOK_EVENTS),
  state: z.enum(['waiting', 'taken', 'given_up']),
  createdAt: z.iso.datetime(),
  nextAt: z.iso.datetime().nullable(),
  tries: z.array(z.object({ at: z.iso.datetime(), answer: z.string().describe('the status, or why there was none') })),
});
type WebhookView = z.output<typeof webhookAnswer>;
type MessageView = z.output<typeof messageAnswer>;

const fields = {
  url: z.string().max(2_000),
  events: z.array(z.enum(WEBHOOK_EVENTS)).min(1),
  enabled: z.boolean().default(true),
};
const wantedWebhook = z.strictObject(fields);
const changedWebhook = z.strictObject({ ...fields, version: z.int() });

export function webhookRoutes(parts: {
  webhooks: Webhooks;
  messages: WebhookMessages;
  examine: Outbound['examine'];
  trail: AuditTrail;
  pages: Pages;
  basePath: string;
}): WebhookRoutes {
  const { webhooks, messages, examine, trail, pages, basePath } = parts;

  const listed = async (query: z.output<typeof listQuery>) => {
    const { webhooks: found, next } = await webhooks.page(pageOptions(query));
    const items = found.filter(({ id, url }) => matches(query.q, id, url)).map(told);
    return next === undefined ? { items } : { items, next };
  };

  const found = async (id: string): Promise<Webhook> => {
    const webhook = await webhooks.find(id);
    if (webhook) return webhook;
    throw new AppError('not_found', { detail: 'There is no webhook with this id.' });
  };

  const judged = async <T extends { url: string }>(wanted: T): Promise<T> => {
    const url = URL.parse(wanted.url);
    const rule = url && url.username === '' && url.hash === '' ? await examine(wanted.url) : 'not_absolute';
    if (rule === undefined) return wanted;
    const faults = [{ pointer: '#/url', rule, detail: ADDRESS }];
    throw new AppError('invalid_request', { detail: ADDRESS, faults });
  };

  const create = async (req: Request, wanted: z.output<typeof wantedWebhook>) => {
    const facts = { host: hostOf(await judged(wanted)), events: wanted.events };
    const id = newWebhookId();
    const entry = { event: 'webhook.created' as const, target: targetOf({ id, url: wanted.url }), facts };
    return audited(trail, req, entry, () => webhooks.create(id, wanted));
  };

  const change = async (req: Request, id: string, { version, ...wanted }: z.output<typeof changedWebhook>) => {
    const target = targetOf(await found(id));
    const facts = { host: hostOf(await judged(wanted)), events: wanted.events, enabled: wanted.enabled };
    const entry = { event: 'webhook.changed' as const, target, facts };
    const changed = await audited(trail, req, entry, () => webhooks.change(id, version, wanted));
    if (!changed) throw new AppError('not_found', { detail: 'There is no webhook with this id.' });
    return changed;
  };

  const remove = async (req: Request) => {
    const webhook = await found(String(req.params.id));
    await audited(trail, req, { event: 'webhook.deleted', target: targetOf(webhook) }, () =>
      webhooks.remove(webhook.id),
    );
  };

  const show = async (
    req: Request,
    res: Response,
    more: {
      form?: WebhookForm;
      made?: { name: string; text: string };
    } = {},
  ) => {
    const { items, next } = await listed({ after: queryField(req, 'after'), limit: 50 });
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
      ...{ webhook: told(webhook), events: WEBHOOK_EVENTS, form: form ?? { url, events, enabled } },
      messages: (await messages.latest(webhook.id)).map(messageTold),
      notice: queryField(req, 'done') === 'changed' ? CHANGED : undefined,
    });
  };

  return {
    page: (req, res) => show(req, res),

    onePage: async (req, res) => showOne(req, res, await found(String(req.params.id))),

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
      const webhook = await found(String(req.params.id));
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

    list: operation(
      { summary: 'List webhooks, the newest first', query: listQuery, answer: listOf(webhookAnswer) },
      ({ query }) => listed(query),
    ),
    one: operation({ summary: 'Read a webhook', answer: webhookAnswer }, async ({ req }) =>
      told(await found(String(req.params.id))),
    ),
    messages: operation(
      { summary: 'List the last messages of a webhook, the newest first', answer: listOf(messageAnswer) },
      async ({ req }) => {
        const { id } = await found(String(req.params.id));
        return { items: (await messages.latest(id)).map(messageTold) };
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
        return { ...told(webhook), secret };
      },
    ),
    replace: operation(
      { summary: 'Change a webhook', body: changedWebhook, answer: webhookAnswer },
      async ({ req, body }) => told(await change(req, String(req.params.id), body)),
    ),
    remove: operation({ summary: 'Delete a webhook; what waits for it is not sent any more' }, ({ req }) =>
      remove(req),
    ),
  };
}

const ADDRESS = 'Give an https address that is open to everybody, or one that INTERNAL_HOSTS names.';
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
  return { status, fault: faults?.[0]?.pointer === '#/url' ? ADDRESS : 'Choose at least one event.' };
}

/** What may be told of an address: many a receiver knows its senders by the path or the query. */
const hostOf = ({ url }: { url: string }) => new URL(url).origin;

function targetOf(webhook: Pick<Webhook, 'id' | 'url'>) {
  return { kind: 'webhook', id: webhook.id, name: hostOf(webhook) };
}

function told({ createdAt, events, ...webhook }: Webhook): WebhookView {
  return { ...webhook, events: [...events], createdAt: new Date(createdAt).toISOString() };
}

function messageTold({ id, event, state, createdAt, nextAt, tries }: WebhookMessage): MessageView {
  const time = (at: number) => new Date(at).toISOString();
  return {
    ...{ id, event, state, createdAt: time(createdAt), nextAt: nextAt === undefined ? null : time(nextAt) },
    tries: tries.map(({ at, answer }) => ({ at: time(at), answer })),
  };
}
