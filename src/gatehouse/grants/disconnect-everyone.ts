/** Disconnects every user from an app, in the background: if the process ends, another one resumes the job. */
import type { By } from '../../shared/observability/events.ts';
import { keys } from '../../shared/storage/keys.ts';
import { createLeases } from '../../shared/storage/lease.ts';
import { allMembers } from '../../shared/storage/paging.ts';
import type { Store, Write } from '../../shared/storage/store.ts';
import { updateRecord } from '../../shared/storage/update-record.ts';
import { DAY_SECONDS } from '../../shared/time.ts';
import type { ConnectionIndex } from './connection-index.ts';
import type { Connections, DisconnectResult } from './connections.ts';

/** Times in milliseconds since the epoch. */
export interface DisconnectProgress {
  app: string;
  startedAt: number;
  finishedAt?: number | undefined;
  /** The number of connections at the start. */
  total: number;
  /** The number of connections that have ended. */
  done: number;
  /** How many connections ended in each way. */
  results: Partial<Record<DisconnectResult, number>>;
}

interface Job extends DisconnectProgress {
  by: By;
}

const BATCH = 10;
const LEASE_MS = 15_000;
const JOB_LIFETIME_SECONDS = 30 * DAY_SECONDS;

export interface DisconnectEveryone {
  /** Starts a job, or returns the progress of the running one. Connections that are created later stay. */
  start(appId: string, by: By): Promise<DisconnectProgress>;

  progress(appId: string): Promise<DisconnectProgress | undefined>;

  /** Resumes the jobs of ended processes in the background. Each job has its own lease, so none waits for another. */
  resume(): Promise<void>;

  /** Stops, and resolves once no batch is running in this process. */
  close(): Promise<void>;
}

export function createDisconnectEveryone(parts: {
  store: Store;
  index: Pick<ConnectionIndex, 'oldest' | 'count' | 'drop'>;
  connections: Pick<Connections, 'end'>;
  clock: () => number;
}): DisconnectEveryone {
  const { store, index, connections, clock } = parts;
  const leases = createLeases({ store, milliseconds: LEASE_MS });
  const inFlight = new Set<Promise<unknown>>();
  let isStopping = false;

  const load = async (appId: string): Promise<{ job: Job | undefined; version: number }> => {
    const stored = await store.get(keys.disconnectJob(appId));
    return { job: stored && (JSON.parse(stored.value) as Job), version: stored?.version ?? 0 };
  };

  const save = (job: Job, ifVersion: number) => {
    const [put, value] = [keys.disconnectJob(job.app), JSON.stringify(job)];
    return store.write([{ put, value, lifetimeSeconds: JOB_LIFETIME_SECONDS, ifVersion }, listWrite(job)]);
  };

  const endOne = async (userId: string, { app: appId, by }: Job): Promise<DisconnectResult | undefined> => {
    const ended = await connections.end(userId, appId, { by });
    if (ended === undefined) await index.drop({ userId, appId });
    return ended?.revocation;
  };

  /** Ends a batch of connections. Returns true if the next batch can follow at once. */
  const endBatch = async (appId: string): Promise<boolean> => {
    const { job, version } = await load(appId);
    if (!job || job.finishedAt !== undefined) return false;
    const batch = await index.oldest(appId, BATCH, job.startedAt);
    const attempts = await Promise.allSettled(batch.map(({ userId }) => endOne(userId, job)));
    const outcomes = attempts.filter((attempt) => attempt.status === 'fulfilled').map(({ value }) => value);
    const revocations = outcomes.filter((outcome) => outcome !== undefined);
    const results = { ...job.results };
    for (const result of revocations) results[result] = (results[result] ?? 0) + 1;
    const done = job.done + revocations.length;
    const end = batch.length === 0 ? { finishedAt: clock() } : {};
    // Undefined if another process took the job over while this one was suspended. The other process continues.
    const savedVersion = await save({ ...job, ...end, done, total: Math.max(job.total, done), results }, version);
    // If no connection could be ended, the store is unavailable: the next scheduled task resumes the job.
    return savedVersion !== undefined && outcomes.length > 0;
  };

  const endAll = async (appId: string): Promise<void> => {
    let continues = true;
    while (continues && !isStopping) continues = await endBatch(appId);
  };

  const work = (appId: string): Promise<unknown> => {
    const job = leases.hold(keys.taskLease(`disconnect-everyone:${appId}`), () => endAll(appId)).catch(() => undefined);
    inFlight.add(job);
    return job.finally(() => inFlight.delete(job));
  };

  return {
    async start(appId, by) {
      const begin = async (job: Job | undefined): Promise<Job> =>
        job && job.finishedAt === undefined
          ? job
          : { app: appId, startedAt: clock(), total: await index.count(appId), done: 0, results: {}, by };
      const { after } = await updateRecord(store, keys.disconnectJob(appId), begin, {
        lifetimeSeconds: JOB_LIFETIME_SECONDS,
        writes: (updated) => [listWrite(updated.after)],
      });
      void work(appId);
      return progressOf(after);
    },

    async progress(appId) {
      const { job } = await load(appId);
      return job && progressOf(job);
    },

    async resume() {
      for (const appId of await allMembers(store, keys.disconnectJobs)) if (!isStopping) void work(appId);
    },

    async close() {
      isStopping = true;
      await Promise.all(inFlight);
    },
  };
}

function listWrite({ app, startedAt, finishedAt }: Job): Write {
  const index = keys.disconnectJobs;
  return finishedAt === undefined ? { index, add: app, score: startedAt } : { index, remove: app };
}

function progressOf({ by: _by, ...progress }: Job): DisconnectProgress {
  return progress;
}
