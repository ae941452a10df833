/** Owns how a process ends: the first SIGTERM or SIGINT ends it in order, another one forces it. */

/** npm passes a signal on that the terminal has sent to the whole group as well: within this time they are one. */
const SAME_SIGNAL_MILLISECONDS = 1_000;

/**
 * To be called before anything is started: as the first process of a container one that has no handler yet hears nothing.
 * @param close ends everything; the process exits with 0 once it resolves, with 1 if it rejects
 */
export function stopOnSignals(close: () => Promise<void>): void {
  let stoppedAt: number | undefined;
  const stop = () => {
    const now = performance.now();
    if (stoppedAt !== undefined) {
      if (now - stoppedAt >= SAME_SIGNAL_MILLISECONDS) process.exit(1);
      return;
    }
    stoppedAt = now;
    close().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
}
