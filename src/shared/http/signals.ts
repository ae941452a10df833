/** Signals: SIGTERM and SIGINT stop the process in order (a second one forces the exit), SIGHUP reloads settings. */

/** The terminal signals the whole process group, and npm forwards its signal: within this time the two count as one. */
const SAME_SIGNAL_MS = 1_000;

/**
 * Stops the process at a signal. Call this before starting anything: process 1 of a container ignores signals that have
 * no handler.
 * @param close called with the first signal. The process exits with 0 once `close` resolves, and with 1 if it rejects
 */
export function stopOnSignals(close: (signal: NodeJS.Signals) => Promise<void>): void {
  // Failing output (a full disk, a closed pipe) must not end the process.
  for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined);
  let stoppedAt: number | undefined;
  const stop = (signal: NodeJS.Signals) => {
    const now = performance.now();
    if (stoppedAt !== undefined) {
      if (now - stoppedAt >= SAME_SIGNAL_MS) process.exit(1);
      return;
    }
    stoppedAt = now;
    close(signal).then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
}

/** Reloads at each SIGHUP. @param reload does the reload, and must not reject */
export function reloadOnSignal(reload: () => Promise<void>): void {
  process.on('SIGHUP', () => void reload());
}
