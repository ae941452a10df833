/** Owns the ways in which a provider fails us, told apart so that each can be answered rightly. */
import { OutboundError } from '../outbound/outbound.ts';

/**
 * `unavailable`: not reached, or no sensible answer; heals by itself.
 * `refused`: the provider said no to this one request (`oauthError` is its word, RFC 6749 section 5.2).
 * `invalid`: an answer that breaks the protocol: nothing in it is trusted.
 * `misconfigured`: the registration here or there is wrong: an administrator has to mend it.
 */
export type ProviderFailure = 'unavailable' | 'refused' | 'invalid' | 'misconfigured';

export interface ProviderErrorFacts {
  status?: number;
  oauthError?: string | undefined;
  endpoint?: string;
  retryAfterSeconds?: number | undefined;
  cause?: unknown;
}

/** `reason` is a fixed word for logs and records; provider texts are not repeated. */
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
    return new ProviderError('invalid', 'unreadable_answer', { cause: error });
  }
}
