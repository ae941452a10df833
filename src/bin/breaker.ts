/** Owns the breaker in front of the BIN lookup service: after failures in a row nothing is asked for a while, then one call tries. */
import { BrokenCircuitError, CircuitState, ConsecutiveBreaker, circuitBreaker, handleWhenResult } from 'cockatiel';

export interface Breaker<T> {
  /** Does the work, or answers what `whenOpen` makes of the whole seconds that are left, at least 1. */
  run(work: () => Promise<T>, whenOpen: (secondsLeft: number) => T): Promise<T>;
  /** Whole seconds, at least 1, for which nothing will be done; undefined where the next work is done. */
  secondsLeft(): number | undefined;
}

export interface BreakerParts<T> {
  isFailure: (answer: T) => boolean;
  failures: number;
  openMilliseconds: number;
}

/** The pause is measured by a clock that never steps: the library's own follows the system's. */
export function createBreaker<T>(parts: BreakerParts<T>): Breaker<T> {
  const { isFailure, failures, openMilliseconds } = parts;
  let openedAt = Number.NEGATIVE_INFINITY;
  const close = () => {
    const policy = circuitBreaker(
      handleWhenResult((answer) => isFailure(answer as T)),
      { halfOpenAfter: openMilliseconds, breaker: new ConsecutiveBreaker(failures) },
    );
    policy.onBreak(() => {
      openedAt = performance.now();
    });
    return policy;
  };
  let policy = close();
  const secondsLeft = () => {
    const left = openedAt + openMilliseconds - performance.now();
    return policy.state === CircuitState.Open && left > 0 ? Math.ceil(left / 1000) : undefined;
  };
  return {
    secondsLeft,
    async run(work, whenOpen) {
      try {
        return await policy.execute(work);
      } catch (error) {
        if (!(error instanceof BrokenCircuitError)) throw error;
        const left = secondsLeft();
        if (left !== undefined) return whenOpen(left);
        policy = close();
        return policy.execute(work);
      }
    },
  };
}
