/** Measures how long the commands of a store take. */
import type { Store } from './store.ts';

/** The commands of requests and background work, but not those that copy the whole store. */
const TIMED_COMMANDS = [
  ...(['get', 'getIfChanged', 'write', 'page', 'count', 'increment', 'counter'] as const),
  ...(['append', 'readLog', 'logEntries', 'removeEntries', 'acquireLease', 'renewLease', 'releaseLease'] as const),
] satisfies (keyof Store)[];
export type TimedCommand = (typeof TIMED_COMMANDS)[number];

/** @param timesOf returns the histogram for the durations of a command, failed calls included */
export function timedStore(
  store: Store,
  timesOf: (command: TimedCommand) => { observe(seconds: number): void },
): Store {
  const timedCommand = (command: TimedCommand) => {
    const run = store[command] as (...parameters: unknown[]) => Promise<unknown>;
    const histogram = timesOf(command);
    return (...parameters: unknown[]) => {
      const startedAt = performance.now();
      const observe = () => histogram.observe((performance.now() - startedAt) / 1_000);
      const result = run(...parameters);
      result.then(observe, observe);
      return result;
    };
  };
  return { ...store, ...Object.fromEntries(TIMED_COMMANDS.map((command) => [command, timedCommand(command)])) };
}
