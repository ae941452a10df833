/** Failures of a provider, by what to do about them. */
import { OutboundError } from '../outbound/outbound.ts';

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
  /** The member for which a token response was refused, and the host that it names. */
  member?: string | undefined;
  host?: string | undefined;
  /** What the provider calls itself, where that is not the issuer that is set; for administrators alone. */
  issuer?: string;
  retryAfterSeconds?: number | undefined;
  cause?: unknown;
}

/** `reason` is a fixed word for logs and records; texts of the provider are not repeated. */
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

/** The outbound error, where the failure is a call without a usable response. */
export function failedCall(error: unknown): OutboundError | undefined {
  const cause = error instanceof ProviderError ? error.facts.cause : error;
  return cause instanceof OutboundError ? cause : undefined;
}

/** Sentences for an administrator: the cause with host and port, and what to do about it. */
export function failedCallWords({ message, advice }: OutboundError): string {
  return `The provider cannot be called: ${message}.${advice === undefined ? '' : ` ${advice}`}`;
}

/** The failure in words, without the provider's own text. */
export function describeFailure(error: unknown): string {
  const failed = failedCall(error);
  if (failed) return failed.message;
  if (error instanceof ProviderError) {
    const { status, oauthError, member, host } = error.facts;
    const parts = [error.reason.replaceAll('_', ' '), status && `status ${status}`, oauthError, member, host];
    return parts.filter(Boolean).join(', ');
  }
  return 'unknown failure';
}
