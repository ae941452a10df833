/** Changes of webhooks by administrators: checked, written to the audit trail, then made. */
import type { Request } from 'express';
import type { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import type { Outbound } from '../../../shared/outbound/outbound.ts';
import { newWebhookId, type Webhook } from '../../webhooks/webhook-store.ts';
import type { Webhooks } from '../../webhooks/webhooks.ts';
import type { Resource } from '../resource.ts';
import type { changedWebhook, newWebhook, webhookJson } from './view.ts';
import type { HealthyWebhook } from './with-health.ts';

/** All throw AppError `not_found` for an unknown id and `invalid_request` for an address that must not be called. */
export function webhookChanges(parts: {
  resource: Resource<HealthyWebhook, typeof webhookJson>;
  withHealth(webhook: Webhook): Promise<HealthyWebhook>;
  webhooks: Pick<Webhooks, 'registered' | 'healths'>;
  examine: Outbound['examine'];
}) {
  const { resource, withHealth, examine } = parts;
  const { registered, healths } = parts.webhooks;

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
      const work = () => registered.create(target.id, wanted);
      const { webhook, secret } = await resource.audited(req, 'webhook.created', target, work, facts);
      return { item: await withHealth(webhook), secret };
    },

    /** @throws AppError `version_conflict` */
    async change(req: Request, { version, ...wanted }: z.output<typeof changedWebhook>) {
      const webhook = await resource.find(req);
      const { id } = webhook;
      await checkAddress(wanted.url);
      const facts = { host: hostOf(wanted), events: wanted.events, enabled: wanted.enabled };
      const work = () => registered.change(id, version, wanted);
      const changed = await resource.audited(req, 'webhook.changed', webhookTarget(webhook), work, facts);
      // What another receiver has answered says nothing about this one.
      if (changed.url !== webhook.url) await healths.forget(id);
      return { item: await withHealth(changed) };
    },

    /** `secret`: shown only once. */
    async rotate(req: Request, { overlapSeconds }: { overlapSeconds: number }) {
      const webhook = await resource.find(req);
      const work = () => registered.rotate(webhook.id, overlapSeconds);
      const facts = { overlapSeconds };
      const { webhook: rotated, secret } = await resource.audited(
        req,
        'webhook.rotated',
        webhookTarget(webhook),
        work,
        facts,
      );
      return { item: await withHealth(rotated), secret };
    },
  };
}

/** In the audit trail. */
export const webhookTarget = (webhook: Webhook) => ({ id: webhook.id, name: hostOf(webhook) });

const ADDRESS_ADVICE = 'Give a public https address, or one that INTERNAL_HOSTS names.';

/** Path and query can hold the receiver's own secret, so the audit trail gets the origin alone. */
export const hostOf = ({ url }: { url: string }) => new URL(url).origin;
