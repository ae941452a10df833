/** Owns the end of waiting for an answer: told once, by a caller who has left or by a deadline. Far cheaper than an AbortSignal at every call. */

export interface Stop {
  readonly stopped: boolean;
  /** What ends that which is waited for just now; called at once where it has stopped already. Replaces the one before. */
  whenStopped(end: () => void): void;
}

export interface StopSwitch extends Stop {
  /** True where it was the deadline that stopped it. */
  readonly tooLate: boolean;
  stop(): void;
  stopLate(): void;
}

export function createStop(): StopSwitch {
  let end: (() => void) | undefined;
  // Plain properties: an object with getters of its own gets a hidden class of its own, which outlives it by far and with
  // it all that its functions hold, the whole request (docs/performance.md).
  const state = {
    stopped: false,
    tooLate: false,
    stop() {
      state.stopped = true;
      end?.();
    },
    stopLate() {
      state.tooLate = true;
      state.stop();
    },
    whenStopped(action: () => void) {
      end = action;
      if (state.stopped) action();
    },
  };
  return state;
}
