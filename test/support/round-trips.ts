/** Owns the counting of round trips: how often something arrived at a Redis while something was done, without what comes all the time. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisServer } from './redis-server.ts';

/** Commands that were sent together arrive together. Only for a server that this work alone asks. */
export async function roundTrips(redis: RedisServer, work: () => Promise<void>): Promise<number> {
  const arrivals = () => Number(/total_reads_processed:(\d+)/.exec(redis.ask('INFO', 'stats'))?.[1]);
  const measured = async (one: () => Promise<void>) => {
    const [before, startedAt] = [arrivals(), performance.now()];
    await one();
    return { count: arrivals() - before, milliseconds: performance.now() - startedAt };
  };
  const { count, milliseconds } = await measured(work);
  // What the process asks of itself, in a time of the same length.
  const idle = await measured(() => sleep(milliseconds));
  return count - idle.count;
}
