/** Changes of webhooks by administrators: checked, written to the audit trail, then made. */
import type { Request } from 'express';
import type { z } from 'zod';
import { AppError } from '../../errors.ts';
import type { Outbound } from '../../outbound/outbound.ts';
import { newWebhookId, type Webhook, type WebhookStore } from '../../webhooks/webhook-store.ts';
import type { Resource } from '../resource.ts';
import type { changedWebhook, newWebhook, webhookJson } from './view.ts';

/** All throw AppError `not_found` for an unknown id and `invalid_request` for an address that must not be called. */
export function webhookChanges(parts: {
  resource: Resource<Webhook, typeof webhookJson>;
  webhooks: WebhookStore;
  examine: Outbound['examine'];
}) {
  const { resource, webhooks, examine } = parts;

  const checkAddress = async (url: string): Promise<void> => {
    const rule = url.includes('#') ? 'fragment' : await examine(url);
    if (rule === undefined) return;
    throw new AppError('invalid_request', {
      detail: ADDRESS_ADVICE,
      faults: [{ pointer: '#/url', rule, detail: ADDRESS_ADVICE }],
    });
  };

  return {
    async create(req: Request, wanted: z.output<typeof newWebhook>) {
      await checkAddress(wanted.url);
      const target = { id: newWebhookId(), name: hostOf(wanted) };
      const facts = { host: target.name, events: wanted.events };
      const work = () => webhooks.create(target.id, wanted);
      const { webhook: item, secret } = await resource.audited(req, 'webhook.created', target, work, facts);
      return { item, secret };
    },

    /** @throws AppError `version_conflict` */
    async change(req: Request, { version, ...wanted }: z.output<typeof changedWebhook>) {
      const webhook = await resource.find(req);
      const { id } = webhook;
      await checkAddress(wanted.url);
      const facts = { host: hostOf(wanted), events: wanted.events, enabled: wanted.enabled };
      const work = () => webhooks.change(id, version, wanted);
      return { item: await resource.audited(req, 'webhook.changed', { id, name: hostOf(webhook) }, work, facts) };
    },
  };
}

const ADDRESS_ADVICE = 'Give a public https address, or one that INTERNAL_HOSTS names.';

/** Path and query can hold the receiver's own secret, so the audit trail gets the origin alone. */
export const hostOf = ({ url }: { url: string }) => new URL(url).origin;
