/** Owns the messages of webhooks: kept until they are taken, signed (Standard Webhooks), tried 8 times with growing pauses. */
import { createHmac, randomBytes } from 'node:crypto';
import type { AuditNotes } from '../audit/notes.ts';
import { AppError } from '../errors.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { OutboundError } from '../outbound/outbound.ts';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import type { WebhookEvent, Webhooks } from './webhook.ts';

/** One try. `answer`: the status, or why there was none. */
export interface WebhookTry {
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
  /** While it is waiting. */
  nextAt: number | undefined;
  tries: readonly WebhookTry[];
}

type KeptMessage = WebhookMessage & { body: string };

export interface WebhookMessages {
  /** Never throws and never waits. */
  announce(event: WebhookEvent, data: Readonly<Record<string, string | undefined>>): void;
  /** Sends whatever is due; for one process at a time. */
  deliver(): Promise<void>;
  /** The latest of one webhook, the newest first. */
  latest(webhookId: string): Promise<WebhookMessage[]>;
  /** Resolves once everything that was announced is kept. */
  settle(): Promise<void>;
}

/** After so many seconds each: eight tries in about 16 hours. */
const PAUSES_SECONDS = [0, 5, 60, 300, 1_800, 7_200, 18_000, 28_800] as const;
const LIMITS = { deadlineMilliseconds: 10_000, maxBytes: 64 * 1024 };
const KEPT_SECONDS = 30 * 86_400;
/** Messages to an address that hangs are among them: the more at once, the less the others wait for those. */
const AT_ONCE = 50;
const MOST_LISTED = 200;

export function createWebhookMessages(parts: {
  store: Store;
  webhooks: Webhooks;
  outbound: Outbound;
  audit: Pick<AuditNotes, 'note'>;
  clock: () => number;
  random: () => number;
}): WebhookMessages {
  const { store, webhooks, outbound, audit, clock, random } = parts;
  let keeping: Promise<void> = Promise.resolve();

  const enqueue = async (event: WebhookEvent, data: Readonly<Record<string, string | undefined>>, now: number) => {
    const { webhooks: all } = await webhooks.page({ limit: 200 });
    const timestamp = new Date(now).toISOString();
    for (const { id: webhook } of all.filter(({ enabled, events }) => enabled && events.includes(event))) {
      const id = `msg_${randomBytes(16).toString('hex')}`;
      const body = JSON.stringify({ type: event, timestamp, data });
      const message: KeptMessage = {
        id,
        webhook,
        event,
        createdAt: now,
        state: 'waiting',
        nextAt: now,
        tries: [],
        body,
      };
      await store.write([
        { put: keys.webhookMessage(id), value: JSON.stringify(message), lifetimeSeconds: KEPT_SECONDS },
        { index: keys.webhookDue, add: id, score: now },
        { index: keys.webhookMessages(webhook), add: id, score: now },
      ]);
      await dropOldest(webhook);
    }
  };

  const dropOldest = async (webhook: string): Promise<void> => {
    const index = keys.webhookMessages(webhook);
    if ((await store.count(index)) <= MOST_LISTED) return;
    const { items } = await store.page(index, { limit: 1 });
    await store.write(items.map(({ member }) => ({ index, remove: member })));
  };

  const load = async (id: string): Promise<KeptMessage | undefined> => {
    const record = await store.get(keys.webhookMessage(id));
    return record && (JSON.parse(record.value) as KeptMessage);
  };

  const send = async ({
    id,
    webhook,
    body,
  }: KeptMessage): Promise<{ answer: string; taken: boolean; over: boolean }> => {
    const target = await webhooks.target(webhook).catch(unreadable);
    if (target === 'unreadable') return { answer: 'the webhook cannot be opened', taken: false, over: false };
    if (!target) return { answer: 'the webhook is gone or switched off', taken: false, over: true };
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
      return { answer: String(status), taken: status >= 200 && status < 300, over: status === 410 };
    } catch (error) {
      return { answer: error instanceof OutboundError ? error.reason : 'connection', taken: false, over: false };
    }
  };

  const attempt = async (id: string): Promise<void> => {
    const message = await load(id);
    if (message?.state !== 'waiting') {
      await store.write([{ index: keys.webhookDue, remove: id }]);
      return;
    }
    const { answer, taken, over } = await send(message);
    const now = clock();
    const tries = [...message.tries, { at: now, answer }];
    const pause = over ? undefined : PAUSES_SECONDS[tries.length];
    const nextAt = taken || pause === undefined ? undefined : now + pause * 1000 * (0.9 + random() / 5);
    const state = taken ? 'taken' : nextAt === undefined ? 'given_up' : 'waiting';
    const next: KeptMessage = { ...message, tries, nextAt, state };
    await store.write([
      { put: keys.webhookMessage(id), value: JSON.stringify(next), lifetimeSeconds: KEPT_SECONDS },
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
    announce(event, data) {
      const now = clock();
      keeping = keeping.then(() => enqueue(event, data, now)).catch(() => undefined);
    },
    async deliver() {
      const { items } = await store.page(keys.webhookDue, { limit: AT_ONCE });
      const due = items.filter(({ score }) => score <= clock());
      await Promise.all(due.map(({ member }) => attempt(member)));
    },
    async latest(webhookId) {
      const { items } = await store.page(keys.webhookMessages(webhookId), { limit: 50, order: 'descending' });
      const found = await Promise.all(items.map(({ member }) => load(member)));
      return found.flatMap((message) => {
        if (!message) return [];
        const { body: _, ...told } = message;
        return [told];
      });
    },
    settle: () => keeping,
  };
}

/** One that was sealed with a lost key costs its own messages and no others: they are tried again, and given up in the end. */
function unreadable(error: unknown): 'unreadable' {
  if (error instanceof AppError && error.code === 'internal') return 'unreadable';
  throw error;
}

/** Standard Webhooks: HMAC-SHA256 over id, time and body, with the bytes behind `whsec_`. */
export function signatureOf(secret: string, id: string, timestamp: string, body: string): string {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
}
