/** Webhooks: the URLs that receive events of connections, and the secrets that sign the messages. */
import { randomBytes } from 'node:crypto';
import { keys } from '../storage/keys.ts';
import { newOpaqueTokenId } from '../storage/opaque-token.ts';
import { createRecords, viewWithout } from '../storage/records.ts';
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

type WantedWebhook = Pick<Webhook, 'url' | 'events' | 'enabled'>;
/** The sealed record. `secret`: `whsec_` and 32 bytes in base64. */
type StoredWebhook = Omit<Webhook, 'version'> & { secret: string };

const PREFIX = 'wh';
/** Created before the webhook, so that the audit entry written first can name it. */
export const newWebhookId = (): string => PREFIX + newOpaqueTokenId();

export type WebhookStore = ReturnType<typeof createWebhookStore>;

export function createWebhookStore(parts: { store: Store; sealedJson: SealedJson; clock: () => number }) {
  const { store, sealedJson, clock } = parts;
  const records = createRecords<StoredWebhook, Webhook>({
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
    /** `secret` verifies the signatures, and is shown only once. @param id from `newWebhookId` */
    async create(id: string, { url, events, enabled }: WantedWebhook): Promise<{ webhook: Webhook; secret: string }> {
      const secret = `whsec_${randomBytes(32).toString('base64')}`;
      return { webhook: await records.create({ id, url, events, enabled, createdAt: clock(), secret }), secret };
    },
    /** Undefined where there is none. @throws AppError `version_conflict` */
    change: (id: string, version: number, { url, events, enabled }: WantedWebhook) =>
      records.change(id, version, (stored) => ({ ...stored, url, events, enabled })),
    /** Where to send and what to sign with; undefined for one that is gone or switched off. */
    async target(id: string): Promise<{ url: string; secret: string } | undefined> {
      const stored = (await records.read(id))?.value;
      return stored?.enabled ? { url: stored.url, secret: stored.secret } : undefined;
    },
  };
}
