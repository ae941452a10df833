/** A message to one webhook, and how an attempt to deliver it changes it. Pure. */
import type { WebhookEvent } from './webhook-store.ts';

/** The event of test messages, which administrators send. Webhooks cannot subscribe to it. */
export const TEST_EVENT = 'webhook.test';
export type MessageEvent = WebhookEvent | typeof TEST_EVENT;

export const MESSAGE_STATES = ['pending', 'delivered', 'failed'] as const;
export type MessageState = (typeof MESSAGE_STATES)[number];

/** One attempt to deliver a message. Times in this module are milliseconds since the epoch. */
export interface DeliveryAttempt {
  at: number;
  /** The status of the response, if there was one. */
  status?: number | undefined;
  /** Why there was no response. */
  error?: string | undefined;
  /** The beginning of the response's body, if there was one. */
  responseBody?: string | undefined;
  /** True if an administrator made this attempt, in addition to the automatic ones. */
  manual?: true;
}

export interface WebhookMessage {
  id: string;
  webhook: string;
  event: MessageEvent;
  /** The JSON that is sent. */
  body: string;
  createdAt: number;
  state: MessageState;
  /** When the message is sent next; undefined unless it is pending. */
  nextAt: number | undefined;
  attempts: readonly DeliveryAttempt[];
}

export interface Outcome extends Pick<DeliveryAttempt, 'status' | 'error' | 'responseBody'> {
  isDelivered?: boolean;
  /** True if no further attempt is made. */
  isFinal?: boolean;
  /** When the receiver wants the next attempt at the earliest. */
  retryAfterSeconds?: number | undefined;
  /** True if nothing was sent, so that the attempt does not count for the health of the webhook. */
  isUnsent?: boolean;
}

/** Any 2xx delivers a message, whatever the body of the response is. */
export const isAccepted = (status: number | undefined): boolean =>
  status !== undefined && status >= 200 && status < 300;

/** The pause before each of the eight attempts, about 16 hours in total; longer if a receiver says so. */
export const PAUSES_SECONDS = [0, 5, 60, 300, 1_800, 7_200, 18_000, 28_800] as const;
/** Older manual attempts are dropped, so that the record cannot grow without bound. */
const MAX_MANUAL_ATTEMPTS = 20;

/** Returns the message after an attempt. @param context `random`: 0 to 1, spreads the next attempts by a tenth */
export function afterAttempt(
  message: WebhookMessage,
  { status, error, responseBody, isDelivered, isFinal, retryAfterSeconds = 0 }: Outcome,
  context: { now: number; random: number; manual: boolean },
): WebhookMessage {
  const { now, random, manual } = context;
  const attempt: DeliveryAttempt = { at: now, status, error, responseBody, ...(manual && { manual }) };
  const attempts = withoutOldManual([...message.attempts, attempt]);
  if (isDelivered) return { ...message, attempts, state: 'delivered', nextAt: undefined };
  // A manual attempt does not reduce the number of automatic attempts.
  if (manual || message.state !== 'pending') return { ...message, attempts };
  const pause = isFinal ? undefined : PAUSES_SECONDS[attempts.filter((earlier) => !earlier.manual).length];
  if (pause === undefined) return { ...message, attempts, state: 'failed', nextAt: undefined };
  return { ...message, attempts, nextAt: now + 1000 * Math.max(pause * (0.9 + random / 5), retryAfterSeconds) };
}

function withoutOldManual(attempts: readonly DeliveryAttempt[]): DeliveryAttempt[] {
  const oldestKept = attempts.filter(({ manual }) => manual).at(-MAX_MANUAL_ATTEMPTS);
  return attempts.filter(({ manual, at }) => !manual || oldestKept === undefined || at >= oldestKept.at);
}
