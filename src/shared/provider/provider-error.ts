/** Failures of a provider, by what to do about them. */
import { OutboundError } from '../outbound/outbound.ts';
import { retryAfterSeconds } from '../outbound/retry-after.ts';

/**
 * `unavailable`: not reached, or no usable response; temporary.
 * `refused`: the provider refused this request with `oauthError` (RFC 6749 section 5.2).
 * `invalid`: a response that violates the protocol; nothing in it is trusted.
 * `misconfigured`: the registration here or at the provider is wrong, and an administrator has to correct it.
 */
export type ProviderFailure = 'unavailable' | 'refused' | 'invalid' | 'misconfigured';

export interface ProviderErrorFacts {
  status?: number;
  oauthError?: string | undefined;
  endpoint?: string;
  /**
   * The member because of which a token response was refused, a description of its value that may be shown, and the
   * host that it names.
   */
  member?: string | undefined;
  value?: string | undefined;
  host?: string | undefined;
  /** The issuer in the provider's metadata if it differs from the configured one; for administrators only. */
  issuer?: string;
  retryAfterSeconds?: number | undefined;
  /** The provider refused the call because of its rate limit. */
  limited?: boolean | undefined;
  cause?: unknown;
}

/** `reason` is a fixed code for logs and records; the provider's text is not repeated. */
export class ProviderError extends Error {
  readonly failure: ProviderFailure;
  readonly reason: string;
  readonly facts: ProviderErrorFacts;

  constructor(failure: ProviderFailure, reason: string, facts: ProviderErrorFacts = {}) {
    super(`${failure}: ${reason}`, { cause: facts.cause });
    this.name = 'ProviderError';
    this.failure = failure;
    this.reason = reason;
    this.facts = facts;
  }

  retryIn(seconds: number): ProviderError {
    return new ProviderError(this.failure, this.reason, { ...this.facts, retryAfterSeconds: Math.max(1, seconds) });
  }

  static from(error: unknown): ProviderError {
    if (error instanceof ProviderError) return error;
    if (error instanceof OutboundError) {
      return new ProviderError(error.reason === 'address' ? 'misconfigured' : 'unavailable', error.reason, {
        cause: error,
      });
    }
    return new ProviderError('invalid', 'unreadable_response', { cause: error });
  }
}

/** The outbound error, if the failure is a call without a usable response. */
export function failedCall(error: unknown): OutboundError | undefined {
  const cause = error instanceof ProviderError ? error.facts.cause : error;
  return cause instanceof OutboundError ? cause : undefined;
}

/** True if a response arrived but could not be read: waiting alone does not help. @param reason of a `ProviderError` */
export const isUnreadable = (reason: string): boolean => reason === 'encoding' || reason === 'too_large';

/** True if the provider refused the call because of its rate limit (RFC 6585 section 4). */
export const isLimit = ({ status }: Pick<Response, 'status'>): boolean => status === 429;

/**
 * What a response says about the next call: whether the rate limit refused this one, and when to call again.
 * @param now milliseconds since the epoch
 */
export function retryFacts(
  { status, headers }: Pick<Response, 'status' | 'headers'>,
  now: number,
): Pick<ProviderErrorFacts, 'limited' | 'retryAfterSeconds'> {
  const limited = isLimit({ status });
  const seconds = status >= 400 ? retryAfterSeconds(headers.get('retry-after'), now) : undefined;
  return { ...(limited && { limited }), ...(seconds !== undefined && { retryAfterSeconds: Math.max(1, seconds) }) };
}

export const LIMITED_WORDS = 'The provider limits the rate of our calls (429). Try again later.';

/**
 * True if an endpoint is gone: the connection fails, or the status says that there is no such endpoint. A redirect
 * counts, since none is followed. A timeout does not count: calls would wait a second time for a host that hangs.
 */
export function isGone(error: unknown): boolean {
  const call = failedCall(error);
  if (call) return !call.sent && call.reason === 'connection';
  return error instanceof ProviderError && isGoneStatus(error.facts.status);
}

/** RFC 9110 sections 15.4, 15.5.5, 15.5.6 and 15.5.11. */
export function isGoneStatus(status = 0): boolean {
  return (status >= 300 && status < 400) || [404, 405, 410].includes(status);
}

/** Sentences for an administrator: the cause with host and port, and what to do about it. */
export function failedCallText({ message, advice }: OutboundError): string {
  return `The call to the provider failed: ${message}.${advice === undefined ? '' : ` ${advice}`}`;
}

/** Describes the failure without repeating the provider's text. */
export function describeFailure(error: unknown): string {
  const failed = failedCall(error);
  if (failed) return failed.message;
  if (error instanceof ProviderError) {
    const { status, oauthError, member, value, host, limited } = error.facts;
    const reason = limited ? 'the provider limits the rate of our calls' : error.reason.replaceAll('_', ' ');
    const parts = [reason, status && `status ${status}`, oauthError, member, value, host];
    return parts.filter(Boolean).join(', ');
  }
  return 'unknown failure';
}
