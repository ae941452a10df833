/** Why a call brought no usable response. */
import { addressFailure, connectionFailure, proxyFailure, timeoutFailure } from './call-failure.ts';
import { ProxyFailure } from './dispatcher.ts';
import { RefusedAddress } from './judged-lookup.ts';

/** `busy`: the limits of calls that run and wait for the host are reached. */
export type OutboundFailure = 'address' | 'timeout' | 'connection' | 'too_large' | 'encoding' | 'busy';

/** A call that brought no usable response. Texts name host and port only, since the rest of the URL may hold a code. */
export class OutboundError extends Error {
  readonly reason: OutboundFailure;
  /** What an administrator can do; the message says why the call failed. */
  readonly advice: string | undefined;
  constructor(reason: OutboundFailure, { words, advice }: { words: string; advice?: string }, options?: ErrorOptions) {
    super(words, options);
    this.name = 'OutboundError';
    this.reason = reason;
    this.advice = advice;
  }
}

/** @param signal aborted once the deadline of the whole call has passed */
export function asOutboundError(error: unknown, url: string, signal: Pick<AbortSignal, 'aborted'>): OutboundError {
  if (error instanceof OutboundError) return error;
  if (error instanceof RefusedAddress) return new OutboundError('address', addressFailure(url, error.rule));
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (signal.aborted || /TIMEOUT|TIMEDOUT/.test(code))
    return new OutboundError('timeout', timeoutFailure(url), { cause: error });
  if (error instanceof ProxyFailure) return new OutboundError('connection', proxyFailure(url, code), { cause: error });
  return new OutboundError('connection', connectionFailure(url, code), { cause: error });
}
