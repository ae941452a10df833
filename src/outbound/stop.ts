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
  let stopped = false;
  let tooLate = false;
  let end: (() => void) | undefined;
  const stop = () => {
    stopped = true;
    end?.();
  };
  return {
    get stopped() {
      return stopped;
    },
    get tooLate() {
      return tooLate;
    },
    stop,
    stopLate() {
      tooLate = true;
      stop();
    },
    whenStopped(action) {
      end = action;
      if (stopped) action();
    },
  };
}
