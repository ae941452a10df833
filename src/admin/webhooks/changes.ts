/** Every change of webhooks by an administrator, whether by page or by API: judged, written to the audit trail, then made. */
import type { Request } from 'express';
import { z } from 'zod';
import type { AuditTrail } from '../../audit/trail.ts';
import { AppError } from '../../errors.ts';
import type { Outbound } from '../../outbound/outbound.ts';
import { newWebhookId, WEBHOOK_EVENTS, type Webhook, type WebhookStore } from '../../webhooks/webhook-store.ts';
import { audited } from '../change.ts';

const fields = {
  url: z.string().max(2_000),
  events: z.array(z.enum(WEBHOOK_EVENTS)).min(1, 'Choose at least one event.'),
  enabled: z.boolean().default(true),
};
export const wantedWebhook = z.strictObject(fields);
export const changedWebhook = z.strictObject({ ...fields, version: z.int() });

/** Where there is no such webhook they all throw the AppError `not_found`, and for a faulty address `invalid_request`. */
export interface WebhookChanges {
  find(id: string): Promise<Webhook>;
  create(req: Request, wanted: z.output<typeof wantedWebhook>): Promise<{ webhook: Webhook; secret: string }>;
  /** @throws AppError `version_conflict` */
  change(req: Request, id: string, wanted: z.output<typeof changedWebhook>): Promise<Webhook>;
  remove(req: Request): Promise<void>;
}

export function webhookChanges(parts: {
  webhooks: WebhookStore;
  examine: Outbound['examine'];
  trail: AuditTrail;
}): WebhookChanges {
  const { webhooks, examine, trail } = parts;

  const find = async (id: string): Promise<Webhook> => {
    const webhook = await webhooks.find(id);
    if (webhook) return webhook;
    throw new AppError('not_found', { detail: 'There is no webhook with this id.' });
  };

  const judged = async <T extends { url: string }>(wanted: T): Promise<T> => {
    const rule = wanted.url.includes('#') ? 'fragment' : await examine(wanted.url);
    if (rule === undefined) return wanted;
    const faults = [{ pointer: '#/url', rule, detail: ADDRESS_ADVICE }];
    throw new AppError('invalid_request', { detail: ADDRESS_ADVICE, faults });
  };

  const create = async (req: Request, wanted: z.output<typeof wantedWebhook>) => {
    const facts = { host: hostOf(await judged(wanted)), events: wanted.events };
    const id = newWebhookId();
    const entry = { event: 'webhook.created' as const, target: targetOf({ id, url: wanted.url }), facts };
    return audited(trail, req, entry, () => webhooks.create(id, wanted));
  };

  const change = async (req: Request, id: string, { version, ...wanted }: z.output<typeof changedWebhook>) => {
    const target = targetOf(await find(id));
    const facts = { host: hostOf(await judged(wanted)), events: wanted.events, enabled: wanted.enabled };
    const entry = { event: 'webhook.changed' as const, target, facts };
    const changed = await audited(trail, req, entry, () => webhooks.change(id, version, wanted));
    if (!changed) throw new AppError('not_found', { detail: 'There is no webhook with this id.' });
    return changed;
  };

  const remove = async (req: Request) => {
    const webhook = await find(String(req.params.id));
    await audited(trail, req, { event: 'webhook.deleted', target: targetOf(webhook) }, () =>
      webhooks.remove(webhook.id),
    );
  };

  return { find, create, change, remove };
}

export const ADDRESS_ADVICE = 'Give an https address that is open to everybody, or one that INTERNAL_HOSTS names.';

/** What may be told of an address: many a receiver knows its senders by the path or the query. */
const hostOf = ({ url }: { url: string }) => new URL(url).origin;

function targetOf(webhook: Pick<Webhook, 'id' | 'url'>) {
  return { kind: 'webhook', id: webhook.id, name: hostOf(webhook) };
}
