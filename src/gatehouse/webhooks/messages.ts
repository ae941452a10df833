/** Stores messages to webhooks, sends each up to 8 times with growing pauses, and sends it again for administrators. */

import type { Outbound } from '../../shared/outbound/outbound.ts';
import { createDueWork, type DueWork } from '../../shared/storage/due-work.ts';
import { keys } from '../../shared/storage/keys.ts';
import { type MatchingPage, matchingPage } from '../../shared/storage/matching-page.ts';
import { newOpaqueTokenId } from '../../shared/storage/opaque-token.ts';
import { allMembers } from '../../shared/storage/paging.ts';
import type { Store, Write } from '../../shared/storage/store.ts';
import { updateRecord } from '../../shared/storage/update-record.ts';
import { createWriteQueue } from '../../shared/storage/write-queue.ts';
import { DAY_SECONDS, isoTime } from '../../shared/time.ts';
import type { AuditNotes } from '../audit/notes.ts';
import { createDelivery } from './delivery.ts';
import type { WebhookHealths } from './health.ts';
import {
  afterAttempt,
  type MessageEvent,
  type MessageState,
  type Outcome,
  TEST_EVENT,
  type WebhookMessage,
} from './message.ts';
import type { Webhook, WebhookEvent, WebhookStore } from './webhook-store.ts';

/** The content of a message, such as the user and the app of a connection. */
type Data = Readonly<Record<string, string | readonly string[] | null | undefined>>;

const LIFETIME_SECONDS = 30 * DAY_SECONDS;
const MAX_LISTED = 200;

export interface WebhookMessages {
  /** Creates the messages about an event in the background; never throws. */
  announce(event: WebhookEvent, data: Data): void;

  isDue: DueWork['isDue'];

  /** Sends due messages. Must run in one process at a time. */
  deliver: DueWork['work'];

  /** Sends a test message once, even to a disabled webhook, and returns it with the attempt. */
  test(webhook: string): Promise<WebhookMessage>;

  /** Sends a message once more, with the same id and content. Returns undefined if the webhook has no such message. */
  resend(webhook: string, id: string): Promise<WebhookMessage | undefined>;

  find(webhook: string, id: string): Promise<WebhookMessage | undefined>;

  /** Returns a page of the latest messages of one webhook, newest first. */
  page(
    webhook: string,
    options: { after?: string | undefined; limit: number; state?: MessageState | undefined },
  ): Promise<MatchingPage<WebhookMessage>>;

  /** Deletes the messages of a deleted webhook; pending ones are not sent. */
  forget(webhook: string): Promise<void>;

  /** Resolves once the messages of all announced events are stored. */
  settle(): Promise<void>;

  /** Stores the messages of announced events. Gives up after a few seconds. */
  close(): Promise<void>;
}

