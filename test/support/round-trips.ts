/** Counts the round trips to Redis during some work, without those of background work. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisServer } from './redis-server.ts';

export interface RoundTrips {
  /**
   * Without the round trips of an idle period of the same length. During work, a starved process makes fewer of those.
   */
  min: number;
  /** Including all background round trips. */
  max: number;
  seconds: number;
}

/** Commands that are sent together count as one round trip. The server must not be used by other work. */
export async function roundTrips(redis: RedisServer, work: () => Promise<void>): Promise<RoundTrips> {
  const readCount = () => Number(/total_reads_processed:(\d+)/.exec(redis.sendCommand('INFO', 'stats'))?.[1]);
  const measure = async (task: () => Promise<void>) => {
    const readsBefore = readCount();
    const startedAt = performance.now();
    await task();
    return { count: readCount() - readsBefore, milliseconds: performance.now() - startedAt };
  };
  const { count, milliseconds } = await measure(work);
  // The background commands of the process in a period of the same length.
  const idle = await measure(() => sleep(milliseconds));
  return { min: count - idle.count, max: count, seconds: milliseconds / 1_000 };
}
