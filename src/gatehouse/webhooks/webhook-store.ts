/** Stores webhooks: the URLs that receive events of connections, and the secrets that sign the messages. */
import { randomBytes } from 'node:crypto';
import { keys } from '../../shared/storage/keys.ts';
import type { MatchingOptions, MatchingPage } from '../../shared/storage/matching-page.ts';
import { newOpaqueTokenId } from '../../shared/storage/opaque-token.ts';
import { createRecords, type Versioned } from '../../shared/storage/records.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store } from '../../shared/storage/store.ts';

export const WEBHOOK_EVENTS = [
  'connection.created',
  'connection.reconnect_needed',
  'connection.recovered',
  'connection.removed',
  'connection.scopes_missing',
] as const;
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number];

export interface Webhook {
  id: string;
  url: string;
  events: readonly WebhookEvent[];
  disabled: boolean;
  /** Milliseconds since the epoch. */
  createdAt: number;
  /** Until when the previous secret also signs messages. */
  overlapEndsAt: number | undefined;
  version: number;
}

type WebhookSettings = Pick<Webhook, 'url' | 'events' | 'disabled'>;
/** The sealed record. `secret`: `whsec_` and 32 bytes in base64. */
type StoredWebhook = Omit<Webhook, 'version' | 'overlapEndsAt'> & {
  secret: string;
  previous?: { secret: string; until: number };
};

export interface WebhookTarget {
  url: string;
  disabled: boolean;
  /** Each of them signs every message: the current secret, and during an overlap the previous one. */
  secrets: readonly string[];
}

const PREFIX = 'wh';
/** Creates an id before the webhook is stored, so that the audit entry, which is written first, can name it. */
export const newWebhookId = (): string => PREFIX + newOpaqueTokenId();

export interface WebhookStore {
  find(id: string): Promise<Webhook | undefined>;

  /** Returns a page of webhooks, newest first. */
  page(options: MatchingOptions<Webhook>): Promise<MatchingPage<Webhook>>;

  count(): Promise<number>;

  /** Returns false if there was no such webhook. */
  remove(id: string): Promise<boolean>;

  /** Creates a webhook. `secret` verifies the signatures, and is shown only once. @param id from `newWebhookId` */
  create(id: string, settings: WebhookSettings): Promise<{ webhook: Webhook; secret: string }>;

  /** Changes a webhook. Returns undefined if there is no such webhook. @throws AppError `version_conflict` */
  change(id: string, version: number, settings: WebhookSettings): Promise<Webhook | undefined>;

  /**
   * Creates a new secret. The previous secret also signs for `overlapSeconds`; an older one no longer does. Returns
   * undefined if there is no such webhook.
   * @param version undefined for any version
   * @throws AppError `version_conflict`
   */
  rotate(
    id: string,
    overlapSeconds: number,
    version?: number,
  ): Promise<{ webhook: Webhook; secret: string } | undefined>;

  /** Ends the overlap: only the current secret signs. The rest as for `rotate`. */
  endOverlap(id: string, version?: number): Promise<Webhook | undefined>;

  /** Returns the URL and the signing secrets of a webhook; undefined if it does not exist. */
  target(id: string): Promise<WebhookTarget | undefined>;
}

export function createWebhookStore(parts: { store: Store; sealedJson: SealedJson; clock: () => number }): WebhookStore {
  const { store, sealedJson, clock } = parts;
  const isValid = ({ until }: { until: number }) => clock() < until;
  const records = createRecords<StoredWebhook, Webhook>({
    store,
    sealedJson,
    index: keys.webhooks,
    keyOf: keys.webhook,
    prefix: PREFIX,
    resource: 'webhook',
    relatedKeys: (id) => [keys.webhookResponse(id), keys.webhookFailing(id)],
    toView: ({ value: { secret: _, previous, ...webhook }, version }: Versioned<StoredWebhook>): Webhook => ({
      ...webhook,
      overlapEndsAt: previous && isValid(previous) ? previous.until : undefined,
      version,
    }),
    whenUnreadable: 'error',
  });

  return {
    find: records.find,
    page: records.page,
    count: records.count,
    remove: records.remove,

    async create(id, { url, events, disabled }) {
      const secret = newSecret();
      return { webhook: await records.create({ id, url, events, disabled, createdAt: clock(), secret }), secret };
    },

    change: (id, version, { url, events, disabled }) =>
      records.change(id, version, (stored) => ({ ...stored, url, events, disabled })),

    async rotate(id, overlapSeconds, version) {
      const secret = newSecret();
      const until = clock() + overlapSeconds * 1000;
      const webhook = await records.change(id, version, ({ previous: _, ...stored }) => ({
        ...stored,
        ...(overlapSeconds > 0 && { previous: { secret: stored.secret, until } }),
        secret,
      }));
      return webhook && { webhook, secret };
    },

    endOverlap: (id, version) => records.change(id, version, ({ previous: _, ...stored }) => stored),

    async target(id) {
      const stored = (await records.read(id))?.value;
      if (!stored) return undefined;
      const { url, disabled, secret, previous } = stored;
      return { url, disabled, secrets: previous && isValid(previous) ? [secret, previous.secret] : [secret] };
    },
  };
}

const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`;