export function createWebhookMessages(parts: {
  store: Store;
  webhooks: Pick<WebhookStore, 'page' | 'target'>;
  outbound: Pick<Outbound, 'fetch'>;
  healths: Pick<WebhookHealths, 'note'>;
  audit: Pick<AuditNotes, 'note'>;
  clock: () => number;
  random: () => number;
  /** Called with the number of announcements that could not be stored. */
  onLost: (announcements: number) => void;
}): WebhookMessages {
  const { store, webhooks, outbound, healths, audit, clock, random, onLost } = parts;
  const deliver = createDelivery({ webhooks, outbound, clock });
  const queue = createWriteQueue({ onLost });

  const load = async (id: string): Promise<WebhookMessage | undefined> => {
    const record = await store.get(keys.webhookMessage(id));
    return record && (JSON.parse(record.value) as WebhookMessage);
  };

  const dueWrite = ({ id, nextAt }: WebhookMessage): Write =>
    nextAt === undefined ? { index: keys.webhookDue, remove: id } : { index: keys.webhookDue, add: id, score: nextAt };

  const create = async (message: WebhookMessage): Promise<void> => {
    const { id, webhook, createdAt } = message;
    const [put, value] = [keys.webhookMessage(id), JSON.stringify(message)];
    await store.write([
      { put, value, lifetimeSeconds: LIFETIME_SECONDS, ifVersion: 0 },
      dueWrite(message),
      { index: keys.webhookMessages(webhook), add: id, score: createdAt },
    ]);
    await dropOldest(webhook);
  };

  const dropOldest = async (webhook: string): Promise<void> => {
    const index = keys.webhookMessages(webhook);
    if ((await store.count(index)) <= MAX_LISTED) return;
    const { items } = await store.page(index, { limit: 1 });
    await store.write(items.map(({ member }) => ({ index, remove: member })));
  };

  /** Returns a message for each webhook that subscribes to the event and existed then, since this may run later. */
  const messagesFor = async (event: WebhookEvent, data: Data, now: number): Promise<WebhookMessage[]> => {
    const isReceiver = ({ disabled, events, createdAt }: Webhook) =>
      !disabled && events.includes(event) && createdAt <= now;
    const { items: receivers } = await webhooks.page({ limit: Number.POSITIVE_INFINITY, filter: isReceiver });
    return receivers.map(({ id }) => ({ ...newMessage(id, event, data, now), nextAt: now }));
  };

  const send = async (message: WebhookMessage, manual: boolean): Promise<Outcome> => {
    const outcome = await deliver(message, { manual });
    const { status, error, isDelivered = false, isUnsent } = outcome;
    if (!isUnsent) await healths.note(message.webhook, clock(), { status, error, isDelivered });
    return outcome;
  };

  /** Adds an attempt to the stored message. */
  const record = async (id: string, outcome: Outcome, manual: boolean): Promise<WebhookMessage | undefined> => {
    const details = { now: clock(), random: random(), manual };
    const updated = await updateRecord<WebhookMessage>(
      store,
      keys.webhookMessage(id),
      (message) => message && afterAttempt(message, outcome, details),
      { lifetimeSeconds: LIFETIME_SECONDS, writes: ({ after }) => [dueWrite(after)] },
    );
    return updated?.after;
  };

  /** Sends a message that is due. Resolves with false if it was sent and not delivered. */
  const attempt = async (id: string): Promise<boolean> => {
    const message = await load(id);
    if (message?.state !== 'pending') {
      await store.write([{ index: keys.webhookDue, remove: id }]);
      return true;
    }
    if ((message.nextAt ?? 0) > clock()) return true;
    const outcome = await send(message, false);
    const { isDelivered = false, isUnsent = false } = outcome;
    const updated = await record(id, outcome, false);
    if (updated?.state === 'failed') auditFailure(updated, outcome);
    return isDelivered || isUnsent;
  };

  const auditFailure = ({ id, webhook, event, attempts }: WebhookMessage, { status, error }: Outcome): void => {
    const facts = { message: id, event, attempts: attempts.length, status, error };
    audit.note({
      event: 'webhook.failed',
      actor: { kind: 'system' },
      target: { kind: 'webhook', id: webhook },
      facts,
    });
  };

  const due = createDueWork({
    store,
    index: keys.webhookDue,
    clock,
    receiverOf: async (id) => (await load(id))?.webhook ?? '',
    work: attempt,
  });

  const find = async (webhook: string, id: string): Promise<WebhookMessage | undefined> => {
    const message = isMessageId(id) ? await load(id) : undefined;
    return message?.webhook === webhook ? message : undefined;
  };

  return {
    announce(event, data) {
      const now = clock();
      let messages: readonly WebhookMessage[] | undefined;
      queue.add(async () => {
        // The same messages at each attempt, so that a stored message is not stored again.
        messages ??= await messagesFor(event, data, now);
        for (const message of messages) await create(message);
      });
    },

    isDue: due.isDue,
    deliver: due.work,

    async test(webhook) {
      const message = newMessage(webhook, TEST_EVENT, { webhook }, clock());
      const outcome = await send(message, true);
      const messageAfter = afterAttempt(message, outcome, { now: clock(), random: 0, manual: true });
      // Stored after the attempt, so that nothing stays pending if the process ends in between. The attempt is not
      // repeated.
      const testMessage: WebhookMessage = outcome.isDelivered ? messageAfter : { ...messageAfter, state: 'failed' };
      await create(testMessage);
      return testMessage;
    },

    async resend(webhook, id) {
      const message = await find(webhook, id);
      return message && record(id, await send(message, true), true);
    },

    find,

    page(webhook, { state, ...options }) {
      const filter = (message: WebhookMessage) => state === undefined || message.state === state;
      return matchingPage(store, keys.webhookMessages(webhook), { ...options, filter }, load);
    },

    async forget(webhook) {
      const index = keys.webhookMessages(webhook);
      for (const id of await allMembers(store, index)) {
        await store.write([
          { delete: keys.webhookMessage(id) },
          { index: keys.webhookDue, remove: id },
          { index, remove: id },
        ]);
      }
    },

    settle: queue.settle,
    close: queue.close,
  };
}

function newMessage(webhook: string, event: MessageEvent, data: Data, now: number): WebhookMessage {
  return {
    id: `msg_${newOpaqueTokenId()}${newOpaqueTokenId()}`,
    webhook,
    event,
    body: JSON.stringify({ type: event, timestamp: isoTime(now), data }),
    createdAt: now,
    state: 'pending',
    nextAt: undefined,
    attempts: [],
  };
}

const isMessageId = (text: string) => /^msg_[0-9A-Za-z]{22}$/.test(text);
