/** Owns webhooks: the addresses that are told what becomes of connections, and the secret that signs what they are told. */
import { randomBytes } from 'node:crypto';
import { AppError } from '../errors.ts';
import { keys } from '../storage/keys.ts';
import { SealError, type Sealer } from '../storage/sealed.ts';
import type { PageOptions, Store } from '../storage/store.ts';

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
/** As in the store, sealed as a whole. `secret`: `whsec_` and 32 bytes in base64. */
type KeptWebhook = Omit<Webhook, 'version'> & { secret: string };

export interface Webhooks {
  /** `secret` is what the receiver checks signatures with; nobody can have it again. @param id as `newWebhookId` draws them */
  create(id: string, wanted: WantedWebhook): Promise<{ webhook: Webhook; secret: string }>;
  find(id: string): Promise<Webhook | undefined>;
  /** The newest first. */
  page(options: Pick<PageOptions, 'after' | 'limit'>): Promise<{ webhooks: Webhook[]; next: string | undefined }>;
  /** Undefined where there is none. @throws AppError `version_conflict` */
  change(id: string, version: number, wanted: WantedWebhook): Promise<Webhook | undefined>;
  /** Answers false where there was none. */
  remove(id: string): Promise<boolean>;
  /** Where to send and what to sign with; undefined for one that is gone or switched off. */
  target(id: string): Promise<{ url: string; secret: string } | undefined>;
}

const ID = /^wh[0-9a-f]{16}$/;
/** Drawn before the webhook is made, so that what is told of the making can name it. */
export const newWebhookId = (): string => `wh${randomBytes(8).toString('hex')}`;

export function createWebhooks(parts: { store: Store; sealer: Sealer; clock: () => number }): Webhooks {
  const { store, sealer, clock } = parts;

  const load = async (id: string): Promise<{ kept: KeptWebhook; version: number } | undefined> => {
    if (!ID.test(id)) return undefined;
    const key = keys.webhook(id);
    const record = await store.get(key);
    if (!record) return undefined;
    const opened = await sealer.open(record.value, key).catch((error: unknown) => {
      if (!(error instanceof SealError)) throw error;
      throw new AppError('internal', { logDetail: 'a webhook cannot be opened', cause: error });
    });
    return { kept: JSON.parse(opened) as KeptWebhook, version: record.version };
  };

  const save = async (kept: KeptWebhook, ifVersion: number): Promise<Webhook> => {
    const key = keys.webhook(kept.id);
    const written = await store.write([
      { put: key, value: await sealer.seal(JSON.stringify(kept), key), ifVersion },
      { index: keys.webhooks, add: kept.id, score: kept.createdAt },
    ]);
    if (!written) throw conflict();
    return webhookOf((await load(kept.id)) ?? { kept, version: ifVersion });
  };

  return {
    async create(id, { url, events, enabled }) {
      const secret = `whsec_${randomBytes(32).toString('base64')}`;
      return { webhook: await save({ id, url, events, enabled, createdAt: clock(), secret }, 0), secret };
    },
    async find(id) {
      const entry = await load(id);
      return entry && webhookOf(entry);
    },
    async page(options) {
      const page = await store.page(keys.webhooks, { ...options, order: 'descending' });
      const found = await Promise.all(page.items.map(({ member }) => load(member).catch(() => undefined)));
      return { webhooks: found.flatMap((entry) => (entry ? [webhookOf(entry)] : [])), next: page.next };
    },
    async change(id, version, { url, events, enabled }) {
      const entry = await load(id);
      if (!entry) return undefined;
      if (entry.version !== version) throw conflict();
      return save({ ...entry.kept, url, events, enabled }, version);
    },
    async remove(id) {
      if (!ID.test(id) || !(await store.get(keys.webhook(id)))) return false;
      return store.write([{ delete: keys.webhook(id) }, { index: keys.webhooks, remove: id }]);
    },
    async target(id) {
      const entry = await load(id);
      return entry?.kept.enabled ? { url: entry.kept.url, secret: entry.kept.secret } : undefined;
    },
  };
}

function conflict(): AppError {
  return new AppError('version_conflict', { detail: 'Read the webhook again and repeat the change.' });
}

function webhookOf({ kept, version }: { kept: KeptWebhook; version: number }): Webhook {
  const { secret: _, ...webhook } = kept;
  return { ...webhook, version };
}
