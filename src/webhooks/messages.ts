/** Messages to webhooks: stored, signed (Standard Webhooks), and sent up to 8 times with growing pauses. */
import { createHmac } from 'node:crypto';
import type { AuditNotes } from '../audit/notes.ts';
import { AppError } from '../errors.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { OutboundError } from '../outbound/outbound.ts';
import { keys } from '../storage/keys.ts';
import { newOpaqueTokenId } from '../storage/opaque-token.ts';
import type { Store } from '../storage/store.ts';
import { DAY_SECONDS, isoTime } from '../time.ts';
import type { Webhook, WebhookEvent, WebhookStore } from './webhook-store.ts';

/** One attempt. `answer`: the status of the response, or why there was none. */
interface WebhookTry {
  /** Milliseconds since the epoch, like every time in this file. */
  at: number;
  answer: string;
}

export interface WebhookMessage {
  id: string;
  webhook: string;
  event: WebhookEvent;
  createdAt: number;
  state: 'waiting' | 'taken' | 'given_up';
  /** When it is sent next; only while it is waiting. */
  nextAt: number | undefined;
  tries: readonly WebhookTry[];
}

interface Sent {
  answer: string;
  isDelivered?: boolean;
  /** No further attempt. */
  isFinal?: boolean;
}

type StoredMessage = WebhookMessage & { body: string };
/** The content of a message, such as the user and the app of a connection. */
type Data = Readonly<Record<string, string | undefined>>;

/** The pause before each of the eight attempts, about 16 hours in total. */
const PAUSES_SECONDS = [0, 5, 60, 300, 1_800, 7_200, 18_000, 28_800] as const;
const LIMITS = { deadlineMilliseconds: 10_000, maxBytes: 64 * 1024 };
const LIFETIME_SECONDS = 30 * DAY_SECONDS;
/** Large enough that messages to a receiver that hangs do not hold up the others. */
const MAX_CONCURRENT = 50;
const MAX_LISTED = 200;

export type WebhookMessages = ReturnType<typeof createWebhookMessages>;

