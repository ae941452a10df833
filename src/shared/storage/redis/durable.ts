/** Writes that a replica must confirm, on a separate connection, with one `WAIT` for all that arrived together. */
import { unavailable } from '../unavailable.ts';
import type { RedisConnection } from './connection.ts';

/** Like `RedisConnection.run`, but resolves once the write is as durable as `REDIS_DURABILITY` demands. */
export type RunWrite = RedisConnection['run'];

const MAX_WAITING = 8_192;

interface Job {
  since: number;
  send(): Promise<unknown>;
  finish(): void;
  fail(error: unknown): void;
}

/**
 * `WAIT` blocks its connection, so writes that arrive during one `WAIT` share the next one. A write takes one or two
 * round trips to the replica, however many writes there are. The result of a write that no replica confirmed is
 * unknown, and further writes are refused at once until a replica has caught up.
 */
export function createDurableWrites(connection: RedisConnection, deadlineMilliseconds: number): RunWrite {
  // A write may wait half of the deadline for earlier writes, and half for its replica. So a response that a busy
  // machine delays still arrives before the deadline of the connection, which would end the connection and lose the
  // state of the replica.
  const halfDeadline = deadlineMilliseconds / 2;
  const jobs: Job[] = [];
  let isActive = false;
  let isLagging = false;

  /** Returns the number of replicas that have the writes of this connection, or the error. */
  const confirmations = (): Promise<number | Error> =>
    connection.run((client) => client.wait(1, halfDeadline)).catch((error: Error) => error);

  async function work(): Promise<void> {
    while (jobs.length > 0) {
      const batch = failLate(jobs.splice(0), halfDeadline);
      if (batch.length > 0 && (await finishTogether(batch, confirmations)) === 0) void untilCaughtUp();
    }
    isActive = false;
  }

  async function untilCaughtUp(): Promise<void> {
    isLagging = true;
    for (const job of jobs.splice(0)) job.fail(unconfirmedError());
    // The loop also stops if the connection ends. Then the first write on the next connection waits for the replica.
    while ((await confirmations()) === 0);
    isLagging = false;
  }

  return (command) =>
    new Promise((resolve, reject) => {
      if (isLagging) throw unconfirmedError();
      if (jobs.length >= MAX_WAITING) throw tooManyError();
      let settle = () => {};
      jobs.push({
        since: performance.now(),
        async send() {
          const response = await connection.run(command);
          settle = () => resolve(response);
        },
        finish: () => settle(),
        fail: reject,
      });
      if (isActive) return;
      isActive = true;
      void work();
    });
}

/** Fails the writes that would exceed the deadline during their `WAIT`, and returns the others. */
function failLate(jobs: readonly Job[], milliseconds: number): Job[] {
  const earliestSince = performance.now() - milliseconds;
  for (const job of jobs) if (job.since < earliestSince) job.fail(tooManyError());
  return jobs.filter((job) => job.since >= earliestSince);
}

async function finishTogether(
  jobs: readonly Job[],
  confirmations: () => Promise<number | Error>,
): Promise<number | Error> {
  const responses = jobs.map((job) => job.send().catch((error: unknown) => job.fail(error)));
  const replicas = await confirmations();
  await Promise.all(responses);
  const fault = replicas instanceof Error ? replicas : unconfirmedError();
  // A failed job stays failed, because a promise settles only once.
  for (const job of jobs) typeof replicas === 'number' && replicas > 0 ? job.finish() : job.fail(fault);
  return replicas;
}

const unconfirmedError = () => unavailable('No replica has confirmed the write');
const tooManyError = () => unavailable('Too many writes wait for a replica');
