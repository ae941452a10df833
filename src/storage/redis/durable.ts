/** Writes that a replica must have before they are answered: a connection of their own, and one `WAIT` for all that came together. */

import type { RedisConnection } from './connection.ts';
import { unavailable } from './faults.ts';

/** Sends one command as a connection does, and resolves when it is as durable as was asked for. */
export type RunWrite = RedisConnection['run'];

const MAX_WAITING = 8_192;

interface Job {
  since: number;
  send(): Promise<unknown>;
  finish(): void;
  fail(error: unknown): void;
}

/**
 * `WAIT` holds up its whole connection, so writes that come meanwhile are gathered and share the next one: a write costs
 * one to two journeys to the replica, and their number does not matter. A write that no replica confirmed is unknown, and
 * all that follow are refused at once until a replica has caught up with it.
 */
export function createDurableWrites(connection: RedisConnection, deadlineMilliseconds: number): RunWrite {
  // A write waits half of the deadline for the writes before it, and half for its replica. A response that a busy machine
  // delays still comes before the deadline, which would end the connection and what it knows of the replica.
  const halfDeadline = deadlineMilliseconds / 2;
  const jobs: Job[] = [];
  let active = false;
  let lagging = false;

  /** How many replicas have what this connection wrote, or why that is unknown. */
  const confirmations = (): Promise<number | Error> =>
    connection.run((client) => client.wait(1, halfDeadline)).catch((error: Error) => error);

  async function work(): Promise<void> {
    while (jobs.length > 0) {
      const sent = withoutLate(jobs.splice(0), halfDeadline);
      if (sent.length > 0 && (await finishTogether(sent, confirmations)) === 0) void untilCaughtUp();
    }
    active = false;
  }

  async function untilCaughtUp(): Promise<void> {
    lagging = true;
    for (const job of jobs.splice(0)) job.fail(replicaLags());
    // It ends with the connection, too: then the first write over the next one finds out.
    while ((await confirmations()) === 0);
    lagging = false;
  }

  return (command) =>
    new Promise((resolve, reject) => {
      if (lagging) throw replicaLags();
      if (jobs.length >= MAX_WAITING) throw tooMany();
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

/** A write that waited longer for those before it would pass the deadline with its own `WAIT`. */
function withoutLate(jobs: readonly Job[], milliseconds: number): Job[] {
  const since = performance.now() - milliseconds;
  for (const job of jobs) if (job.since < since) job.fail(tooMany());
  return jobs.filter((job) => job.since >= since);
}

async function finishTogether(
  jobs: readonly Job[],
  confirmations: () => Promise<number | Error>,
): Promise<number | Error> {
  const answers = jobs.map((job) => job.send().catch((error: unknown) => job.fail(error)));
  const replicas = await confirmations();
  await Promise.all(answers);
  const fault = replicas instanceof Error ? replicas : replicaLags();
  // A job that has failed before stays failed: a promise settles once.
  for (const job of jobs) typeof replicas === 'number' && replicas > 0 ? job.finish() : job.fail(fault);
  return replicas;
}

const replicaLags = () => unavailable('No replica has confirmed the write');
const tooMany = () => unavailable('Too many writes wait for a replica');
