/** Webhooks: the URLs that receive events of connections, and the secrets that sign the messages. */
import { randomBytes } from 'node:crypto';
import { keys } from '../storage/keys.ts';
import { newOpaqueTokenId } from '../storage/opaque-token.ts';
import { createRecords, type Records, viewWithout } from '../storage/records.ts';
import type { SealedJson } from '../storage/sealed-json.ts';
import type { Store } from '../storage/store.ts';

export const WEBHOOK_EVENTS = [
  'connection.created',
  'connection.reconnect_needed',
  'connection.recovered',
  'connection.removed',
] as const;
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number];

export interface Webhook {
  id: string;
  url: string;
  events: readonly WebhookEvent[];
  enabled: boolean;
  /** Milliseconds since the epoch. */
  createdAt: number;
  version: number;
}

export type WantedWebhook = Pick<Webhook, 'url' | 'events' | 'enabled'>;
/** The sealed record. `secret`: `whsec_` and 32 bytes in base64. */
type KeptWebhook = Omit<Webhook, 'version'> & { secret: string };

export interface WebhookStore extends Pick<Records<KeptWebhook, Webhook>, 'find' | 'page' | 'remove'> {
  /** `secret` verifies the signatures, and is shown only once. @param id from `newWebhookId` */
  create(id: string, wanted: WantedWebhook): Promise<{ webhook: Webhook; secret: string }>;
  /** Undefined where there is none. @throws AppError `version_conflict` */
  change(id: string, version: number, wanted: WantedWebhook): Promise<Webhook | undefined>;
  /** Where to send and what to sign with; undefined for one that is gone or switched off. */
  target(id: string): Promise<{ url: string; secret: string } | undefined>;
}

const PREFIX = 'wh';
/** Created before the webhook, so that the audit entry written first can name it. */
export const newWebhookId = (): string => PREFIX + newOpaqueTokenId();

export function createWebhookStore(parts: { store: Store; sealedJson: SealedJson; clock: () => number }): WebhookStore {
  const { store, sealedJson, clock } = parts;
  const records = createRecords<KeptWebhook, Webhook>({
    store,
    sealedJson,
    index: keys.webhooks,
    keyOf: keys.webhook,
    prefix: PREFIX,
    noun: 'webhook',
    toView: viewWithout('secret'),
    whenUnreadable: 'error',
  });

  return {
    find: records.find,
    page: records.page,
    remove: records.remove,
    async create(id, { url, events, enabled }) {
      const secret = `whsec_${randomBytes(32).toString('base64')}`;
      return { webhook: await records.create({ id, url, events, enabled, createdAt: clock(), secret }), secret };
    },
    change: (id, version, { url, events, enabled }) =>
      records.change(id, version, (kept) => ({ ...kept, url, events, enabled })),
    async target(id) {
      const kept = (await records.read(id))?.value;
      return kept?.enabled ? { url: kept.url, secret: kept.secret } : undefined;
    },
  };
}
