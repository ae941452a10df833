/** Writes that a replica must confirm: on a connection of their own, with one `WAIT` for all that arrived together. */
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
 * `WAIT` blocks its whole connection, so writes that arrive meanwhile share the next one: a write takes one or two round
 * trips to the replica, however many there are. A write that no replica confirmed is unknown, and all further writes are
 * refused at once until a replica has caught up with it.
 */
export function createDurableWrites(connection: RedisConnection, deadlineMilliseconds: number): RunWrite {
  // A write waits half of the deadline for the writes before it, and half for its replica. A response that a busy machine
  // delays still arrives before the deadline, which would end the connection and with it the state of the replica.
  const halfDeadline = deadlineMilliseconds / 2;
  const jobs: Job[] = [];
  let active = false;
  let lagging = false;

  /** How many replicas have the writes of this connection, or the error. */
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
    // It also stops if the connection ends. Then the first write on the next connection waits for the replica.
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
          const response = await connection.run(command);
          settle = () => resolve(response);
        },
        finish: () => settle(),
        fail: reject,
      });
      if (active) return;
      active = true;
      void work();
    });
}

/** A write that has waited longer would pass the deadline with its own `WAIT`. */
function withoutLate(jobs: readonly Job[], milliseconds: number): Job[] {
  const since = performance.now() - milliseconds;
  for (const job of jobs) if (job.since < since) job.fail(tooMany());
  return jobs.filter((job) => job.since >= since);
}

async function finishTogether(
  jobs: readonly Job[],
  confirmations: () => Promise<number | Error>,
): Promise<number | Error> {
  const responses = jobs.map((job) => job.send().catch((error: unknown) => job.fail(error)));
  const replicas = await confirmations();
  await Promise.all(responses);
  const fault = replicas instanceof Error ? replicas : replicaLags();
  // A job that has failed stays failed, because a promise settles once.
  for (const job of jobs) typeof replicas === 'number' && replicas > 0 ? job.finish() : job.fail(fault);
  return replicas;
}

const replicaLags = () => unavailable('No replica has confirmed the write');
const tooMany = () => unavailable('Too many writes wait for a replica');