export function createWebhookMessages(parts: {
  store: Store;
  webhooks: WebhookStore;
  outbound: Outbound;
  audit: Pick<AuditNotes, 'note'>;
  clock: () => number;
  random: () => number;
}) {
  const { store, webhooks, outbound, audit, clock, random } = parts;
  let storing: Promise<void> = Promise.resolve();

  const enqueue = async (event: WebhookEvent, data: Data, now: number) => {
    const isReceiver = ({ enabled, events }: Webhook) => enabled && events.includes(event);
    const { items: receivers } = await webhooks.page({ limit: Number.POSITIVE_INFINITY, filter: isReceiver });
    const timestamp = isoTime(now);
    for (const { id: webhook } of receivers) {
      const id = `msg_${newOpaqueTokenId()}${newOpaqueTokenId()}`;
      const body = JSON.stringify({ type: event, timestamp, data });
      const due = { createdAt: now, nextAt: now, state: 'waiting' as const, tries: [] };
      const message: StoredMessage = { id, webhook, event, body, ...due };
      await store.write([
        { put: keys.webhookMessage(id), value: JSON.stringify(message), lifetimeSeconds: LIFETIME_SECONDS },
        { index: keys.webhookDue, add: id, score: now },
        { index: keys.webhookMessages(webhook), add: id, score: now },
      ]);
      await dropOldest(webhook);
    }
  };

  const dropOldest = async (webhook: string): Promise<void> => {
    const index = keys.webhookMessages(webhook);
    if ((await store.count(index)) <= MAX_LISTED) return;
    const { items } = await store.page(index, { limit: 1 });
    await store.write(items.map(({ member }) => ({ index, remove: member })));
  };

  const load = async (id: string): Promise<StoredMessage | undefined> => {
    const record = await store.get(keys.webhookMessage(id));
    return record && (JSON.parse(record.value) as StoredMessage);
  };

  const send = async ({ id, webhook, body }: StoredMessage): Promise<Sent> => {
    const target = await webhooks.target(webhook).catch(unreadable);
    if (target === 'unreadable') return { answer: 'the webhook cannot be opened' };
    if (!target) return { answer: 'the webhook is gone or switched off', isFinal: true };
    const timestamp = String(Math.floor(clock() / 1000));
    const headers = {
      'content-type': 'application/json',
      'user-agent': 'Gatehouse',
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': signatureOf(target.secret, id, timestamp, body),
    };
    try {
      const { status } = await outbound.fetch(target.url, { method: 'POST', headers, body }, LIMITS);
      return { answer: String(status), isDelivered: status >= 200 && status < 300, isFinal: status === 410 };
    } catch (error) {
      return { answer: error instanceof OutboundError ? error.reason : 'connection' };
    }
  };

  const attempt = async (id: string): Promise<void> => {
    const message = await load(id);
    if (message?.state !== 'waiting') {
      await store.write([{ index: keys.webhookDue, remove: id }]);
      return;
    }
    const { answer, isDelivered, isFinal } = await send(message);
    const now = clock();
    const tries = [...message.tries, { at: now, answer }];
    const pause = isFinal ? undefined : PAUSES_SECONDS[tries.length];
    const nextAt = isDelivered || pause === undefined ? undefined : now + pause * 1000 * (0.9 + random() / 5);
    const state = isDelivered ? 'taken' : nextAt === undefined ? 'given_up' : 'waiting';
    const next: StoredMessage = { ...message, tries, nextAt, state };
    await store.write([
      { put: keys.webhookMessage(id), value: JSON.stringify(next), lifetimeSeconds: LIFETIME_SECONDS },
      nextAt === undefined
        ? { index: keys.webhookDue, remove: id }
        : { index: keys.webhookDue, add: id, score: nextAt },
    ]);
    if (state !== 'given_up') return;
    const facts = { message: id, event: message.event, tries: tries.length, answer };
    const target = { kind: 'webhook', id: message.webhook };
    audit.note({ event: 'webhook.given_up', actor: { kind: 'system' }, target, facts });
  };

  return {
    /** Queues a message in the background; never throws. */
    announce(event: WebhookEvent, data: Data): void {
      const now = clock();
      storing = storing.then(() => enqueue(event, data, now)).catch(() => undefined);
    },
    async isDue(): Promise<boolean> {
      const { items } = await store.page(keys.webhookDue, { limit: 1 });
      return items.some(({ score }) => score <= clock());
    },
    /** Sends the messages that are due. Call it in one process at a time. */
    async deliver(): Promise<void> {
      const { items } = await store.page(keys.webhookDue, { limit: MAX_CONCURRENT });
      const due = items.filter(({ score }) => score <= clock());
      await Promise.all(due.map(({ member }) => attempt(member)));
    },
    /** The latest messages of one webhook, newest first. */
    async latest(webhookId: string): Promise<WebhookMessage[]> {
      const { items } = await store.page(keys.webhookMessages(webhookId), { limit: 50, order: 'descending' });
      const messages = await Promise.all(items.map(({ member }) => load(member)));
      return messages.flatMap((message) => {
        if (!message) return [];
        const { body: _, ...view } = message;
        return [view];
      });
    },
    /** Resolves once everything announced is stored. */
    settle: (): Promise<void> => storing,
  };
}

/** A webhook sealed with a lost key must not stop the messages of others. Its own are retried and finally fail. */
function unreadable(error: unknown): 'unreadable' {
  if (error instanceof AppError && error.code === 'internal') return 'unreadable';
  throw error;
}

/** Standard Webhooks: HMAC-SHA256 over id, timestamp and body; the key is the base64 after `whsec_`. */
export function signatureOf(secret: string, id: string, timestamp: string, body: string): string {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
}
