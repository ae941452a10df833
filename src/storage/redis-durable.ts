/** Owns writes that a replica must have before they are answered: a connection of their own, and one `WAIT` for all that came together. */

import type { RedisConnection } from './redis-connection.ts';
import { unavailable } from './redis-faults.ts';

/** Sends one command as a connection does, and resolves when it is as durable as was asked for. */
export type RunWrite = RedisConnection['run'];

/** How long the server waits for its replica; less than the deadline of a command. */
const WAIT_MILLISECONDS = 200;
/** What waited longer for those before it would pass the deadline with its own `WAIT`, and is refused unsent. */
const LONGEST_QUEUE_MILLISECONDS = 150;

const MOST_WAITING = 8_192;

interface Job {
  since: number;
  send(): Promise<unknown>;
  finish(): void;
  fail(error: unknown): void;
}

/**
 * `WAIT` holds up its whole connection, so writes that come meanwhile are gathered and share the next one: a write costs
 * one to two journeys to the replica, and their number does not matter. A write that no replica confirmed is unknown.
 */
export function createDurableWrites(connection: RedisConnection): RunWrite {
  const jobs: Job[] = [];
  let active = false;

  async function work(): Promise<void> {
    while (jobs.length > 0) await finishBatch(connection, jobs.splice(0));
    active = false;
  }

  return (command) =>
    new Promise((resolve, reject) => {
      if (jobs.length >= MOST_WAITING) throw unavailable('Too many writes wait for a replica');
      let settle = () => {};
      jobs.push({
        since: performance.now(),
        async send() {
          const answer = await connection.run(command);
          settle = () => resolve(answer);
        },
        finish: () => settle(),
        fail: reject,
      });
      if (active) return;
      active = true;
      void work();
    });
}

async function finishBatch(connection: RedisConnection, jobs: readonly Job[]): Promise<void> {
  const now = performance.now();
  const sent = jobs.filter((job) => now - job.since <= LONGEST_QUEUE_MILLISECONDS);
  for (const job of jobs) if (!sent.includes(job)) job.fail(unavailable('Too many writes wait for a replica'));
  if (sent.length === 0) return;
  const answers = sent.map((job) => job.send().catch((error: unknown) => job.fail(error)));
  const replicas = await connection.run((client) => client.wait(1, WAIT_MILLISECONDS)).catch((error: unknown) => error);
  await Promise.all(answers);
  const confirmed = typeof replicas === 'number' && replicas >= 1;
  const fault = replicas instanceof Error ? replicas : unavailable('No replica has confirmed the write');
  // A job that has failed before stays failed: a promise settles once.
  for (const job of sent) confirmed ? job.finish() : job.fail(fault);
}
