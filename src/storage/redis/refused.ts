/** Why a Redis must not be used; apart from the driver, so that a refusal can be reported without loading it. */

export type RedisRefusal = 'may_evict' | 'may_forget' | 'no_replica' | 'wrong_setting' | 'unknown';

/** The Redis cannot be used, and an operator has to decide; the message says what to do. */
export class RedisRefusedError extends Error {
  readonly reason: RedisRefusal;

  constructor(reason: RedisRefusal, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'RedisRefusedError';
    this.reason = reason;
  }
}
