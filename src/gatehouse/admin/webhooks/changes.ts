/** Checks, audits and stores changes of webhooks by administrators. */
import type { Request } from 'express';
import type { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import type { Outbound } from '../../../shared/outbound/outbound.ts';
import { newWebhookId, type Webhook } from '../../webhooks/webhook-store.ts';
import type { Webhooks } from '../../webhooks/webhooks.ts';
import { changedMembers } from '../merge.ts';
import type { Resource } from '../resource.ts';
import type { changedWebhook, newWebhook, webhookJson } from './view.ts';
import type { HealthyWebhook } from './with-health.ts';

/**
 * All methods throw AppError `not_found` for an unknown id, and `invalid_request` for an address that must not be
 * called.
 */
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
    async create(req: Request, input: z.output<typeof newWebhook>) {
      await checkAddress(input.url);
      const target = { id: newWebhookId(), name: originOf(input) };
      const facts = { host: target.name, events: input.events };
      const work = () => registered.create(target.id, input);
      const { webhook, secret } = await resource.audited(req, 'webhook.created', target, work, facts);
      return { item: await withHealth(webhook), secret };
    },

    /** @throws AppError `version_conflict` */
    async change(req: Request, { version, ...input }: z.output<typeof changedWebhook>) {
      const webhook = await resource.find(req);
      const { id } = webhook;
      await checkAddress(input.url);
      const changedNames = changedMembers({ ...webhook }, input);
      const facts = { changed: changedNames, host: originOf(input), events: input.events, disabled: input.disabled };
      const work = () => registered.change(id, version, input);
      const changed = await resource.audited(req, 'webhook.changed', webhookTarget(webhook), work, facts);
      // The responses of the previous receiver say nothing about the new one.
      if (changed.url !== webhook.url) await healths.forget(id);
      return { item: await withHealth(changed) };
    },
  };
}

/** Returns the target of audit entries. */
export const webhookTarget = (webhook: Webhook) => ({ id: webhook.id, name: originOf(webhook) });

const ADDRESS_ADVICE = 'Enter a public https address, or an address listed in INTERNAL_HOSTS.';

/** Returns the origin for the audit trail, because path and query can contain a secret of the receiver. */
export const originOf = ({ url }: { url: string }) => new URL(url).origin;
