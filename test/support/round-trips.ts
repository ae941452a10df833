/** Counts the round trips to a Redis during some work, without those that happen all the time. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisServer } from './redis-server.ts';

export interface RoundTrips {
  /** Without as many as come by themselves in the same time. A process that starves while it works sends fewer of those. */
  least: number;
  /** With all that came meanwhile. */
  most: number;
  seconds: number;
}

/** Commands that were sent together arrive together. Only for a server that this work alone asks. */
export async function roundTrips(redis: RedisServer, work: () => Promise<void>): Promise<RoundTrips> {
  const arrivals = () => Number(/total_reads_processed:(\d+)/.exec(redis.ask('INFO', 'stats'))?.[1]);
  const measured = async (one: () => Promise<void>) => {
    const [before, startedAt] = [arrivals(), performance.now()];
    await one();
    return { count: arrivals() - before, milliseconds: performance.now() - startedAt };
  };
  const { count, milliseconds } = await measured(work);
  // What the process asks of itself, in a time of the same length.
  const idle = await measured(() => sleep(milliseconds));
  return { least: count - idle.count, most: count, seconds: milliseconds / 1_000 };
}
