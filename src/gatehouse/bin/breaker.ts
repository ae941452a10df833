/** Circuit breaker for the BIN lookup service: pauses after several failures in a row, then lets one call through. */
import { BrokenCircuitError, CircuitState, ConsecutiveBreaker, circuitBreaker, handleWhenResult } from 'cockatiel';

export interface Breaker<T> {
  /**
   * Runs the work. During a pause it returns the result of `whenOpen` instead, with the whole seconds left, at least 1.
   */
  run(work: () => Promise<T>, whenOpen: (secondsLeft: number) => T): Promise<T>;
  /** Whole seconds left of the pause, at least 1; undefined if there is none. */
  secondsLeft(): number | undefined;
}

export interface BreakerParts<T> {
  isFailure: (result: T) => boolean;
  failures: number;
  openMilliseconds: number;
}

/** Measures the pause by a monotonic clock, because the library uses the system clock, which can be set. */
export function createBreaker<T>(parts: BreakerParts<T>): Breaker<T> {
  const { isFailure, failures, openMilliseconds } = parts;
  let openedAt = Number.NEGATIVE_INFINITY;
  const createClosed = () => {
    const policy = circuitBreaker(
      handleWhenResult((result) => isFailure(result as T)),
      { halfOpenAfter: openMilliseconds, breaker: new ConsecutiveBreaker(failures) },
    );
    policy.onBreak(() => {
      openedAt = performance.now();
    });
    return policy;
  };
  let policy = createClosed();
  const secondsLeft = () => {
    const millisecondsLeft = openedAt + openMilliseconds - performance.now();
    return policy.state === CircuitState.Open && millisecondsLeft > 0 ? Math.ceil(millisecondsLeft / 1000) : undefined;
  };
  return {
    secondsLeft,
    async run(work, whenOpen) {
      try {
        return await policy.execute(work);
      } catch (error) {
        if (!(error instanceof BrokenCircuitError)) throw error;
        const pauseSeconds = secondsLeft();
        if (pauseSeconds !== undefined) return whenOpen(pauseSeconds);
        policy = createClosed();
        return policy.execute(work);
      }
    },
  };
}
