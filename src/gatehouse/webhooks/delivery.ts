/** Sends one message to its webhook, signed as Standard Webhooks specifies. */
import { createHmac } from 'node:crypto';
import { AppError } from '../../shared/errors.ts';
import { scrubSecrets } from '../../shared/observability/secret-texts.ts';
import type { Outbound } from '../../shared/outbound/outbound.ts';
import { OutboundError } from '../../shared/outbound/outbound.ts';
import { retryAfterSeconds } from '../../shared/outbound/retry-after.ts';
import { cutText } from '../../shared/text.ts';
import { isAccepted, type Outcome, type WebhookMessage } from './message.ts';
import type { WebhookStore, WebhookTarget } from './webhook-store.ts';

const LIMITS = { deadlineMilliseconds: 10_000, maxBytes: 64 * 1024, statusDecides: true };
/** How much of a response is stored: enough for an error message of the receiver. */
const MAX_BODY_LENGTH = 1_000;
/**
 * How much of a response is searched for secrets. A secret may begin near the end of the stored text, and be recognised
 * only by the characters after it.
 */
const MAX_SEARCHED_LENGTH = 4_096;
/** The longest beginning of a secret that is not recognised: 18 digits of a card number, each with a separator. */
const MAX_CUT_OFF_LENGTH = 36;

export function createDelivery(parts: {
  webhooks: Pick<WebhookStore, 'target'>;
  outbound: Pick<Outbound, 'fetch'>;
  clock: () => number;
}) {
  const { webhooks, outbound, clock } = parts;

  const post = async ({ url, secrets }: WebhookTarget, { id, body }: WebhookMessage): Promise<Outcome> => {
    const timestamp = String(Math.floor(clock() / 1000));
    const headers = {
      'content-type': 'application/json',
      'user-agent': 'Gatehouse',
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      // One signature per valid secret, separated by spaces: the receiver accepts the message if any of them is valid.
      'webhook-signature': secrets.map((secret) => signatureOf(secret, id, timestamp, body)).join(' '),
    };
    try {
      const response = await outbound.fetch(url, { peer: 'webhook', method: 'POST', headers, body }, LIMITS);
      const { status } = response;
      const responseBody = beginningOf(await response.text());
      return {
        status,
        responseBody,
        isDelivered: isAccepted(status),
        isFinal: status === 410,
        retryAfterSeconds: retryAfterSeconds(response.headers.get('retry-after'), clock()),
      };
    } catch (error) {
      return { error: error instanceof OutboundError ? error.message : 'the call failed' };
    }
  };

  // A manual delivery is sent even if the webhook is disabled.
  return async (message: WebhookMessage, { manual }: { manual: boolean }): Promise<Outcome> => {
    const target = await webhooks.target(message.webhook).catch(unreadable);
    if (target === 'unreadable') return { error: 'the webhook cannot be opened', isUnsent: true };
    if (!target || (target.disabled && !manual)) {
      return { error: 'the webhook was deleted or is disabled', isFinal: true, isUnsent: true };
    }
    return post(target, message);
  };
}

/** Returns the beginning of the response without secrets, tokens and card numbers, since administrators read it. */
function beginningOf(text: string): string | undefined {
  const scrubbedText = scrubSecrets(cutText(text, MAX_SEARCHED_LENGTH));
  // A longer text may have been cut off within a secret.
  const isCutOff = text.length > MAX_SEARCHED_LENGTH;
  const safeText = isCutOff ? cutText(scrubbedText, scrubbedText.length - MAX_CUT_OFF_LENGTH) : scrubbedText;
  return cutText(safeText.toWellFormed(), MAX_BODY_LENGTH) || undefined;
}

/**
 * Handles a webhook that is sealed with a lost key: it must not stop the messages of other webhooks. Its own messages
 * are retried until they fail.
 */
function unreadable(error: unknown): 'unreadable' {
  if (error instanceof AppError && error.code === 'internal') return 'unreadable';
  throw error;
}

/** Returns the signature of Standard Webhooks: HMAC-SHA256 over id, timestamp and body, with the key after `whsec_`. */
export function signatureOf(secret: string, id: string, timestamp: string, body: string): string {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
}
